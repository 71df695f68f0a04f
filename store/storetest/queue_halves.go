package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A QueueSaboteur lets statements of a store's queue fail. Its State is all that the store keeps.
type QueueSaboteur interface {
	Saboteur
	// Fell tells what the store kept when the statement was about to fail, and whether that came behind the commit of
	// its transaction.
	Fell() (state map[string]string, committed bool)
}

// RunQueueHalves makes each statement of each step of a queue fail in turn, and finds nothing half done afterwards:
// a transaction in which one fails changes nothing, a step is one transaction unless it says that it has parts, each
// of which leaves the books in order.
func RunQueueHalves(t *testing.T, s *store.Store, f QueueSaboteur) {
	q := &queueMaker{maker: &maker{TB: t, s: s, batch: 3}}
	q.steps()
	for _, step := range q.all {
		n := 0
		var before map[string]string
		for ; ; n++ {
			if n > mostStatements {
				t.Fatalf("%s: it never ends", step.What)
			}
			if before == nil {
				if step.Prepare != nil {
					step.Prepare()
				}
				before = f.State(t, false)
			}
			f.Arm(n)
			err := step.Do()
			fired := f.Fired()
			f.Arm(-1)
			after := f.State(t, false)
			same := maps.Equal(before, after)
			if !fired && err != nil || fired && err == nil && same {
				t.Errorf("%s: statement %d failed: %v; the step says: %v", step.What, n, fired, err)
			}
			if !fired {
				break
			}
			if !same {
				q.whole(f, step, n, err, before, after)
				before = nil
			}
		}
		t.Logf("%s: %d statements", step.What, n)
		if n == 0 {
			t.Errorf("%s: no statement of it failed", step.What)
		}
	}
}

// whole compares what there is after a statement failed with what there was: one of a transaction that could not be
// carried out, or, where nobody was told, one that the step could do without.
func (q *queueMaker) whole(f QueueSaboteur, step Step, n int, told error, before, after map[string]string) {
	q.Helper()
	fell, committed := f.Fell()
	for _, sort := range slices.Sorted(maps.Keys(after)) {
		switch {
		case told != nil && !committed && fell[sort] != after[sort]:
			q.Errorf("%s: statement %d failed, and its transaction was carried out in part: %s %s", step.What, n, sort, differ(fell[sort], after[sort]))
		case !step.apart && fell[sort] != before[sort] && !committed:
			q.Errorf("%s: before statement %d failed a part of the step was committed: %s %s", step.What, n, sort, differ(before[sort], fell[sort]))
		}
	}
	if r, err := q.s.Queue.Maintain(q.Context(), driver.MaintainRequest{}); err != nil || r.Repaired > 0 {
		q.Errorf("%s: after statement %d failed %d things were wrong; %v", step.What, n, r.Repaired, err)
	}
}

// differ tells the first lines of two texts that differ.
func differ(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		if i >= len(x) || i >= len(y) || x[i] != y[i] {
			return fmt.Sprintf("was %.200q and is %.200q", x[min(i, len(x)-1):min(i+1, len(x))], y[min(i, len(y)-1):min(i+1, len(y))])
		}
	}
	return "are the same"
}

// queueMaker makes the steps of a queue.
type queueMaker struct {
	*maker
	worker lease.Ref
	ids    []task.ID
	runs   []driver.Fetched
}

func (q *queueMaker) join() {
	q.worker = q.granted(q.ask(lease.OnceKey()))[0]
	q.need("Join", q.s.Queue.Register(q.Context(), driver.Process{Lease: q.worker, Host: "h", PID: 1, Queues: []string{"q"}, Slots: 10}))
}

// have enqueues, into a queue of which nothing is left.
func (q *queueMaker) have(specs ...queue.Spec) {
	q.Helper()
	q.empty()
	for i := range specs {
		q.need("Check", specs[i].Check())
	}
	a, err := q.s.Queue.Enqueue(q.Context(), specs)
	q.need("Enqueue", err)
	q.ids = nil
	for _, e := range a {
		q.ids = append(q.ids, e.ID)
	}
}

// empty deletes all tasks.
func (q *queueMaker) empty() {
	q.Helper()
	q.join()
	all, err := q.s.Tasks.Tasks(q.Context(), driver.Filter{Max: 1000})
	q.need("Tasks", err)
	var ids []task.ID
	for _, t := range all {
		ids = append(ids, t.ID)
	}
	if len(ids) == 0 {
		return
	}
	for _, worker := range q.dead() {
		q.need("Leave", q.s.Queue.Deregister(q.Context(), worker))
	}
	for _, act := range []driver.Operation{driver.OpDiscard, driver.OpDelete} {
		_, err := q.s.Tasks.Operate(q.Context(), driver.OpRequest{Operation: act, IDs: ids, By: "me"})
		q.need(string(act), err)
	}
}

// dead are the workers of earlier steps.
func (q *queueMaker) dead() (refs []lease.Ref) {
	all, err := q.s.Tasks.Workers(q.Context())
	q.need("Workers", err)
	for _, w := range all {
		if w.Lease != q.worker {
			refs = append(refs, w.Lease)
		}
	}
	return refs
}

func (q *queueMaker) fetch(most int) error {
	f, err := q.s.Queue.Fetch(q.Context(), driver.FetchRequest{Worker: q.worker, Queues: []string{"q"}, Max: most, Suspects: true, Crashers: true})
	q.runs = append(q.runs, f.Tasks...)
	return err
}

// parts adds a step that may take several transactions.
func (q *queueMaker) parts(what string, items int, prepare func(), do func() error) {
	q.add(what, items, prepare, do)
	q.all[len(q.all)-1].apart = true
}

// given enqueues, and has the worker run all of it.
func (q *queueMaker) given(specs ...queue.Spec) {
	q.Helper()
	q.have(specs...)
	q.runs = nil
	q.need("Fetch", q.fetch(100))
	if len(q.runs) == 0 {
		q.Fatal("nothing is given")
	}
}

// mixed are tasks of all sorts, some of which contend.
func mixed() (specs []queue.Spec) {
	late := some()
	late.Delay = time.Hour
	replaces := unique("r", queue.UntilStarted)
	replaces.Unique.Again = queue.Replace
	discards, displaces := limited("discard", 1), limited("displace", 1)
	discards.Limit.OnContention, displaces.Limit.OnContention = queue.Discard, queue.Displace
	for _, s := range []queue.Spec{some(), late, unique("u", task.UntilFinished), replaces, limited("l", 1), discards, displaces} {
		specs = append(specs, s.Clone(), s.Clone())
	}
	return specs
}

func (q *queueMaker) steps() {
	ctx, w := q.Context(), q.s.Queue
	enqueue := func(specs ...queue.Spec) func() error {
		return func() error {
			for i := range specs {
				q.need("Check", specs[i].Check())
			}
			_, err := w.Enqueue(ctx, specs)
			return err
		}
	}
	q.add("enqueue all sorts", 14, q.empty, enqueue(mixed()...))
	q.add("enqueue beside what is there", 14, func() { q.have(mixed()...) }, enqueue(mixed()...))
	q.add("declare another limit", 1, func() { q.given(limited("l", 1), limited("l", 1), limited("l", 1)) }, enqueue(limited("l", 3)))
	q.parts("fetch", 14, func() { q.have(mixed()...) }, func() error { return q.fetch(10) })
	q.parts("fetch behind a limit", 14, func() { q.given(mixed()...); q.need("Enqueue", enqueue(mixed()...)()) }, func() error { return q.fetch(10) })
	q.add("start", 3, func() { q.given(unique("a", queue.UntilStarted), unique("b", queue.UntilStarted), limited("l", 1)) }, func() error {
		var refs []driver.Ref
		for _, r := range q.runs {
			refs = append(refs, r.Ref)
		}
		_, err := w.Start(ctx, q.worker, refs)
		return err
	})
	verdicts := []driver.Verdict{driver.Success, driver.Retry, driver.Return}
	if testsize.Long() {
		verdicts = append(verdicts, driver.Fail, driver.Cancel, driver.Drop, driver.Snooze)
	}
	for _, v := range verdicts {
		q.add(fmt.Sprintf("finish with verdict %d", v), 4, func() { q.given(mixed()...) }, func() error {
			var ends []driver.Completion
			for _, r := range q.runs {
				ends = append(ends, driver.Completion{Ref: r.Ref, Verdict: v, Outcome: "o", Error: "e", Reason: "r", Started: r.Enqueued, Ended: r.Enqueued})
			}
			_, err := w.Finish(ctx, q.worker, ends)
			return err
		})
	}
	q.add("join", 1, q.join, func() error {
		return w.Register(ctx, driver.Process{Lease: q.worker, Host: "i", Queues: []string{"q"}})
	})
	q.add("leave with tasks", 4, func() { q.given(mixed()...) }, func() error { return w.Deregister(ctx, q.worker) })
	q.add("declare rates", 1, nil, func() error { return w.Declare(ctx, map[string]queue.Rate{"x": {Count: 1, Per: time.Hour}, "y": {}}) })
	q.add("count", 1, nil, func() error {
		return w.Count(ctx, []driver.Count{{Queue: "q", Kind: "k", Name: "n", N: 1}, {Queue: "q", Kind: "k", Name: "m", N: 2}})
	})
	q.operating()
	q.maintenance()
}

// operating is what operators do.
func (q *queueMaker) operating() {
	ctx, a := q.Context(), q.s.Tasks
	l := limited("l", 2)
	for _, x := range []struct {
		what  string
		slots int
	}{{"raise a limit", 3}, {"lower a limit", 1}, {"take an operator's word back", 0}} {
		q.add(x.what, 4, func() { q.given(l, l, l, l, l) }, func() error {
			_, err := a.SetLimit(ctx, l.Limit.Hash("k"), x.slots, "me")
			return err
		})
	}
	q.add("pause", 1, nil, func() error { return a.Pause(ctx, driver.Pause{Queue: "p", By: "me"}) })
	q.parts("resume", 1, func() { q.need("Pause", a.Pause(ctx, driver.Pause{Queue: "p", By: "me"})) }, func() error { _, err := a.Resume(ctx, "p", "", "me"); return err })
	low := -1
	for _, act := range []driver.OpRequest{{Operation: driver.OpCancel}, {Operation: driver.OpPromote}, {Operation: driver.OpDiscard}, {Operation: driver.OpMove, Queue: "q2"}, {Operation: driver.OpEdit, Edit: driver.Edit{Priority: &low}}} {
		act.By = "me"
		q.parts(string(act.Operation), 14, func() { q.have(mixed()...) }, func() error {
			act.IDs = q.ids
			_, err := a.Operate(ctx, act)
			return err
		})
	}
	for _, act := range []driver.Operation{driver.OpRetry, driver.OpDelete} {
		q.parts(string(act), 14, func() {
			q.have(mixed()...)
			_, err := a.Operate(ctx, driver.OpRequest{Operation: driver.OpDiscard, IDs: q.ids, By: "me"})
			q.need("discard", err)
		}, func() error {
			_, err := a.Operate(ctx, driver.OpRequest{Operation: act, IDs: q.ids, By: "me"})
			return err
		})
	}
}

// maintenance is what is due and nobody's: each sort of it is a step of its own.
func (q *queueMaker) maintenance() {
	maintain := func() error {
		_, err := q.s.Queue.Maintain(q.Context(), driver.MaintainRequest{Keep: map[task.State]time.Duration{task.Succeeded: 0, task.Discarded: 0}})
		return err
	}
	q.parts("maintain", 14, func() {
		q.given(mixed()...)
		_, err := q.s.Leases.Release(q.Context(), []lease.Ref{q.worker})
		q.need("Release", err)
	}, maintain)
}
