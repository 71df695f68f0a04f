package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

var verdictPromises = []promise{
	{"every verdict does what it says", everyVerdict},
	{"a task keeps its first and its last attempts", boundedAttempts},
	{"when a task was to run is told the same after its success", runAtKept},
	// Holds: promise 20.
	{"a retry waits for its delay, and counts", retryDelay},
	{"attempts that did not succeed are kept as they were reported", attemptsKept},
	{"a return takes its old place and costs nothing", returnPlace},
	{"an attempt counts only if the work began", untried},
}

// boundedAttempts has a task fail more often than its history keeps.
func boundedAttempts(w *world) {
	const most, all = driver.MostAttempts, driver.MostAttempts + 21
	worker := w.worker(w.s)
	id := w.add1(task.Spec{Queue: "q", Kind: "k", Options: task.Options{MaxAttempts: 1000}})
	for range all {
		f := w.fetch1(worker, id)
		equal(w, "Finish", w.finish(worker, w.ended(f.Ref, driver.Retry)), driver.OK)
	}
	t := w.task(id)
	equal(w, "attempts", t.Attempts, all)
	var want, got []int
	for n := range all {
		if n < driver.FirstAttempts || n >= all-(most-driver.FirstAttempts) {
			want = append(want, n+1)
		}
	}
	for _, a := range t.History {
		got = append(got, a.N)
	}
	if !slices.Equal(got, want) {
		w.Errorf("its history has the attempts %v; want %v", got, want)
	}
}

func everyVerdict(w *world) {
	worker := w.worker(w.s)
	for _, v := range []struct {
		verdict           driver.Verdict
		state             task.State
		attempts, snoozes int
		kept              int // attempts in its history
	}{
		{driver.Success, task.Succeeded, 1, 0, 0},
		{driver.Retry, task.Retryable, 1, 0, 1},
		{driver.Fail, task.Failed, 1, 0, 1},
		{driver.Cancel, task.Canceled, 1, 0, 1},
		{driver.Drop, task.Discarded, 1, 0, 1},
		{driver.Snooze, task.Retryable, 0, 1, 1},
		{driver.Return, task.Available, 0, 0, 1},
	} {
		id := w.add1(task.Spec{Queue: "v", Kind: "k"})
		f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"v"}})
		w.order("Fetch", ids(f.Tasks), []task.ID{id})
		if len(f.Tasks) != 1 {
			return
		}
		c := w.ended(f.Tasks[0].Ref, v.verdict)
		c.Delay = time.Hour
		if v.state.Final() && v.verdict != driver.Success {
			c.Reason = "why ß"
		}
		before := w.now(w.s)
		equal(w, "Finish", w.finish(worker, c), driver.OK)
		t := w.task(id)
		what := string(v.state)
		equal(w, "state of "+what, t.State, v.state)
		equal(w, "attempts of "+what, t.Attempts, v.attempts)
		equal(w, "snoozes of "+what, t.Snoozes, v.snoozes)
		equal(w, "reason of "+what, t.Reason, c.Reason)
		equal(w, "history of "+what, len(t.History), v.kept)
		equal(w, "granted, crashes and suspicion of "+what, t.Granted == 0 && t.Crashes == 0 && !t.Suspect, true)
		switch {
		case t.State.Final():
			between(w, "end of "+what, before, t.Ended, w.now(w.s))
		case v.verdict == driver.Return:
			equal(w, "end of "+what+" is zero", t.Ended.IsZero(), true)
			got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"v"}})
			w.order("Fetch of what was returned", ids(got.Tasks), []task.ID{id})
		default:
			equal(w, "end of "+what+" is zero", t.Ended.IsZero(), true)
			between(w, "run at of "+what, before.Add(c.Delay), t.RunAt, w.now(w.s).Add(c.Delay))
			got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{"v"}})
			equal(w, "tasks before the delay is over", len(got.Tasks), 0)
		}
	}
}

// A window is counted from the success, wherever a store keeps its end.
func runAtKept(w *world) {
	worker, old := w.worker(w.s), w.now(w.s).Add(-time.Hour)
	plain, free, open, brief := some(), unique("a", task.UntilFinished), unique("b", task.UntilFinished), unique("c", task.UntilFinished)
	open.Unique.Window, brief.Unique.Window = time.Hour, time.Millisecond
	late := open.Clone()
	late.Unique.Key, late.RunAt = "d", old
	before := map[task.ID]time.Time{}
	for _, id := range w.add(plain, free, open, brief, late) {
		before[id] = w.task(id).RunAt
	}
	for _, f := range w.fetch(worker, 10) {
		sameTime(w, "run at, fetched", f.RunAt, before[f.ID])
		w.done(worker, f.Ref, driver.Success)
	}
	told := func(when string) {
		for id, at := range before {
			w.state(when, id, task.Succeeded, "")
			sameTime(w, fmt.Sprintf("run at of task %d, %s", id, when), w.task(id).RunAt, at)
		}
	}
	told("after its success")
	w.past(time.Millisecond)
	w.maintain()
	told("after the end of a window")
}

func retryDelay(w *world) {
	worker := w.worker(w.s)
	id := w.add1(some())
	f := w.fetch1(worker, id)
	for n := 1; n <= 3; n++ {
		c := w.ended(f.Ref, driver.Retry)
		c.Delay = 25 * time.Millisecond
		from := w.now(w.s)
		equal(w, "Finish", w.finish(worker, c), driver.OK)
		for {
			got := w.fetchWith(w.s, driver.FetchRequest{Worker: worker})
			if len(got.Tasks) == 1 {
				f = got.Tasks[0]
				if got.Now.Before(from.Add(c.Delay)) {
					w.Errorf("given at %v, before %v", got.Now, from.Add(c.Delay))
				}
				equal(w, "attempts that the worker is told", f.Attempts, n)
				break
			}
			if got.Now.After(from.Add(10 * time.Second)) {
				w.Fatalf("it was not given again: %+v", w.task(id))
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	w.done(worker, f.Ref, driver.Retry) // without a delay it is due at once
	w.fetch1(worker, id)
	equal(w, "attempts", w.task(id).Attempts, 4)
}

func attemptsKept(w *world) {
	worker := w.worker(w.s)
	id := w.add1(some())
	from := w.now(w.s)
	var want []task.Attempt
	for i, v := range []driver.Verdict{driver.Retry, driver.Snooze, driver.Return, driver.Retry, driver.Fail} {
		f := w.fetch1(worker, id)
		c := w.ended(f.Ref, v)
		c.Outcome = []string{"timed_out", "snoozed", "returned", "failed", "failed"}[i]
		c.Started, c.Ended = from.Add(time.Duration(i)*time.Second), from.Add(time.Duration(i+1)*time.Second)
		c.Error = []string{"took 日本 \"long\"\n\tat 'x' \\ %s", "", "", "second", "third"}[i]
		equal(w, "Finish", w.finish(worker, c), driver.OK)
		want = append(want, task.Attempt{N: []int{1, 2, 2, 2, 3}[i], Outcome: c.Outcome, Started: c.Started, Ended: c.Ended, Host: "h", Error: c.Error})
	}
	t := w.task(id)
	if len(t.History) != len(want) {
		w.Fatalf("history: %+v", t.History)
	}
	for i := range want {
		equal(w, "an attempt", t.History[i], want[i])
	}
	for _, listed := range w.tasks(driver.Filter{}) {
		equal(w, "attempts in a list", len(listed.History), 0)
	}
}

// Who says no outcome did not begin: the time for it was over, it was told to stop, or it had no slot.
func untried(w *world) {
	worker := w.worker(w.s)
	for verdict, state := range map[driver.Verdict]task.State{driver.Success: task.Succeeded, driver.Fail: task.Failed, driver.Cancel: task.Canceled,
		driver.Drop: task.Discarded, driver.Return: task.Available} {
		s := some()
		s.Queue = string(state)
		id := w.add1(s)
		fetch := func() driver.Fetched {
			for begun := time.Now(); ; {
				f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Queues: []string{s.Queue}})
				if len(f.Tasks) == 1 && f.Tasks[0].ID == id {
					return f.Tasks[0]
				}
				// What is due and locked for a moment is the next fetch's, which NextDue asks for.
				if len(f.Tasks) > 0 || f.NextDue.IsZero() || time.Since(begun) > 10*time.Second {
					w.Fatalf("Fetch: %+v, want task %+v", f, w.task(id))
				}
			}
		}
		w.done(worker, fetch().Ref, driver.Retry)
		c := driver.Completion{Ref: fetch().Ref, Verdict: verdict}
		equal(w, "Finish", w.finish(worker, c), driver.OK)
		want := 1
		if verdict == driver.Success {
			want = 2
		}
		t := w.task(id)
		equal(w, "state", t.State, state)
		equal(w, "attempts of one that is "+string(state), t.Attempts, want)
		equal(w, "attempts that are kept of one that is "+string(state), len(t.History), 1)
		equal(w, "Finish, repeated", w.finish(worker, c), driver.OK)
	}
}

func returnPlace(w *world) {
	worker := w.worker(w.s)
	all := w.add(some(), some(), some())
	got := w.fetches("Fetch", worker, 2, all[:2]...)
	w.done(worker, got[1].Ref, driver.Return)
	w.done(worker, got[0].Ref, driver.Return)
	got = w.fetches("Fetch again", worker, 10, all...)
	for _, f := range got {
		equal(w, "attempts", f.Attempts, 0)
		equal(w, "suspect", f.Suspect, false)
	}
}
