package storetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

var rescuePromises = []promise{
	// Holds: promise 19.
	{"a dead worker's tasks become suspect, and no crash counts", rescued},
	{"a live worker's tasks are left alone", rescueSpares},
	{"suspects are given one at a time", suspectsSingly},
	{"suspects are given in order, whether they have a limit or not", suspectsInOrder},
	{"a suspect that may not be given is not ended for its limit either", suspectsLeftAlone},
	// Holds: Q4, Q5.
	{"suspects that may not be given hide nobody, in the later queues either", suspectsHideNobody},
	// Holds: promise 19.
	{"a death counts against a suspect only when its start was written", suspectCrashes},
	{"one that took a worker down is given only to who asks for it", crashersApart},
	// Holds: promise 19.
	{"crashes end with their budget", crashBudget},
	{"a rescue frees the slot and leaves the keys", rescueKeeps},
	{"a rescue takes a bounded amount at a time", rescueBounded},
	{"many may rescue at once, and each task is rescued once", rescueTogether},
	{"whoever leaves is forgotten, and its tasks are others' at once", leave},
	{"what a worker is given after it left is rescued with its lease", leaveLate},
	// Holds: promise 19.
	{"the end of a run that was taken for crashed is refused", endOfTheCrashed},
	// Holds: promises 19, 26.
	{"whoever leaves with more tasks than a step takes leaves none of them behind", leaveMany},
}

// dies lets a worker's lease lapse, and has somebody notice.
func (w *world) dies(worker lease.Ref) driver.Maintained {
	w.Helper()
	w.lapse(w.s, worker)
	t := w.maintain()
	equal(w, "repairs in the step that rescues", t.Repaired, 0) // else that step left something wrong
	return t
}

func rescued(w *world) {
	worker := w.worker(w.s)
	all := w.add(some(), some(), some())
	got := w.fetches("Fetch", worker, 2, all[:2]...)
	equal(w, "Start of one", w.begin(worker, got[0].Ref), driver.OK)
	t := w.dies(worker)
	equal(w, "rescued", t.Rescued, 2)
	equal(w, "crashed", t.Crashed, 0)
	if len(t.Dead) != 1 || t.Dead[0].Lease != worker || t.Dead[0].Host != "h" || t.Dead[0].PID != 1 || t.Dead[0].Running != 2 {
		w.Errorf("dead workers: %+v", t.Dead)
	}
	for i, id := range all {
		t := w.task(id)
		equal(w, "state", t.State, task.Available)
		equal(w, "attempts", t.Attempts, 0)
		equal(w, "crashes", t.Crashes, 0)
		equal(w, "suspect", t.Suspect, i < 2)
	}
	again := w.maintain()
	equal(w, "rescued by a second look", again.Rescued, 0)
	equal(w, "dead workers at a second look", len(again.Dead), 0)

	other := w.worker(w.s)
	f := w.fetches("one suspect, and the other task", other, 10, all[0], all[2])
	equal(w, "the worker is told", f[0].Suspect, true)
	equal(w, "its start must be written", f[0].MustStart(), true)
	equal(w, "the other's need not", f[1].MustStart(), false)
	w.done(other, f[0].Ref, driver.Success)
	w.fetches("the other suspect", other, 10, all[1])
}

func rescueSpares(w *world) {
	worker := w.worker(w.s)
	id := w.add1(some())
	f := w.fetch1(worker, id)
	for range 3 {
		equal(w, "Renew", w.renew(w.s, worker).Status, lease.OK)
		equal(w, "rescued", w.maintain().Rescued, 0)
	}
	w.state("a live worker's task", id, task.Running, "")
	w.done(worker, f.Ref, driver.Success)
	equal(w, "rescued from one that has nothing", w.dies(worker).Rescued, 0)
}

// suspects are n tasks whose worker died while it had them.
func (w *world) suspects(n int, s task.Spec) []task.ID {
	w.Helper()
	worker := w.worker(w.s)
	var all []task.ID
	for range n {
		all = append(all, w.add1(s))
	}
	if got := w.fetch(worker, n); len(got) != n {
		w.Fatalf("Fetch: %v", ids(got))
	}
	equal(w, "rescued", w.dies(worker).Rescued, n)
	return all
}

func suspectsSingly(w *world) {
	suspects, healthy := w.suspects(3, some()), w.add(some(), some())
	worker := w.worker(w.s)
	got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker})
	w.order("without suspects", ids(got.Tasks), healthy)
	got = w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: true})
	w.order("with suspects", ids(got.Tasks), suspects[:1])
	got = w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: true})
	w.order("once more, beside the first", ids(got.Tasks), suspects[1:2])
	later := w.add1(some())
	got = w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: true})
	w.order("a suspect in its place among others", ids(got.Tasks), []task.ID{suspects[2], later})
}

func suspectsInOrder(w *world) {
	of := func(key string, priority int) task.Spec {
		s := some()
		s.Priority = priority
		if key != "" {
			s.Limit = &task.Limit{Key: key}
		}
		return s
	}
	worker := w.worker(w.s)
	suspects := w.add(of("a", 9), of("", 8), of("b", 7), of("", 6), of("c", 5))
	w.fetches("Fetch", worker, 10, suspects...)
	equal(w, "rescued", w.dies(worker).Rescued, len(suspects))
	worker = w.worker(w.s)
	for _, id := range suspects[:3] {
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: true})
		w.order("suspects alone", ids(got.Tasks), []task.ID{id})
	}
	healthy := w.add(of("d", 1), of("e", 2), of("", 3))
	got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: true, Max: 2})
	w.order("a suspect before others", ids(got.Tasks), []task.ID{suspects[3], healthy[2]})
	got = w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: true})
	w.order("what is left", ids(got.Tasks), []task.ID{suspects[4], healthy[1], healthy[0]})
}

// suspectsHideNobody: suspects with limits of their own stand first in a queue that comes after another one, and a
// worker that wants one task, and no suspect, gets what stands behind them.
func suspectsHideNobody(w *world) {
	var hard []task.Spec
	for i := range 5 {
		s := limited(fmt.Sprint("l", i), 1)
		s.Priority = 5
		hard = append(hard, s)
	}
	worker := w.worker(w.s)
	for range w.add(hard...) {
		w.fetch(worker, 1)
	}
	equal(w, "rescued", w.dies(worker).Rescued, len(hard))
	other := some()
	other.Queue = "p"
	id := w.add1(limited("m", 1))
	first := w.add1(other)
	healthy := w.worker(w.s)
	for n, want := range []task.ID{first, id} {
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: healthy, Queues: []string{"p", "q"}, Max: 1})
		w.order(fmt.Sprint("fetch ", n), ids(got.Tasks), []task.ID{want})
	}
}

func suspectsLeftAlone(w *world) {
	for _, on := range []task.Contention{task.Discard, task.Displace} {
		s := limited(string(on), 1)
		s.Limit.OnContention = on
		suspect, first := w.suspects(1, s)[0], some()
		first.Priority = 9
		before := w.suspects(1, first)[0]
		worker := w.worker(w.s)
		s.Queue = "p"
		full := w.add1(s)
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"p"}})
		w.order("who takes the slot", ids(got.Tasks), []task.ID{full})

		left := func(what string, may bool, want ...task.ID) {
			w.Helper()
			got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: may})
			w.order(what, ids(got.Tasks), want)
			w.state(what, suspect, task.Available, "")
			equal(w, what+": who has the slot is asked to stop", w.task(full).Stop, "")
		}
		left(string(on)+" without suspects", false)
		left(string(on)+" behind another suspect", true, before)
		w.fetches("all of them", worker, 10)
		if on == task.Discard {
			w.state("its limit is full", suspect, task.Discarded, task.ReasonOverlap)
		} else {
			equal(w, "who has the slot is asked to stop", w.task(full).Stop, task.ReasonReplaced)
		}
	}
}

func suspectCrashes(w *world) {
	id := w.suspects(1, some())[0]
	die := func(what string, begun bool, crashes int) {
		w.Helper()
		worker := w.worker(w.s)
		f := w.fetch1(worker, id)
		if begun {
			equal(w, "Start", w.begin(worker, f.Ref), driver.OK)
		}
		equal(w, "rescued "+what, w.dies(worker).Rescued, 1)
		t := w.task(id)
		equal(w, "crashes "+what, t.Crashes, crashes)
		equal(w, "attempts "+what, t.Attempts, 0)
		equal(w, "state "+what, t.State, task.Available)
	}
	die("before its start", false, 0)
	die("before its start, again", false, 0)
	die("after its start", true, 1)
	die("before its start, at last", false, 1)
	die("after its start, again", true, 2)
	worker := w.worker(w.s)
	f := w.fetch1(worker, id)
	equal(w, "crashes that the worker is told", f.Crashes, 2)
	w.done(worker, f.Ref, driver.Success)
	w.state("it may still succeed", id, task.Succeeded, "")
}

func crashersApart(w *world) {
	id := w.suspects(1, some())[0]
	worker := w.worker(w.s)
	equal(w, "Start", w.begin(worker, w.fetch1(worker, id).Ref), driver.OK)
	equal(w, "rescued", w.dies(worker).Rescued, 1)
	suspect := w.suspects(1, task.Spec{Queue: "q", Kind: "other"})[0]
	worker = w.worker(w.s)
	got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: true})
	w.order("without crashers", ids(got.Tasks), []task.ID{suspect})
	got = w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: true})
	equal(w, "what is left without crashers", len(got.Tasks), 0)
	got = w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Suspects: true, Crashers: true})
	w.order("with crashers", ids(got.Tasks), []task.ID{id})
}

func crashBudget(w *world) {
	s := unique("u", task.UntilFinished)
	s.Limit = &task.Limit{Key: "l"}
	s.MaxCrashes = 2
	id := w.suspects(1, s)[0]
	behind := w.add1(task.Spec{Queue: "q", Kind: "k", Limit: s.Limit})
	for n := 1; n <= 2; n++ {
		w.duplicate(s, id, w.task(id).State)
		worker := w.worker(w.s)
		equal(w, "Start", w.begin(worker, w.fetch1(worker, id).Ref), driver.OK)
		t := w.dies(worker)
		equal(w, "crashed", t.Crashed, n/2)
		equal(w, "rescued", t.Rescued, 1-n/2)
	}
	t := w.task(id)
	equal(w, "state", t.State, task.Crashed)
	equal(w, "crashes", t.Crashes, 2)
	equal(w, "it ended", t.Ended.IsZero(), false)
	if n := len(t.History); n != 2 || t.History[n-1].Outcome != "crashed" || t.History[n-1].Host != "h" ||
		t.History[n-1].Started.IsZero() || t.History[n-1].Ended.Before(t.History[n-1].Started) {
		w.Errorf("history: %+v", t.History)
	}
	worker := w.worker(w.s)
	w.fetches("who waited behind it", worker, 10, behind)
	w.add1(s) // its key is free

	// Whoever looks into it may try it again, with a fresh budget.
	w.acted(driver.OpRetry, id, driver.Taken)
	other := w.suspects(1, task.Spec{Queue: "q", Kind: "once", Options: task.Options{MaxCrashes: 1}})[0]
	for range 2 {
		worker := w.worker(w.s)
		got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Kinds: []string{"once"}, Suspects: true, Crashers: true})
		if len(got.Tasks) != 1 {
			w.Fatalf("Fetch: %v", ids(got.Tasks))
		}
		equal(w, "Start", w.begin(worker, got.Tasks[0].Ref), driver.OK)
		equal(w, "crashed", w.dies(worker).Crashed, 1)
		w.acted(driver.OpRetry, other, driver.Done)
		equal(w, "crashes after a manual retry", w.task(other).Crashes, 0)
	}
}

func rescueKeeps(w *world) {
	worker := w.worker(w.s)
	finished, started, begun := unique("f", task.UntilFinished), unique("s", task.UntilStarted), unique("b", task.UntilStarted)
	finished.Limit = &task.Limit{Key: "l"}
	all := w.add(finished, started, begun)
	behind := w.add1(limited("l", 1))
	got := w.fetches("Fetch", worker, 10, all...)
	equal(w, "Start", w.begin(worker, got[2].Ref), driver.OK)
	equal(w, "rescued", w.dies(worker).Rescued, 3)
	_, held, _ := w.find(all[0])
	equal(w, "slots in use", len(held.Running), 0)
	w.duplicate(finished, all[0], task.Available)
	w.duplicate(started, all[1], task.Available)
	w.add1(begun)
	worker = w.worker(w.s)
	f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Kinds: []string{"k"}, Max: 1, Suspects: true})
	w.order("its place behind the limit is the first", ids(f.Tasks), all[:1])
	w.done(worker, f.Tasks[0].Ref, driver.Success)
	equal(w, "who waited behind the limit is given", slices.Contains(ids(w.fetch(worker, 100)), behind), true)
	equal(w, "repairs", w.maintain().Repaired, 0)
}

func rescueBounded(w *world) {
	worker := w.worker(w.s)
	var specs []task.Spec
	for range 25 {
		specs = append(specs, some())
	}
	w.add(specs...)
	equal(w, "tasks", len(w.fetch(worker, 100)), 25)
	w.lapse(w.s, worker)
	total := 0
	for range 20 {
		t := w.maintainWith(driver.MaintainRequest{Max: 10})
		if t.Rescued > 10 {
			w.Errorf("it rescued %d of at most 10", t.Rescued)
		}
		total += t.Rescued
		if !t.More {
			break
		}
	}
	equal(w, "rescued", total, 25)
	equal(w, "tasks that still run", len(w.tasks(driver.Filter{States: []task.State{task.Running}})), 0)
}

func rescueTogether(w *world) {
	processes := []*store.Store{w.s, w.process(), w.process()}
	var total, crashed atomic.Int64
	for range 4 {
		worker := w.worker(w.s)
		w.add(limited("l", 5), some(), some(), limited("l", 5))
		if got := w.fetch(worker, 4); len(got) == 0 {
			w.Fatal("nothing to fetch")
		}
		w.lapse(w.s, worker)
	}
	running := len(w.tasks(driver.Filter{States: []task.State{task.Running}}))
	together(8, func(i int) {
		t, err := processes[i%3].Queue.Maintain(w.ctx, driver.MaintainRequest{})
		if err != nil {
			w.Errorf("Maintain: %v", err)
		}
		total.Add(int64(t.Rescued))
		crashed.Add(int64(t.Crashed))
		equal(w, "repairs", t.Repaired, 0)
	})
	equal(w, "rescued", int(total.Load()), running)
	equal(w, "crashed", int(crashed.Load()), 0)
	worker, left := w.worker(w.s), 16
	for deadline := w.now(w.s).Add(20 * time.Second); left > 0 && w.now(w.s).Before(deadline); {
		for _, f := range w.fetch(worker, 10) {
			w.done(worker, f.Ref, driver.Success)
			left--
		}
	}
	equal(w, "tasks that were not given again", left, 0)
}

func leave(w *world) {
	worker := w.worker(w.s)
	id := w.add1(some())
	w.fetch1(worker, id)
	equal(w, "workers", len(w.workers()), 1)
	w.check("Leave", w.s.Queue.Deregister(w.ctx, worker))
	equal(w, "workers after it", len(w.workers()), 0)
	t := w.task(id)
	equal(w, "state", t.State, task.Available)
	equal(w, "suspect", t.Suspect, true)
	equal(w, "crashes", t.Crashes, 0)
	w.check("Leave again", w.s.Queue.Deregister(w.ctx, worker))
	w.fetch1(w.worker(w.s), id)
}

// leaveLate: the lease alone decides who may fetch. What was given after the worker had left is rescued like the rest.
func leaveLate(w *world) {
	worker := w.worker(w.s)
	w.check("Leave", w.s.Queue.Deregister(w.ctx, worker))
	id, other := w.add1(some()), w.add1(limited("l", 1))
	got := w.fetches("by who has left, under a live lease", worker, 2, id, other)
	w.done(worker, got[0].Ref, driver.Success)
	w.release(w.s, worker)
	equal(w, "Finish without a lease", w.finish(worker, w.ended(got[1].Ref, driver.Success)), driver.Gone)
	equal(w, "tasks that were rescued", w.maintain().Rescued, 1)
	w.fetch1(w.worker(w.s), other)
}

// leaveMany: with as many as a step of some store takes, and with more.
func leaveMany(w *world) {
	for _, n := range []int{400, 450} {
		worker := w.worker(w.s)
		w.add(slices.Repeat([]task.Spec{some()}, n)...)
		for have := 0; have < n; {
			got := len(w.fetch(worker, n-have))
			if have += got; got == 0 {
				w.Fatalf("%d of %d tasks were given", have, n)
			}
		}
		w.check("Leave", w.s.Queue.Deregister(w.ctx, worker))
		equal(w, "workers after it", len(w.workers()), 0)
		w.release(w.s, worker)
		for range 20 {
			if !w.maintain().More {
				break
			}
		}
		equal(w, "tasks that still run", len(w.tasks(driver.Filter{States: []task.State{task.Running}})), 0)
		waiting := w.tasks(driver.Filter{States: []task.State{task.Available}, Max: 1000})
		equal(w, "tasks that are available", len(waiting), n)
		var left []task.ID
		for _, t := range waiting {
			left = append(left, t.ID)
		}
		for some := range slices.Chunk(left, 100) {
			w.act(driver.OpRequest{Operation: driver.OpDiscard, IDs: some, By: "a test"})
		}
	}
}

func (w *world) workers() []driver.Process {
	w.Helper()
	all, err := w.s.Tasks.Workers(w.ctx)
	w.check("Workers", err)
	return all
}

// endOfTheCrashed: the end of a run that was taken for crashed is refused, whoever runs the task now.
func endOfTheCrashed(w *world) {
	id := w.add1(some())
	for range 2 { // the second time it is a suspect that had begun: an attempt
		worker := w.worker(w.s)
		got := w.fetch1(worker, id)
		equal(w, "Start", w.begin(worker, got.Ref), driver.OK)
		w.dies(worker)
		equal(w, "Finish of the dead", w.finish(worker, w.ended(got.Ref, driver.Success)), driver.Gone)
	}
	equal(w, "state", w.task(id).State, task.Available)
}
