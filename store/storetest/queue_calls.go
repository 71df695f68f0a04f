package storetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// Calls of the queue's contracts. They end the test when the call itself fails.

// some is a task of kind "k" in queue "q".
func some() task.Spec { return task.Spec{Queue: "q", Kind: "k"} }

// unique is some with a unique key that is held until u says.
func unique(key string, u task.Until) task.Spec {
	s := some()
	s.Unique = &task.Unique{Key: key, Until: u}
	return s
}

// limited is some with a limit of n.
func limited(key string, n int) task.Spec {
	s := some()
	s.Limit = &task.Limit{Key: key, Max: n}
	return s
}

// worker is a process that works queue "q", under a live lease of its own.
func (w *world) worker(s *store.Store) lease.Ref {
	w.Helper()
	ref := w.server(s)
	w.check("Join", s.Queue.Register(w.ctx, driver.Process{Lease: ref, Host: "h", PID: 1, Queues: []string{"q"}, Slots: 10}))
	return ref
}

// beat renews a lease for as long as the test runs, or until the lease is told to lapse.
func (w *world) beat(s *store.Store, ref lease.Ref) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(long / 5):
			}
			r, err := s.Leases.Renew(w.ctx, []lease.RenewRequest{{Ref: ref, TTL: long}})
			if err != nil || r.Answers[0].Status != lease.OK {
				return
			}
		}
	}()
	if w.beats == nil {
		w.beats = map[lease.Ref]func(){}
	}
	w.beats[ref] = sync.OnceFunc(func() { close(stop); <-stopped })
	w.Cleanup(w.beats[ref])
}

// enqueue takes specs in as one batch.
func (w *world) enqueue(s *store.Store, specs ...task.Spec) []task.Enqueued {
	w.Helper()
	for i := range specs {
		specs[i] = specs[i].Clone()
		w.check("Check", specs[i].Check())
	}
	answers, err := s.Queue.Enqueue(w.ctx, specs)
	w.check("Enqueue", err)
	if len(answers) != len(specs) {
		w.Fatalf("Enqueue of %d: %d answers", len(specs), len(answers))
	}
	return answers
}

// add takes specs in as one batch, all of which must be new, and returns their ids.
func (w *world) add(specs ...task.Spec) []task.ID {
	w.Helper()
	var ids []task.ID
	for i, a := range w.enqueue(w.s, specs...) {
		if a.Answer != task.New || a.ID == 0 {
			w.Fatalf("Enqueue of task %d: %+v, want a new one", i, a)
		}
		ids = append(ids, a.ID)
	}
	return ids
}

// add1 is add of one.
func (w *world) add1(s task.Spec) task.ID {
	w.Helper()
	return w.add(s)[0]
}

// duplicate is an enqueue that must be refused because of the task id.
func (w *world) duplicate(s task.Spec, id task.ID, state task.State) {
	w.Helper()
	equal(w, "Enqueue of a taken key", w.enqueue(w.s, s)[0], task.Enqueued{Answer: task.Duplicate, ID: id, State: state})
}

func (w *world) fetchWith(s *store.Store, r driver.FetchRequest) driver.Fetch {
	w.Helper()
	if r.Max == 0 {
		r.Max = 100
	}
	if len(r.Queues) == 0 {
		r.Queues = []string{"q"}
	}
	f, err := s.Queue.Fetch(w.ctx, r)
	w.check("Fetch", err)
	return f
}

// fetch takes up to n tasks of queue "q", suspects included.
func (w *world) fetch(worker lease.Ref, n int) []driver.Fetched {
	w.Helper()
	return w.fetched(worker, n).Tasks
}

func (w *world) fetched(worker lease.Ref, n int) driver.Fetch {
	w.Helper()
	f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Max: n, Suspects: true, Crashers: true})
	if f.Late || f.Gone {
		w.Fatalf("Fetch: %+v", f)
	}
	return f
}

// fetch1 is a fetch that must find the task id, and only that. Like a worker, it asks again if the store says that one
// step was too little.
func (w *world) fetch1(worker lease.Ref, id task.ID) driver.Fetched {
	w.Helper()
	f := w.fetched(worker, 100)
	for n := 0; n < 3 && len(f.Tasks) == 0 && !f.NextDue.IsZero() && !f.NextDue.After(f.Now); n++ {
		f = w.fetched(worker, 100)
	}
	if got := f.Tasks; len(got) != 1 || got[0].ID != id {
		w.Fatalf("Fetch: %v, want task %d, which is %+v; the fetch, at %v, sees more due at %v", ids(got), id, w.task(id), f.Now, f.NextDue)
	}
	return f.Tasks[0]
}

// fetches is a fetch of up to n whose tasks must be exactly these, in this order.
func (w *world) fetches(what string, worker lease.Ref, n int, want ...task.ID) []driver.Fetched {
	w.Helper()
	got := w.fetch(worker, n)
	w.order(what, ids(got), want)
	return got
}

func (w *world) order(what string, got, want []task.ID) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s: got tasks %v, want %v", what, got, want)
	}
}

func ids(tasks []driver.Fetched) []task.ID {
	var all []task.ID
	for _, t := range tasks {
		all = append(all, t.ID)
	}
	return all
}

func (w *world) begin(worker lease.Ref, r driver.Ref) driver.Status {
	w.Helper()
	answers, err := w.s.Queue.Start(w.ctx, worker, []driver.Ref{r})
	w.check("Start", err)
	if len(answers) != 1 {
		w.Fatalf("Start of one: %d answers", len(answers))
	}
	return answers[0]
}

// finish is Finish for tests whose workers are at work at once: what is withheld, since another transaction has the
// task for longer than a statement waits, is asked for again. How often that happens depends on the machine.
func finish(ctx context.Context, s *store.Store, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	answers, err := s.Queue.Finish(ctx, worker, ends)
	for i := range answers {
		for err == nil && answers[i] == driver.Withheld {
			var again []driver.Status
			if again, err = s.Queue.Finish(ctx, worker, ends[i:i+1]); err == nil {
				answers[i] = again[0]
			}
		}
	}
	return answers, err
}

func (w *world) finish(worker lease.Ref, c driver.Completion) driver.Status {
	w.Helper()
	answers, err := w.s.Queue.Finish(w.ctx, worker, []driver.Completion{c})
	w.check("Finish", err)
	if len(answers) != 1 {
		w.Fatalf("Finish of one: %d answers", len(answers))
	}
	return answers[0]
}

// ended is the report of a run, with the outcome that goes with the verdict.
func (w *world) ended(r driver.Ref, v driver.Verdict) driver.Completion {
	w.Helper()
	now := w.now(w.s)
	outcome := map[driver.Verdict]string{driver.Retry: "failed", driver.Fail: "failed", driver.Cancel: "canceled",
		driver.Drop: "discarded", driver.Snooze: "snoozed", driver.Return: "returned"}[v]
	return driver.Completion{Ref: r, Verdict: v, Outcome: outcome, Started: now, Ended: now}
}

// done ends a run that must still be the worker's.
func (w *world) done(worker lease.Ref, r driver.Ref, v driver.Verdict) {
	w.Helper()
	equal(w, "Finish", w.finish(worker, w.ended(r, v)), driver.OK)
}

// find is a task with its attempts and the use of its limit; ok is false where there is none.
func (w *world) find(id task.ID) (driver.Task, driver.Slots, bool) {
	w.Helper()
	t, held, ok, err := w.s.Tasks.Task(w.ctx, id)
	w.check("Task", err)
	return t, held, ok
}

// task is a task that must be there.
func (w *world) task(id task.ID) driver.Task {
	w.Helper()
	t, _, ok := w.find(id)
	if !ok || t.ID != id {
		w.Fatalf("Task(%d): %v, %+v", id, ok, t)
	}
	return t
}

// state checks where a task stands, and why.
func (w *world) state(what string, id task.ID, want task.State, reason string) {
	w.Helper()
	t := w.task(id)
	equal(w, what+": state", t.State, want)
	equal(w, what+": reason", t.Reason, reason)
}

func (w *world) maintainWith(r driver.MaintainRequest) driver.Maintained {
	w.Helper()
	t, err := w.s.Queue.Maintain(w.ctx, r)
	w.check("Maintain", err)
	return t
}

func (w *world) maintain() driver.Maintained {
	w.Helper()
	return w.maintainWith(driver.MaintainRequest{})
}

func (w *world) act(a driver.OpRequest) []driver.OpResult {
	w.Helper()
	answers, err := w.s.Tasks.Operate(w.ctx, a)
	w.check("Act", err)
	if len(answers) != len(a.IDs) {
		w.Fatalf("%s of %d: %d answers", a.Operation, len(a.IDs), len(answers))
	}
	return answers
}

// act1 does something to one task.
func (w *world) act1(a driver.Operation, id task.ID) driver.OpResult {
	w.Helper()
	return w.act(driver.OpRequest{Operation: a, IDs: []task.ID{id}, By: "me", Why: "because"})[0]
}

// acted is act1 that must be answered so.
func (w *world) acted(a driver.Operation, id task.ID, want driver.OpAnswer) {
	w.Helper()
	equal(w, string(a), w.act1(a, id).Answer, want)
}

// past lets the store's clock pass so long from now.
func (w *world) past(d time.Duration) {
	w.Helper()
	w.until(w.now(w.s).Add(d))
}

// happened are the events of a kind, newest first.
func (w *world) happened(kind string) (found []history.Event) {
	w.Helper()
	for _, e := range w.events(history.Query{Limit: 1000}) {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}
