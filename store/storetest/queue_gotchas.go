package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// What users of other queues were bitten by, each as a promise that it cannot happen here. They are kept with the
// library's own Client and Worker, as a program would.
var gotchaPromises = []promise{
	// Holds: promise 16.
	{"a refused unique enqueue is not silent", gotchaSilence},
	// Holds: promise 17.
	{"a unique task must name its key", gotchaNoKey},
	{"both kinds of uniqueness hold together: one runs, one waits, the latest arguments win", gotchaBothKinds},
	{"a task never fails without having run", gotchaExhaustion},
	// Holds: promise 18.
	{"contenders for a limit burn no attempts and spin in no loop", gotchaContention},
	{"a killed worker strands neither its tasks nor their keys", gotchaKilled},
	// Holds: promise 19.
	{"a worker whose lease is gone begins anew", gotchaGone},
	// Holds: promise 17.
	{"a unique key outlives every retry and nothing more", gotchaLifetime},
	{"a task that takes longer than any timeout of the queue is not run twice", gotchaLong},
	{"a discard is no success", gotchaDiscard},
	{"keys of one kind do not meet those of another", gotchaScope},
	// Holds: promise 17.
	{"a clear leaves no key behind", gotchaClear},
	{"a manual retry does not bypass uniqueness", gotchaRetry},
}

// shop is a client and the workers of a promise.
type shop struct {
	*world
	client *queue.Client
}

func (w *world) shop() *shop {
	c := queue.NewClient(queue.ClientOptions{Store: w.s.Queue})
	w.Cleanup(c.Close)
	return &shop{w, c}
}

func (s *shop) enqueueOne(spec task.Spec) task.Enqueued {
	s.Helper()
	e, err := s.client.Enqueue(s.ctx, spec)
	s.check("Enqueue", err)
	return e
}

// work starts a worker as another process would, and returns what stops it.
func (s *shop) work(slots int, do func(context.Context, *queue.Run) error) (stop func()) {
	s.Helper()
	st := s.process()
	k := s.keeper(st)
	mux := &queue.Mux{}
	for _, kind := range []string{"k", "k2"} {
		mux.Handle(kind, queue.Handler{Do: do, Backoff: func(int, error) time.Duration { return time.Millisecond }})
	}
	wk, err := queue.NewWorker(queue.WorkerOptions{Store: st.Queue, Keeper: k, Mux: mux, Queues: []string{"q", "q2"}, Slots: slots, Grace: time.Second, Poll: 50 * time.Millisecond})
	s.check("NewWorker", err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- wk.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.Errorf("Worker.Run: %v", err)
		}
		k.Close()
	})
	s.Cleanup(stop)
	return stop
}

// keeper is a worker's. Its heart beats often, so that it soon knows of the loss of its lease.
func (w *world) keeper(st *store.Store) *lease.Keeper {
	w.Helper()
	margin := lease.MarginFor(long)
	margin.Heartbeat = 250 * time.Millisecond
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify, Margin: margin})
	w.check("NewKeeper", err)
	return k
}

// comes waits until the task is in a state.
func (s *shop) comes(id task.ID, want task.State) driver.Task {
	s.Helper()
	for {
		t := s.task(id)
		if t.State == want {
			return t
		}
		if s.ctx.Err() != nil || t.State.Final() {
			s.Fatalf("task %d is %s (%s, %+v), want %s", id, t.State, t.Reason, t.History, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// gotchaGone takes the lease of a worker away while it is idle, and again while it works: as a flush does, or a
// replica that is promoted and never had the lease.
func gotchaGone(w *world) {
	s := w.shop()
	begun := make(chan struct{}, 10)
	s.work(1, func(ctx context.Context, r *queue.Run) error {
		begun <- struct{}{}
		if r.Tags != nil && !r.Suspect { // it waits to be told
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	s.comes(s.enqueueOne(some()).ID, task.Succeeded)
	s.takeAway()
	s.comes(s.enqueueOne(some()).ID, task.Succeeded)
	long := some()
	long.Tags = []string{"long"}
	id := s.enqueueOne(long).ID
	s.comes(id, task.Running)
	for len(begun) < 3 {
		time.Sleep(5 * time.Millisecond)
	}
	s.takeAway()
	s.comes(id, task.Succeeded)
}

// takeAway frees the leases of all processes.
func (w *world) takeAway() {
	w.Helper()
	for _, key := range w.list(w.s, "once", false) {
		w.breakIt(w.s, lease.Ref{Key: key}, lease.Broken{By: "a test", Now: true})
	}
}

func gotchaSilence(w *world) {
	s := w.shop()
	first := s.enqueueOne(unique("x", task.UntilFinished))
	second := s.enqueueOne(unique("x", task.UntilFinished))
	equal(w, "the second", second, task.Enqueued{Answer: task.Duplicate, ID: first.ID, State: task.Available})
	s.client.Close() // writes what it counted
	counts, err := w.s.Tasks.Counts(w.ctx, w.now(w.s).Add(-time.Hour), w.now(w.s).Add(time.Hour))
	w.check("Counts", err)
	for _, c := range counts {
		if c.Name == counters.Duplicate+":finished" && c.N == 1 && c.Kind == "k" {
			return
		}
	}
	w.Errorf("no duplicate is counted: %+v", counts)
}

func gotchaNoKey(w *world) {
	s := w.shop()
	spec := some()
	spec.Unique = &task.Unique{}
	var wrong *task.SpecError
	if _, err := s.client.Enqueue(w.ctx, spec); !errors.As(err, &wrong) || wrong.Field != "unique.key" {
		w.Errorf("without a key: %v", err)
	}
	a, b := s.enqueueOne(unique("a", task.UntilFinished)), s.enqueueOne(unique("b", task.UntilFinished))
	if a.Answer != task.New || b.Answer != task.New {
		w.Errorf("two keys of one kind: %+v, %+v", a, b)
	}
}

func gotchaBothKinds(w *world) {
	s := w.shop()
	var running, over atomic.Int64
	var last atomic.Value
	begun, release := make(chan struct{}, 100), make(chan struct{})
	stop := s.work(4, func(ctx context.Context, r *queue.Run) error {
		if running.Add(1) > 1 {
			over.Add(1)
		}
		defer running.Add(-1)
		last.Store(string(r.Args))
		begun <- struct{}{}
		<-release
		return nil
	})
	spec := unique("x", task.UntilStarted)
	spec.Unique.Again, spec.Limit = task.Replace, &task.Limit{Key: "x"}
	with := func(args string) task.Spec { c := spec.Clone(); c.Args = []byte(args); return c }
	first := s.enqueueOne(with("1"))
	<-begun
	waiting := s.enqueueOne(with("2"))
	newer := s.enqueueOne(with("3"))
	equal(w, "one that waits beside one that runs", waiting.Answer, task.New)
	equal(w, "a newer one", newer, task.Enqueued{Answer: task.Updated, ID: waiting.ID, State: newer.State})
	close(release)
	s.comes(first.ID, task.Succeeded)
	s.comes(waiting.ID, task.Succeeded)
	stop()
	equal(w, "arguments of the last run", last.Load(), any("3"))
	equal(w, "how often two ran", over.Load(), 0)
}

func gotchaExhaustion(w *world) {
	s := w.shop()
	spec := some()
	spec.MaxAttempts, spec.RetryUntil = 1, w.now(w.s).Add(-time.Hour)
	id := s.enqueueOne(spec).ID
	var ran atomic.Int64
	s.work(1, func(context.Context, *queue.Run) error { ran.Add(1); return errors.New("no") })
	t := s.comes(id, task.Failed)
	equal(w, "how often it ran", ran.Load(), 1)
	equal(w, "attempts", t.Attempts, 1)
}

func gotchaContention(w *world) {
	s := w.shop()
	release := make(chan struct{})
	var calls atomic.Int64
	var ids []task.ID
	for range 20 {
		spec := limited("x", 1)
		spec.MaxAttempts = 1
		ids = append(ids, s.enqueueOne(spec).ID)
	}
	s.work(10, func(context.Context, *queue.Run) error {
		if calls.Add(1) == 1 {
			<-release
		}
		return nil
	})
	s.comes(ids[0], task.Running)
	w.past(200 * time.Millisecond)
	equal(w, "calls while the first one runs", calls.Load(), 1)
	for _, id := range ids[1:] {
		t := w.task(id)
		equal(w, "a contender's state", t.State, task.Blocked)
		equal(w, "a contender's attempts", t.Attempts, 0)
	}
	close(release)
	for _, id := range ids {
		equal(w, "attempts in the end", s.comes(id, task.Succeeded).Attempts, 1)
	}
}

func gotchaKilled(w *world) {
	s := w.shop()
	dead := w.server(w.s) // a worker of which nothing is heard after its fetch
	spec := unique("x", task.UntilFinished)
	spec.Limit = &task.Limit{Key: "x"}
	id := s.enqueueOne(spec).ID
	next := s.enqueueOne(limited("x", 1)).ID
	equal(w, "tasks fetched", len(w.fetchWith(w.s, driver.FetchRequest{Worker: dead, Max: 1}).Tasks), 1)
	_, err := w.s.Leases.Break(w.ctx, dead, lease.Broken{By: "test", Now: true}) // as if it had lapsed
	w.check("Break", err)
	s.work(2, func(context.Context, *queue.Run) error { return nil })
	equal(w, "attempts of the one that was lost", s.comes(id, task.Succeeded).Attempts, 1)
	s.comes(next, task.Succeeded)
	equal(w, "its key", s.enqueueOne(spec.Clone()).Answer, task.New)
}

func gotchaLifetime(w *world) {
	s := w.shop()
	var ran atomic.Int64
	id := s.enqueueOne(unique("x", task.UntilFinished)).ID
	s.work(1, func(_ context.Context, r *queue.Run) error {
		if ran.Load() == 4 {
			return nil // the one that comes when it is finished
		}
		e, err := s.client.Enqueue(w.ctx, unique("x", task.UntilFinished))
		if err != nil || e.Answer != task.Duplicate || e.ID != id {
			w.Errorf("in attempt %d: %+v, %v", r.Attempt, e, err)
		}
		if ran.Add(1) < 4 {
			return errors.New("again")
		}
		return nil
	})
	s.comes(id, task.Succeeded)
	e, err := w.s.Queue.Enqueue(w.ctx, []task.Spec{checked(w, unique("x", task.UntilFinished))})
	w.check("Enqueue", err)
	equal(w, "once it is finished", e[0].Answer, task.New)
}

func checked(w *world, s task.Spec) task.Spec {
	w.Helper()
	w.check("Check", s.Check())
	return s
}

func gotchaLong(w *world) {
	s := w.shop()
	var calls atomic.Int64
	release := make(chan struct{})
	do := func(_ context.Context, r *queue.Run) error {
		if r.Tags == nil {
			calls.Add(1)
			<-release
		}
		return nil
	}
	s.work(1, do)
	id := s.enqueueOne(some()).ID
	s.comes(id, task.Running)
	s.work(1, do)
	for range 3 { // rounds of the idle worker: it asks for tasks, is given what there is, and maintains
		short := some()
		short.Tags = []string{"short"}
		s.comes(s.enqueueOne(short).ID, task.Succeeded)
		equal(w, "rescued", w.maintain().Rescued, 0)
	}
	equal(w, "calls", calls.Load(), 1)
	close(release)
	equal(w, "attempts", s.comes(id, task.Succeeded).Attempts, 1)
}

func gotchaDiscard(w *world) {
	s := w.shop()
	s.work(1, func(context.Context, *queue.Run) error { return queue.GiveUp("moot") })
	t := s.comes(s.enqueueOne(some()).ID, task.Discarded)
	equal(w, "reason", t.Reason, task.ReasonWorker)
	subs, err := w.s.Tasks.Queues(w.ctx)
	w.check("Queues", err)
	for _, l := range subs {
		equal(w, "successes", l.Depth[task.Succeeded], 0)
		equal(w, "discards", l.Depth[task.Discarded], 1)
	}
}

func gotchaScope(w *world) {
	s := w.shop()
	a := unique("x", task.UntilFinished)
	b := unique("x", task.UntilFinished)
	b.Kind = "k2"
	elsewhere := unique("x", task.UntilFinished)
	elsewhere.Queue = "q2"
	first := s.enqueueOne(a)
	equal(w, "another kind", s.enqueueOne(b).Answer, task.New)
	equal(w, "another queue", s.enqueueOne(elsewhere), task.Enqueued{Answer: task.Duplicate, ID: first.ID, State: task.Available})
	shared := unique("y", task.UntilFinished)
	shared.Unique.Shared = true
	other := shared.Clone()
	other.Kind = "k2"
	equal(w, "a shared key", s.enqueueOne(shared).Answer, task.New)
	equal(w, "a shared key, another kind", s.enqueueOne(other).Answer, task.Duplicate)
}

func gotchaClear(w *world) {
	s := w.shop()
	waiting, scheduled, finished := unique("a", ""), unique("b", ""), unique("c", "")
	scheduled.Delay, finished.Unique.Window = time.Hour, time.Hour
	s.enqueueOne(waiting)
	s.enqueueOne(scheduled)
	s.enqueueOne(finished)
	worker := w.worker(w.s)
	for _, f := range w.fetch(worker, 10) {
		if f.Unique.Key == "c" {
			w.done(worker, f.Ref, driver.Success)
		} else {
			w.done(worker, f.Ref, driver.Return)
		}
	}
	for act, states := range map[driver.Operation][]task.State{driver.OpDiscard: task.Waits(true), driver.OpDelete: {task.Succeeded}} {
		b := queue.Bulk{Admin: w.s.Tasks, Filter: driver.Filter{Queue: "q", States: states}, Action: driver.OpRequest{Operation: act, By: "me"}}
		p, err := b.Preview(w.ctx)
		w.check("Preview", err)
		_, err = b.Do(w.ctx, p.Last, nil)
		w.check("Do", err)
	}
	for _, spec := range []task.Spec{waiting, scheduled, finished} {
		equal(w, "key "+spec.Unique.Key+" after the clear", s.enqueueOne(spec.Clone()).Answer, task.New)
	}
}

func gotchaRetry(w *world) {
	s := w.shop()
	stop := s.work(1, func(context.Context, *queue.Run) error { return queue.Final(errors.New("no")) })
	first := s.enqueueOne(unique("x", task.UntilFinished)).ID
	s.comes(first, task.Failed)
	stop()
	second := s.enqueueOne(unique("x", task.UntilFinished)).ID
	equal(w, "a retry of the first", w.act1(driver.OpRetry, first), driver.OpResult{ID: first, Answer: driver.Taken, State: task.Failed, Other: second})
	w.acted(driver.OpCancel, second, driver.Done)
	w.acted(driver.OpRetry, first, driver.Done)
	equal(w, "the key after its retry", s.enqueueOne(unique("x", task.UntilFinished)), task.Enqueued{Answer: task.Duplicate, ID: first, State: task.Available})
}
