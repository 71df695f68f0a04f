package storetest

import (
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

var tendPromises = []promise{
	{"maintenance makes due tasks available and ends expired ones", maintainDue},
	{"retention deletes each state after its time, and no other", retention},
	{"retention leaves what waits or runs, and what holds a window", retentionSpares},
	{"maintenance does a bounded amount and says whether there is more", maintainBounded},
	// Holds: promise 18.
	{"a healthy run needs no repair", noRepair},
}

func maintainDue(w *world) {
	soon, behind, expiring, late := some(), limited("l", 1), some(), some()
	soon.Delay, behind.Delay = 30*time.Millisecond, 30*time.Millisecond
	expiring.ExpiresAt = w.now(w.s).Add(30 * time.Millisecond)
	late.Delay = time.Hour
	worker := w.worker(w.s)
	w.fetch1(worker, w.add1(limited("l", 1)))
	all := w.add(soon, behind, expiring, late)
	w.past(40 * time.Millisecond)
	w.maintain()
	equal(w, "state of a due one", w.task(all[0]).State, task.Available)
	if s := w.task(all[1]).State; s != task.Available && s != task.Blocked {
		w.Errorf("state of a due one behind a limit: %s", s)
	}
	w.state("an expired one", all[2], task.Discarded, task.ReasonExpired)
	equal(w, "state of one for later", w.task(all[3]).State, task.Scheduled)
	again := w.maintain()
	equal(w, "due, expired at a second look", again.Due+again.Expired, 0)
	between(w, "the store's time", w.task(all[2]).Ended, again.Now, w.now(w.s))
}

// finals are one task of every final state.
func (w *world) finals(s task.Spec) map[task.State]task.ID {
	w.Helper()
	worker, all := w.worker(w.s), map[task.State]task.ID{}
	for v, state := range map[driver.Verdict]task.State{driver.Success: task.Succeeded, driver.Fail: task.Failed, driver.Cancel: task.Canceled, driver.Drop: task.Discarded} {
		all[state] = w.add1(s)
		w.done(worker, w.fetch1(worker, all[state]).Ref, v)
	}
	s.MaxCrashes = 1
	all[task.Crashed] = w.suspects(1, s)[0]
	worker = w.worker(w.s)
	equal(w, "Start", w.begin(worker, w.fetch1(worker, all[task.Crashed]).Ref), driver.OK)
	equal(w, "crashed", w.dies(worker).Crashed, 1)
	return all
}

func retention(w *world) {
	all := w.finals(some())
	w.past(5 * time.Millisecond)
	there := func(what string, gone ...task.State) {
		w.Helper()
		for s, id := range all {
			want := true
			for _, g := range gone {
				want = want && g != s
			}
			_, _, ok := w.find(id)
			equal(w, what+": a task that is "+string(s)+" is there", ok, want)
		}
	}
	keep := func(k map[task.State]time.Duration) int {
		w.Helper()
		return w.maintainWith(driver.MaintainRequest{Keep: k}).Deleted
	}
	equal(w, "deleted with nothing named", keep(nil), 0)
	there("nothing named")
	equal(w, "deleted before the time", keep(map[task.State]time.Duration{task.Succeeded: time.Hour, task.Failed: time.Hour}), 0)
	there("before the time")
	equal(w, "deleted", keep(map[task.State]time.Duration{task.Succeeded: time.Millisecond, task.Crashed: time.Hour}), 1)
	there("successes", task.Succeeded)
	equal(w, "deleted", keep(map[task.State]time.Duration{task.Failed: 0, task.Crashed: 0, task.Available: 0}), 2)
	there("failures and crashes", task.Succeeded, task.Failed, task.Crashed)
	if n := len(w.tasks(driver.Filter{})); n != 2 {
		w.Errorf("%d tasks are left", n)
	}
}

func retentionSpares(w *world) {
	worker := w.worker(w.s)
	all := map[task.State]time.Duration{}
	for _, s := range task.States {
		all[s] = 0
	}
	s := unique("u", task.UntilFinished)
	s.Unique.Window = 120 * time.Millisecond
	open := w.add1(s)
	w.done(worker, w.fetch1(worker, open).Ref, driver.Success)
	end := w.task(open).Ended.Add(s.Unique.Window)
	running := w.add1(some())
	w.fetch1(worker, running)
	later := some()
	later.Delay = time.Hour
	waiting := w.add(some(), later)
	for {
		t := w.maintainWith(driver.MaintainRequest{Keep: all})
		if !t.Now.Before(end) {
			break
		}
		equal(w, "deleted while the window is open", t.Deleted, 0)
		a := w.enqueue(w.s, s)[0]
		if a.Answer == task.New && w.task(a.ID).Enqueued.Before(end) {
			w.Fatalf("the window closed early: %+v", a)
		}
		if a.Answer == task.New {
			break
		}
		w.past(20 * time.Millisecond)
	}
	w.past(time.Millisecond)
	for range 3 { // freed first, deleted then, be it by one look or two
		w.maintainWith(driver.MaintainRequest{Keep: all})
	}
	_, _, ok := w.find(open)
	equal(w, "it is there when its window is over", ok, false)
	for _, id := range append(waiting, running) {
		equal(w, "one that is not final is there", w.task(id).State.Final(), false)
	}
}

func maintainBounded(w *world) {
	worker := w.worker(w.s)
	var specs []task.Spec
	for range 25 {
		specs = append(specs, some())
	}
	w.add(specs...)
	for _, f := range w.fetch(worker, 25) {
		w.done(worker, f.Ref, driver.Success)
	}
	w.past(time.Millisecond)
	total, more := 0, true
	for n := 0; more && n < 50; n++ {
		t := w.maintainWith(driver.MaintainRequest{Max: 10, Keep: map[task.State]time.Duration{task.Succeeded: 0}})
		if t.Deleted > 10 {
			w.Errorf("it deleted %d of at most 10", t.Deleted)
		}
		total, more = total+t.Deleted, t.More
	}
	equal(w, "there is still more", more, false)
	equal(w, "deleted", total, 25)
	equal(w, "tasks that are left", len(w.tasks(driver.Filter{})), 0)
}

// noRepair does a little of everything to limits.
func noRepair(w *world) {
	worker := w.worker(w.s)
	spec := func(i int) task.Spec {
		s := limited([]string{"a", "b", "c"}[i%3], 1+i%2)
		s.Limit.OnContention = []task.Contention{task.Wait, task.Wait, task.Displace, task.Discard}[i%4]
		s.Limit.Shared = i%5 == 0
		s.Priority = i % 3
		return s
	}
	for i := range 60 {
		id := w.add1(spec(i))
		switch i % 9 {
		case 1:
			w.act1(driver.OpCancel, id)
		case 2:
			w.act1(driver.OpPromote, id)
		case 3:
			w.act(driver.OpRequest{Operation: driver.OpMove, IDs: []task.ID{id}, Queue: "other"})
		case 4:
			at := w.now(w.s).Add(time.Hour)
			w.act(driver.OpRequest{Operation: driver.OpEdit, IDs: []task.ID{id}, Edit: driver.Edit{RunAt: &at}})
		case 5:
			s := spec(i)
			w.setLimit(s.Limit.Hash("k"), 1+i%3, true)
		case 6:
			w.check("Leave", w.s.Queue.Deregister(w.ctx, worker))
			worker = w.worker(w.s)
		}
		for j, f := range w.fetch(worker, 3) {
			v := []driver.Verdict{driver.Success, driver.Retry, driver.Fail, driver.Return, driver.Snooze}[(i+j)%5]
			w.done(worker, f.Ref, v)
			if v == driver.Fail {
				w.acted(driver.OpRetry, f.ID, driver.Done)
			}
		}
		if i%10 == 0 {
			equal(w, "repairs", w.maintain().Repaired, 0)
		}
	}
	equal(w, "dead workers' tasks", w.dies(worker).Rescued, 0)
	equal(w, "repairs", w.maintain().Repaired, 0)
}
