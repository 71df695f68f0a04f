package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

var fencePromises = []promise{
	// Holds: promise 19.
	{"only the worker that has a task can end it", finishFenced},
	// Holds: promise 19.
	{"a worker whose lease lapsed changes nothing when it wakes", finishLapsed},
	// Holds: promise 19.
	{"a stale worker completes nothing of its successor's", finishStale},
	{"a repeated completion is answered again", finishRepeated},
	{"a repeated completion is known, also where the task runs anew", finishKnown},
	{"a start is fenced as a completion is", startTaskFenced},
	{"a worker is told what it has", mineTold},
}

func finishFenced(w *world) {
	worker, other := w.worker(w.s), w.worker(w.process())
	id := w.add1(some())
	waiting := w.add1(task.Spec{Queue: "elsewhere", Kind: "k"})
	f := w.fetch1(worker, id)
	refused := func(what string, by lease.Ref, r driver.Ref) {
		w.Helper()
		for _, v := range []driver.Verdict{driver.Success, driver.Retry, driver.Fail, driver.Cancel, driver.Drop, driver.Snooze, driver.Return} {
			equal(w, "Finish "+what, w.finish(by, w.ended(r, v)), driver.Gone)
		}
		equal(w, "Start "+what, w.begin(by, r), driver.Gone)
		t := w.task(id)
		equal(w, "state after it", t.State, task.Running)
		equal(w, "attempts after it", t.Attempts, 0)
		equal(w, "history after it", len(t.History), 0)
	}
	refused("by another worker", other, f.Ref)
	refused("with an older token", worker, driver.Ref{ID: id, Token: f.Token - 1})
	refused("with a newer token", worker, driver.Ref{ID: id, Token: f.Token + 1})
	refused("of another task", worker, driver.Ref{ID: waiting, Token: f.Token})
	refused("of a task that never was", worker, driver.Ref{ID: id + 1000, Token: f.Token})
	half := worker
	half.Token++
	refused("under another hold of the lease", half, f.Ref)
	equal(w, "state of the one that waits", w.task(waiting).State, task.Available)

	// Items of a batch do not touch each other.
	second := w.fetch1(worker, w.add1(some()))
	answers, err := w.s.Queue.Finish(w.ctx, worker, []driver.Completion{
		w.ended(driver.Ref{ID: id, Token: f.Token + 1}, driver.Success), w.ended(f.Ref, driver.Success), w.ended(second.Ref, driver.Fail)})
	w.check("Finish", err)
	if len(answers) != 3 || answers[0] != driver.Gone || answers[1] != driver.OK || answers[2] != driver.OK {
		w.Errorf("Finish of a batch: %v", answers)
	}
	equal(w, "state of the first", w.task(id).State, task.Succeeded)
	equal(w, "state of the second", w.task(second.ID).State, task.Failed)
}

func finishLapsed(w *world) {
	worker, released := w.worker(w.s), w.worker(w.s)
	s := unique("u", task.UntilStarted)
	id := w.add1(s)
	f := w.fetch1(worker, id)
	other := w.fetch1(released, w.add1(some()))
	w.lapse(w.s, worker)
	w.release(w.s, released)
	// Nobody has rescued anything yet: the lease alone decides.
	equal(w, "Start under a lapsed lease", w.begin(worker, f.Ref), driver.Gone)
	w.duplicate(s, id, task.Running)
	equal(w, "Finish under a lapsed lease", w.finish(worker, w.ended(f.Ref, driver.Success)), driver.Gone)
	equal(w, "Finish under a released lease", w.finish(released, w.ended(other.Ref, driver.Success)), driver.Gone)
	for _, i := range []task.ID{id, other.ID} {
		equal(w, "state afterwards", w.task(i).State, task.Running)
	}
	if err := w.s.Queue.Register(w.ctx, driver.Process{Lease: worker, Host: "h", Queues: []string{"q"}, Slots: 1}); err == nil {
		w.Error("a worker could join under a lapsed lease")
	}
	equal(w, "tasks that were rescued", w.maintain().Rescued, 2)
	live := w.worker(w.s)
	got := w.fetch(live, 1)
	w.order("what another worker is given", ids(got), []task.ID{id})
	equal(w, "Finish by the old worker", w.finish(worker, w.ended(f.Ref, driver.Success)), driver.Gone)
	w.done(live, got[0].Ref, driver.Success)
}

// finishStale: the first worker's lease lives on, but the task is no longer its.
func finishStale(w *world) {
	first, second := w.worker(w.s), w.worker(w.process())
	id := w.add1(limited("l", 1))
	old := w.fetch1(first, id)
	w.check("Leave", w.s.Queue.Deregister(w.ctx, first))
	equal(w, "Finish by who has left", w.finish(first, w.ended(old.Ref, driver.Success)), driver.Gone)
	equal(w, "Start by who has left", w.begin(first, old.Ref), driver.Gone)
	equal(w, "state", w.task(id).State, task.Available)
	f := w.fetch1(second, id)
	for what, r := range map[string]driver.Ref{"with the old token": old.Ref, "with the new token": f.Ref} {
		equal(w, "Finish "+what, w.finish(first, w.ended(r, driver.Success)), driver.Gone)
	}
	equal(w, "Finish by the second with the old token", w.finish(second, w.ended(old.Ref, driver.Success)), driver.Gone)
	equal(w, "state while the second works", w.task(id).State, task.Running)
	w.done(second, f.Ref, driver.Fail)
	equal(w, "Finish by the first at the very end", w.finish(first, w.ended(old.Ref, driver.Success)), driver.Gone)
	w.state("at the end", id, task.Failed, "")
	equal(w, "attempts", w.task(id).Attempts, 1)
}

func finishRepeated(w *world) {
	worker := w.worker(w.s)
	for _, v := range []driver.Verdict{driver.Success, driver.Retry, driver.Fail, driver.Cancel, driver.Drop, driver.Snooze, driver.Return} {
		id := w.add1(task.Spec{Queue: "q", Kind: "k"})
		c := w.ended(w.fetch1(worker, id).Ref, v)
		c.Delay = time.Hour
		equal(w, "Finish", w.finish(worker, c), driver.OK)
		before := w.task(id)
		equal(w, "Finish again", w.finish(worker, c), driver.OK)
		after := w.task(id)
		equal(w, "state", after.State, before.State)
		equal(w, "attempts", after.Attempts, before.Attempts)
		equal(w, "snoozes", after.Snoozes, before.Snoozes)
		equal(w, "history", len(after.History), len(before.History))
		sameTime(w, "run at", after.RunAt, before.RunAt)
		if v == driver.Return {
			w.done(worker, w.fetch1(worker, id).Ref, driver.Success)
		}
	}
	// A batch may name a run twice.
	f := w.fetch1(worker, w.add1(some()))
	c := w.ended(f.Ref, driver.Success)
	answers, err := w.s.Queue.Finish(w.ctx, worker, []driver.Completion{c, c})
	w.check("Finish", err)
	if len(answers) != 2 || answers[0] != driver.OK || answers[1] != driver.OK {
		w.Errorf("Finish of the same twice: %v", answers)
	}
	equal(w, "attempts", w.task(f.ID).Attempts, 1)
}

// finishKnown: who did not hear that his completion was carried out is told so, whoever has the task by then.
func finishKnown(w *world) {
	worker, other := w.worker(w.s), w.worker(w.process())
	for _, s := range []task.Spec{some(), keyed("u", "l")} {
		for _, v := range []driver.Verdict{driver.Retry, driver.Snooze, driver.Return} {
			for _, next := range []lease.Ref{other, worker} {
				id := w.add1(s)
				c := w.ended(w.fetch1(worker, id).Ref, v)
				c.Delay = time.Millisecond
				equal(w, "Finish", w.finish(worker, c), driver.OK)
				w.until(w.now(w.s).Add(c.Delay))
				f := w.fetch1(next, id)
				before := w.task(id)
				equal(w, "Finish again, while the task runs", w.finish(worker, c), driver.OK)
				never := c
				never.Token = f.Token - 1
				equal(w, "Finish with a token that nobody had", w.finish(worker, never), driver.Gone)
				after := w.task(id)
				equal(w, "state", after.State, task.Running)
				equal(w, "token", after.Token, f.Token)
				equal(w, "attempts", after.Attempts, before.Attempts)
				w.done(next, f.Ref, driver.Success)
				equal(w, "Finish of the last one, again", w.finish(next, w.ended(f.Ref, driver.Success)), driver.OK)
			}
		}
	}
}

func startTaskFenced(w *world) {
	worker := w.worker(w.s)
	f := w.fetch1(worker, w.add1(some()))
	equal(w, "Start", w.begin(worker, f.Ref), driver.OK)
	equal(w, "a repeated Start", w.begin(worker, f.Ref), driver.OK)
	equal(w, "Start with an older token", w.begin(worker, driver.Ref{ID: f.ID, Token: f.Token - 1}), driver.Gone)
	w.done(worker, f.Ref, driver.Success)
	equal(w, "Start after its end", w.begin(worker, f.Ref), driver.Gone)
	w.state("after it", f.ID, task.Succeeded, "")
}

func mineTold(w *world) {
	worker, other := w.worker(w.s), w.worker(w.s)
	all := w.add(some(), some(), some())
	got := w.fetch(worker, 2)
	w.fetch(other, 1)
	mine := func(asked bool) map[driver.Ref]string {
		w.Helper()
		list, err := w.process().Queue.Running(w.ctx, worker, asked)
		w.check("Mine", err)
		m := map[driver.Ref]string{}
		for _, a := range list {
			m[a.Ref] = a.Stop
		}
		return m
	}
	equal(w, "tasks of the worker", len(mine(false)), 2)
	equal(w, "tasks that are to stop", len(mine(true)), 0)
	w.acted(driver.OpCancel, all[1], driver.Asking)
	if m := mine(true); len(m) != 1 || m[got[1].Ref] != task.ReasonOperator {
		w.Errorf("tasks that are to stop: %v", m)
	}
	if m := mine(false); len(m) != 2 || m[got[0].Ref] != "" || m[got[1].Ref] != task.ReasonOperator {
		w.Errorf("tasks of the worker: %v", m)
	}
	equal(w, "why it is to stop", w.task(all[1]).Stop, task.ReasonOperator)
	c := w.ended(got[1].Ref, driver.Cancel)
	c.Reason = task.ReasonOperator
	equal(w, "Finish", w.finish(worker, c), driver.OK)
	equal(w, "tasks that are to stop", len(mine(true)), 0)
	equal(w, "tasks of the worker", len(mine(false)), 1)
	w.state("the canceled one", all[1], task.Canceled, task.ReasonOperator)
}
