package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A recorder is a store that counts the requests of one worker, and checks each of them: what a request may ask for,
// what must have come before it, and how long it may take. It loses some answers.
type recorder struct {
	driver.Store
	w      *world
	k      *lease.Keeper
	queues []string
	most   int // tasks that the worker may have: its slots, and what it may fetch ahead

	mu     sync.Mutex
	calls  map[string]int
	here   map[driver.Ref]bool // given, and their ends not taken
	tried  map[driver.Ref]bool // their ends were sent at least once
	works  map[driver.Ref]bool // at work now
	lose   int                 // answers to lose
	joined bool
	left   bool
	watch  context.Context
	mute   bool // the channel of Watch is closed at once
}

func (w *world) recorder(k *lease.Keeper, most int, queues ...string) *recorder {
	return &recorder{Store: w.st.Queue, w: w, k: k, most: most, queues: queues, calls: map[string]int{},
		here: map[driver.Ref]bool{}, tried: map[driver.Ref]bool{}, works: map[driver.Ref]bool{}}
}

// crashes reports whether a task is said to have taken a worker down before.
func crashes(id task.ID) bool { return id%31 == 30 }

func (r *recorder) wrong(format string, args ...any) {
	r.w.Helper()
	r.w.Errorf("%s after %v", fmt.Sprintf(format, args...), r.calls)
}

// came checks what holds for every request. Call it with the mutex held.
func (r *recorder) came(ctx context.Context, what string, worker lease.Ref) {
	r.w.Helper()
	if r.calls[what]++; r.calls[what] > 100_000 {
		panic("a storm of requests: " + what) // in virtual time it would never end
	}
	most := r.k.Margin().RPCTimeout
	if at, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(at) > most {
		r.wrong("%s: its context ends in %s (%v), %v; want within %s", what, time.Until(at), ok, ctx.Err(), most)
	}
	if !r.joined && what != "declare" && what != "register" {
		r.wrong("%s before the worker joined", what)
	}
	if r.left {
		r.wrong("%s after the worker left", what)
	}
	if worker == (lease.Ref{}) {
		return
	}
	if _, rec, err := r.k.Read(context.WithoutCancel(ctx), worker.Key); err != nil || rec.Ref() != worker {
		r.wrong("%s under %v, and the lease is %v: %v", what, worker, rec.Ref(), err)
	}
}

// lost reports whether the answer that was just made is to be lost.
func (r *recorder) lost() error {
	if r.lose == 0 {
		return nil
	}
	r.lose--
	return errCut
}

func (r *recorder) Declare(ctx context.Context, rates map[string]task.Rate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "declare", lease.Ref{})
	return r.Store.Declare(ctx, rates)
}

func (r *recorder) Register(ctx context.Context, p driver.Process) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "register", p.Lease)
	r.joined = true
	return r.Store.Register(ctx, p)
}

func (r *recorder) Deregister(ctx context.Context, worker lease.Ref) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "deregister", worker)
	r.left = true
	return r.Store.Deregister(ctx, worker)
}

func (r *recorder) Watch(ctx context.Context, queues []string) (<-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls["watch"]++
	r.watch = ctx
	if r.mute {
		c := make(chan struct{})
		close(c)
		return c, nil
	}
	return r.Store.Watch(ctx, queues)
}

func (r *recorder) Fetch(ctx context.Context, q driver.FetchRequest) (driver.Fetch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "fetch", q.Worker)
	if good := time.Until(q.NotAfter); good <= 0 || good > r.k.Margin().RPCTimeout {
		r.wrong("a fetch is good for %s", good)
	}
	if q.Max < 1 || q.Max > r.most || q.Max > 1000 || q.Bytes < 1 || q.Bytes > 2<<20 {
		r.wrong("a fetch of %d tasks and %d bytes, by a worker that may have %d", q.Max, q.Bytes, r.most)
	}
	sorted := slices.Sorted(slices.Values(q.Queues))
	if !slices.Equal(sorted, r.queues) || !slices.Equal(q.Kinds, []string{"k"}) || !q.Suspects {
		r.wrong("a fetch of queues %q and kinds %q, suspects %v", q.Queues, q.Kinds, q.Suspects)
	}
	for ref := range r.works {
		if crashes(ref.ID) && q.Crashers {
			r.wrong("a fetch of crashers beside %v", ref)
		}
	}
	f, err := r.Store.Fetch(ctx, q)
	if err := r.lost(); err != nil {
		return driver.Fetch{}, err
	}
	for i := range f.Tasks {
		if crashes(f.Tasks[i].ID) {
			f.Tasks[i].Crashes, f.Tasks[i].Suspect = 1, true
		}
		r.here[f.Tasks[i].Ref] = true
	}
	return f, err
}

func (r *recorder) Start(ctx context.Context, worker lease.Ref, refs []driver.Ref) ([]driver.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "start", worker)
	for _, ref := range refs {
		if !r.here[ref] || r.tried[ref] {
			r.wrong("the start of %v, which is not here", ref)
		}
	}
	return r.Store.Start(ctx, worker, refs)
}

func (r *recorder) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "finish", worker)
	if len(ends) == 0 || len(ends) > 1000 {
		r.wrong("%d ends", len(ends))
	}
	once := map[driver.Ref]bool{}
	for _, c := range ends {
		fine := c.Verdict >= driver.Success && c.Verdict <= driver.Return && c.Delay >= 0 && len(c.Error) < 9000 &&
			!c.Ended.Before(c.Started) && !c.Ended.After(time.Now().Add(time.Second)) && (c.Verdict != driver.Success || c.Error == "")
		if !fine || once[c.Ref] || !r.here[c.Ref] && c.Error != "the store's answer to the fetch was lost" {
			r.wrong("the end of %v, twice %v, here %v: %+v", c.Ref, once[c.Ref], r.here[c.Ref], c)
		}
		once[c.Ref], r.tried[c.Ref] = true, true
	}
	st, err := r.Store.Finish(ctx, worker, ends)
	if err := r.lost(); err != nil {
		return nil, err
	}
	for i := range st {
		if st[i] != driver.OK {
			r.wrong("the end of %v was answered %v", ends[i].Ref, st[i])
		}
		delete(r.here, ends[i].Ref)
	}
	return st, err
}

func (r *recorder) Running(ctx context.Context, worker lease.Ref, asked bool) ([]driver.RunningTask, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "running", worker)
	if !asked {
		r.calls["running, all"]++
	}
	mine, err := r.Store.Running(ctx, worker, asked)
	if err := r.lost(); err != nil {
		return nil, err
	}
	return mine, err
}

func (r *recorder) Maintain(ctx context.Context, q driver.MaintainRequest) (driver.Maintained, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "maintain", lease.Ref{})
	if len(q.Keep) == 0 {
		r.wrong("nothing says how long finished tasks are kept")
	}
	return r.Store.Maintain(ctx, q)
}

// since returns how often each call came since the last time.
func (r *recorder) since() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = map[string]int{}
	return calls
}

func (r *recorder) loses(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = n
}

// Each request of a worker is one that it may send, whatever its tasks do and whatever answers are lost; and each task
// ends once.
// Holds: L1, Q4, Q5.
func TestEachRequestOfAWorker(t *testing.T) {
	virtual(t, func(w *world) {
		const slots, ahead = 3, 20
		k := w.keeper()
		r := w.recorder(k, slots+ahead, "a", "b")
		most := 0
		wk := w.workWith(k, queue.WorkerOptions{Store: r, Slots: slots, Prefetch: ahead, Queues: []string{"b", "a"}, Mux: handler(func(ctx context.Context, t *queue.Run) error {
			r.mu.Lock()
			r.works[t.Ref] = true
			most = max(most, len(r.works))
			r.mu.Unlock()
			defer func() { r.mu.Lock(); delete(r.works, t.Ref); r.mu.Unlock() }()
			switch n := int(t.ID); {
			case string(t.Args) == `"long"`:
				<-ctx.Done()
				return context.Cause(ctx)
			case n%7 == 1 && t.Attempt == 1:
				return errors.New("it failed")
			case n%7 == 2 && t.Snoozes == 0:
				return queue.Postpone(3 * time.Second)
			case n%7 == 3:
				return queue.GiveUp("moot")
			case n%7 == 4:
				time.Sleep(1500 * time.Millisecond)
			case n%7 == 5 && t.Attempt == 1:
				panic("oh")
			}
			return nil
		})})
		var ids []task.ID
		for i := range 210 {
			s := task.Spec{Kind: "k", Queue: string(rune('a' + i%2))}
			if i%5 == 0 {
				s.Limit = &task.Limit{Key: "l", Max: 2}
			}
			if i%11 == 0 {
				s.Unique = &task.Unique{Key: fmt.Sprint(i), Until: task.UntilStarted}
			}
			id := w.enqueue(s).ID
			ids = append(ids, id)
			if i%30 == 29 {
				r.loses(2)
				time.Sleep(20 * time.Second)
			}
		}
		for _, id := range ids {
			want := task.Succeeded
			if id%7 == 3 {
				want = task.Discarded
			}
			got := w.expect(id, want, 5*time.Minute)
			if n := 1 + map[task.ID]int{1: 1, 5: 1}[id%7]; got.Attempts != n {
				t.Errorf("task %d ended after %d attempts, want %d", id, got.Attempts, n)
			}
		}
		if most != slots {
			t.Errorf("%d were at work at once, in %d slots", most, slots)
		}
		var long []task.ID
		for range 2 * slots {
			long = append(long, w.enqueue(task.Spec{Kind: "k", Queue: "a", Args: []byte(`"long"`)}).ID)
		}
		time.Sleep(5 * time.Second)
		w.end(wk) // which stops those at work, and hands them back
		for _, id := range long {
			if got := w.task(id); got.State != task.Available || got.Attempts > 0 || got.Suspect {
				t.Errorf("after the shutdown task %d is %s, %d attempts, suspect %v", id, got.State, got.Attempts, got.Suspect)
			}
		}
		if calls := r.since(); calls["declare"] != 1 || calls["register"] != 1 || calls["watch"] != 1 || calls["deregister"] != 1 {
			t.Errorf("in its life: %v", calls)
		}
		if r.watch.Err() == nil {
			t.Error("it watches for tasks after its end")
		}
	})
}

// A worker without tasks sends few requests: a look a second, its share of the maintenance, and once a minute the
// question whether the store agrees that it has none. With one long task it also asks each second whether to stop it.
// Holds: promise 26.
func TestWhatAWorkerAsksWhileNothingHappens(t *testing.T) {
	for _, mute := range []bool{false, true} {
		virtual(t, func(w *world) { quietly(w, mute) })
	}
}

// quietly is the same where the store's channel of news is closed at once, which is none.
func quietly(w *world, mute bool) {
	k := w.keeper()
	r := w.recorder(k, 1+1000, "default")
	r.mute = mute
	wk := w.workWith(k, queue.WorkerOptions{Store: r, Slots: 1, Mux: handler(func(context.Context, *queue.Run) error {
		time.Sleep(10 * time.Minute)
		return nil
	})})
	within := func(what string, calls map[string]int, want map[string][2]int) {
		w.Helper()
		for name, n := range calls {
			if b := want[name]; n < b[0] || n > b[1] {
				w.Errorf("%s, in five minutes: %d calls of %s, want %d to %d", what, n, name, b[0], b[1])
			}
		}
	}
	time.Sleep(10 * time.Second)
	r.since()
	time.Sleep(5 * time.Minute)
	within("idle", r.since(), map[string][2]int{"fetch": {295, 301}, "running": {4, 6}, "running, all": {4, 6}, "maintain": {250, 400}})
	id := w.enqueue(task.Spec{Kind: "k"}).ID
	time.Sleep(10 * time.Second)
	r.since()
	time.Sleep(5 * time.Minute)
	within("busy", r.since(), map[string][2]int{"running": {295, 301}, "running, all": {145, 155}, "maintain": {250, 400}})
	w.expect(id, task.Succeeded, 10*time.Minute)
	w.end(wk)
}
