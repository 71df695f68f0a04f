package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// What concerns very many tasks may take several steps, each of which does a bounded amount (rule Q5). None is
// lost on the way.
var backlogPromises = sized(func() int { return testsize.Of(1200, 20_000) })

// RunBacklog runs these with so many tasks.
func RunBacklog(t *testing.T, open Open, url string, n int) {
	t.Helper()
	group(t, "backlog", open, url, sized(func() int { return n }))
}

func sized(size func() int) []promise {
	with := func(keep func(*world, int)) func(*world) { return func(w *world) { keep(w, size()) } }
	return []promise{
		// Holds: promise 18.
		{"one that supersedes very many loses none of them", with(supersedeMany)},
		// Holds: promise 18.
		{"a raised limit lets all run that waited behind it, each once", with(raiseMany)},
		// Holds: promise 18.
		{"a lowered limit holds, however many were available", with(lowerMany)},
		// Holds: promise 26.
		{"kinds, queues and limits by the thousand keep nobody waiting", with(thousands)},
	}
}

// addMany takes n tasks in, and returns their ids.
func (w *world) addMany(n int, s task.Spec) (all []task.ID) {
	w.Helper()
	for len(all) < n {
		specs := make([]task.Spec, min(1000, n-len(all)))
		for i := range specs {
			specs[i] = s
		}
		all = append(all, w.add(specs...)...)
	}
	return all
}

// states counts the tasks of queue "q".
func (w *world) states() map[task.State]int {
	w.Helper()
	subs, err := w.s.Tasks.Queues(w.ctx)
	w.check("Queues", err)
	all := map[task.State]int{}
	for _, l := range subs {
		for s, n := range l.Depth {
			all[s] += n
		}
	}
	listed := map[task.State]int{}
	for f := (driver.Filter{Max: 1000}); ; {
		some := w.tasks(f)
		for _, t := range some {
			listed[t.State]++
		}
		if len(some) < 1000 {
			break
		}
		f.After = some[len(some)-1].ID
	}
	for _, s := range task.States {
		equal(w, "tasks that are "+string(s)+", counted and listed", all[s], listed[s])
	}
	return all
}

func supersedeMany(w *world, n int) {
	testsize.Counts(w)
	worker := w.worker(w.s)
	displacing := limited("l", 1)
	displacing.Limit.OnContention = task.Displace
	first := w.fetch1(worker, w.add1(displacing))
	w.pauseQueue(driver.Pause{Queue: "q", By: "me"})
	w.addMany(n, displacing)
	displacing.Priority = 5
	urgent := w.add1(displacing)
	w.resume("q", "", true)
	for steps := 0; w.task(urgent).State != task.Blocked; steps++ {
		w.fetches("while the slot is taken", worker, 100)
		if steps > n/100 {
			w.Fatalf("after %d fetches the urgent one is %s", steps, w.task(urgent).State)
		}
	}
	equal(w, "why the first is to stop", w.task(first.ID).Stop, task.ReasonReplaced)
	got := w.states()
	equal(w, "superseded", got[task.Discarded], n)
	w.done(worker, first.Ref, driver.Success)
	f := w.fetch1(worker, urgent)
	w.done(worker, f.Ref, driver.Success)
	equal(w, "what is left", len(w.fetch(worker, 100)), 0)
	got = w.states()
	equal(w, "done", got[task.Succeeded], 2)
	equal(w, "discarded", got[task.Discarded], n)
	equal(w, "repairs", w.maintain().Repaired, 0)
}

// workOff fetches and finishes until all are done, and counts how often each was given.
func (w *world) workOff(worker lease.Ref, want int) map[task.ID]int {
	w.Helper()
	given := map[task.ID]int{}
	for idle := 0; len(given) < want && idle < 100; idle++ {
		got := w.fetch(worker, 1000)
		var ends []driver.Completion
		for _, t := range got {
			given[t.ID]++
			ends = append(ends, w.ended(t.Ref, driver.Success))
		}
		if len(got) == 0 {
			continue // a step of what is left to do; it says so by an instant that has come
		}
		idle = -1
		answers, err := w.s.Queue.Finish(w.ctx, worker, ends)
		w.check("Finish", err)
		for i, a := range answers {
			if a != driver.OK {
				w.Fatalf("Finish of task %d by who has it: %v", ends[i].ID, a)
			}
		}
	}
	return given
}

// thousands: each task has a kind, a queue or a limit of its own. A worker gets at least some with each fetch, also
// when all the kinds are old, and the first of a new kind.
func thousands(w *world, n int) {
	testsize.Counts(w)
	worker := w.worker(w.s)
	own := func(prefix string, change func(s *task.Spec, name string)) {
		specs := make([]task.Spec, n)
		for i := range specs {
			specs[i] = some()
			change(&specs[i], fmt.Sprintf("%s%d", prefix, i))
		}
		for part := range slices.Chunk(specs, 1000) {
			w.add(part...)
		}
	}
	own("elsewhere", func(s *task.Spec, name string) { s.Queue = name })
	for _, what := range []struct {
		name   string
		change func(*task.Spec, string)
	}{
		{"kinds", func(s *task.Spec, name string) { s.Kind = name }},
		{"limits", func(s *task.Spec, name string) { *s = limited(name, 1) }},
		{"the same kinds", func(s *task.Spec, name string) { s.Kind = strings.TrimPrefix(name, "the same ") }},
	} {
		own(what.name, what.change)
		fetches := 0
		for done := 0; done < n; fetches++ {
			var ends []driver.Completion
			for _, t := range w.fetch(worker, 100) {
				ends = append(ends, w.ended(t.Ref, driver.Success))
			}
			if done += len(ends); fetches > n/10 {
				w.Fatalf("%s: %d of %d tasks after %d fetches", what.name, done, n, fetches)
			}
			if len(ends) == 0 {
				continue
			}
			_, err := w.s.Queue.Finish(w.ctx, worker, ends)
			w.check("Finish", err)
		}
		w.Logf("%s: %d fetches", what.name, fetches)
	}
	// Whoever finds nothing is not told to look again at once, for ever.
	for fetches := 1; ; fetches++ {
		f, err := w.s.Queue.Fetch(w.ctx, driver.FetchRequest{Worker: worker, Queues: []string{"q"}, Max: 100, Suspects: true, Crashers: true})
		w.check("Fetch", err)
		if f.NextDue.IsZero() || f.NextDue.Sub(f.Now) >= 100*time.Millisecond {
			break
		}
		if fetches > n/10 {
			w.Fatalf("after %d fetches that found nothing, there is more at %s, it is %s", fetches, f.NextDue, f.Now)
		}
	}
	late := some()
	late.Kind = "new"
	w.add1(late)
	for fetches := 1; len(w.fetch(worker, 100)) == 0; fetches++ {
		if fetches > n/10 {
			w.Fatalf("the task of a new kind is not given in %d fetches", fetches)
		}
	}
}

func raiseMany(w *world, n int) {
	testsize.Counts(w)
	worker := w.worker(w.s)
	s := limited("l", 1)
	all := w.addMany(n, s)
	w.setLimit(s.Limit.Hash("k"), 10*n, true)
	got := w.states()
	if got[task.Available] == 0 || got[task.Available]+got[task.Blocked] != n {
		w.Fatalf("when raised: %v, want some available, and the others blocked", got)
	}
	given := w.workOff(worker, n)
	for _, id := range all {
		if given[id] != 1 {
			w.Fatalf("task %d was given %d times; %v", id, given[id], w.states())
		}
	}
	equal(w, "repairs", w.maintain().Repaired, 0)
	equal(w, "done", w.states()[task.Succeeded], n)
}

func lowerMany(w *world, n int) {
	testsize.Counts(w)
	worker := w.worker(w.s)
	s := limited("l", 10*n)
	w.addMany(n, s)
	w.setLimit(s.Limit.Hash("k"), 3, true)
	for round := range 4 {
		got := w.fetch(worker, 100)
		for steps := 0; len(got) == 0 && steps < 100; steps++ {
			got = w.fetch(worker, 100)
		}
		if len(got) == 0 || len(got) > 3 {
			w.Fatalf("round %d: %d tasks are given, want three at most", round, len(got))
		}
		if more := w.fetch(worker, 100); len(got)+len(more) > 3 {
			w.Fatalf("round %d: %d and %d tasks are given, want three at most", round, len(got), len(more))
		} else {
			got = append(got, more...)
		}
		for _, t := range got {
			w.done(worker, t.Ref, driver.Success)
		}
	}
	for more := true; more; {
		done := w.maintain()
		equal(w, "repairs", done.Repaired, 0)
		more = done.More
	}
	w.setLimit(s.Limit.Hash("k"), 10*n, true)
	done := w.states()[task.Succeeded]
	w.workOff(worker, n-done)
	equal(w, "done in the end", w.states()[task.Succeeded], n)
}
