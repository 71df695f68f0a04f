package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/task"
)

// world is a store in memory in virtual time, with what its users see.
type world struct {
	*testing.T
	st     *store.Store
	client *queue.Client
	log    *slog.Logger
}

// virtual runs a test in virtual time.
func virtual(t *testing.T, f func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, st: memory.New(memory.Options{}).Store(), log: slog.New(slog.DiscardHandler)}
		if testing.Verbose() {
			w.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
		}
		w.client = queue.NewClient(queue.ClientOptions{Store: w.st.Queue})
		defer w.client.Close()
		f(w)
	})
}

// worker is one that a test ends.
type worker struct {
	stop func()
	done chan error
	k    *lease.Keeper
}

// work starts a worker in a process of its own: its own keeper.
func (w *world) work(o queue.WorkerOptions) *worker {
	w.Helper()
	if o.Store == nil {
		o.Store = w.st.Queue
	}
	return w.workWith(w.keeper(), o)
}

// workAs starts a worker in a process that may die.
func (w *world) workAs(p *mortal, o queue.WorkerOptions) *worker {
	o.Store = p
	return w.workWith(w.keeperOf(p.lease), o)
}

func (w *world) workWith(k *lease.Keeper, o queue.WorkerOptions) *worker {
	w.Helper()
	o.Keeper, o.Log, o.Holder = k, w.log, lease.Holder{Host: "host", PID: 1}
	wk, err := queue.NewWorker(o)
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.Context())
	run := &worker{stop: stop, done: make(chan error, 1), k: k}
	go func() { run.done <- wk.Run(ctx) }()
	return run
}

func (w *world) keeper() *lease.Keeper { return w.keeperOf(w.st.Leases) }

func (w *world) keeperOf(s lease.Store) *lease.Keeper {
	w.Helper()
	k, err := lease.NewKeeper(lease.Options{Store: s, Clock: clock.Virtual{Start: time.Now()}})
	if err != nil {
		w.Fatal(err)
	}
	return k
}

// end stops a worker gracefully.
func (w *world) end(wk *worker) {
	w.Helper()
	wk.stop()
	if err := <-wk.done; err != nil {
		w.Errorf("Run: %v", err)
	}
	wk.k.Close()
}

func (w *world) enqueue(s task.Spec) task.Enqueued {
	w.Helper()
	e, err := w.client.Enqueue(w.Context(), s)
	if err != nil {
		w.Fatalf("Enqueue: %v", err)
	}
	return e
}

func (w *world) task(id task.ID) driver.Task {
	w.Helper()
	t, _, ok, err := w.st.Tasks.Task(w.Context(), id)
	if err != nil || !ok {
		w.Fatalf("Task(%d): %v, %v", id, ok, err)
	}
	return t
}

// expect waits, in virtual time, until the task is in a state.
func (w *world) expect(id task.ID, s task.State, within time.Duration) driver.Task {
	w.Helper()
	for end := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		t := w.task(id)
		if t.State == s {
			return t
		}
		if time.Now().After(end) {
			w.Fatalf("task %d is %s (%s) after %s, want %s", id, t.State, t.Reason, within, s)
		}
	}
}

func handler(do func(ctx context.Context, r *queue.Run) error) *queue.Mux {
	m := &queue.Mux{}
	m.Handle("k", queue.Handler{Do: do, Backoff: func(int, error) time.Duration { return time.Second }})
	return m
}

func TestTasksAreWorked(t *testing.T) {
	virtual(t, func(w *world) {
		var n atomic.Int64
		type args struct{ N int64 }
		kind := queue.Define[args]("k")
		m := &queue.Mux{}
		kind.Handle(m, func(_ context.Context, _ *queue.Run, a args) error { n.Add(a.N); return nil }, queue.Handler{})
		wk := w.work(queue.WorkerOptions{Mux: m})
		var last task.ID
		for i := range int64(2000) {
			last = w.enqueue(kind.Spec(args{i})).ID
		}
		w.expect(last, task.Succeeded, time.Minute)
		w.end(wk)
		if got := n.Load(); got != 1999*1000 {
			t.Errorf("worked off %d, want %d", got, 1999*1000)
		}
	})
}

func TestAnIdleWorkerIsToldOfATask(t *testing.T) {
	virtual(t, func(w *world) {
		var starts recorded[time.Time]
		began := func() time.Time { all := starts.all(); return all[len(all)-1] }
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error { starts.add(time.Now()); return nil })})
		time.Sleep(time.Minute + 300*time.Millisecond)
		at := time.Now()
		w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, task.Succeeded, time.Second)
		if d := began().Sub(at); d > time.Millisecond {
			t.Errorf("it began %s after it was enqueued", d)
		}
		at = time.Now()
		w.expect(w.enqueue(task.Spec{Kind: "k", Delay: 90 * time.Second}).ID, task.Succeeded, 2*time.Minute)
		if d := began().Sub(at) - 90*time.Second; d < 0 || d > 50*time.Millisecond {
			t.Errorf("it began %s after it was due", d)
		}
		w.end(wk)
	})
}

// Holds: promise 20.
func TestAttemptsEndAndFirstOnesAreAlwaysMade(t *testing.T) {
	virtual(t, func(w *world) {
		var n atomic.Int64
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error { n.Add(1); return errors.New("no") })})
		e := w.enqueue(task.Spec{Kind: "k", Options: task.Options{MaxAttempts: 3}})
		got := w.expect(e.ID, task.Failed, time.Minute)
		if n.Load() != 3 || got.Attempts != 3 || len(got.History) != 3 || got.History[2].Error != "no" {
			t.Errorf("%d calls, %+v", n.Load(), got)
		}
		past := time.Now().Add(-time.Hour)
		e = w.enqueue(task.Spec{Kind: "k", Options: task.Options{RetryUntil: past}})
		if got := w.expect(e.ID, task.Failed, time.Minute); n.Load() != 4 || got.Attempts != 1 {
			t.Errorf("with its time over: %d calls, %+v", n.Load(), got)
		}
		w.end(wk)
	})
}

// An attempt is work that began: none is counted for a task whose time runs out in the queue.
func TestTimeThatRunsOutWhileATaskWaitsIsNoAttempt(t *testing.T) {
	virtual(t, func(w *world) {
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error { return errors.New("no") })})
		id := w.enqueue(task.Spec{Kind: "k", Options: task.Options{RetryUntil: time.Now().Add(3 * time.Second)}}).ID
		w.expect(id, task.Retryable, time.Second)
		if err := w.st.Tasks.Pause(t.Context(), driver.Pause{Queue: "default", Until: time.Now().Add(10 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		got := w.expect(id, task.Failed, time.Minute)
		if got.Attempts != 1 || len(got.History) != 1 || !strings.HasPrefix(got.Reason, "no time left") {
			t.Errorf("%d attempts, %q, %+v", got.Attempts, got.Reason, got.History)
		}
		w.end(wk)
	})
}

// What is fetched ahead and does not get a slot in time is handed back; that is no part of the task's history.
func TestWhatNeverBeganLeavesNoTrace(t *testing.T) {
	virtual(t, func(w *world) {
		wk := w.work(queue.WorkerOptions{Slots: 1, Mux: handler(func(_ context.Context, r *queue.Run) error {
			if string(r.Args) == "true" {
				time.Sleep(5 * time.Second)
			}
			return nil
		})})
		for range 300 { // so that it fetches ahead
			w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, task.Succeeded, time.Minute)
		}
		specs := []task.Spec{{Kind: "k", Args: []byte("true")}, {Kind: "k"}, {Kind: "k"}}
		all, err := w.client.EnqueueMany(w.Context(), specs)
		if err != nil {
			t.Fatal(err)
		}
		w.expect(all[2].ID, task.Running, time.Second) // fetched ahead
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, e := range all[1:] { // another worker may have it, for as long as this one is busy
			w.expect(e.ID, task.Available, 0)
		}
		w.act(driver.OpCancel, all[1].ID)
		if got := w.expect(all[1].ID, task.Canceled, time.Second); got.Attempts != 0 || len(got.History) != 0 {
			t.Errorf("handed back: %d attempts, %+v", got.Attempts, got.History)
		}
		w.expect(all[2].ID, task.Succeeded, 10*time.Second)
		w.end(wk)
	})
}

func (w *world) act(a driver.Operation, id task.ID) {
	w.Helper()
	if acted, err := w.st.Tasks.Operate(w.Context(), driver.OpRequest{Operation: a, IDs: []task.ID{id}, By: "me"}); err != nil {
		w.Fatalf("%s: %+v, %v", a, acted, err)
	}
}

func TestWhatAHandlerDecides(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		state    task.State
		attempts int
	}{
		"final":    {queue.Final(errors.New("x")), task.Failed, 1},
		"give up":  {queue.GiveUp("moot"), task.Discarded, 1},
		"wrapped":  {fmt.Errorf("outer: %w", queue.GiveUp("moot")), task.Discarded, 1},
		"postpone": {queue.Postpone(time.Hour), task.Retryable, 0},
		"retry":    {queue.RetryAfter(time.Hour, errors.New("x")), task.Retryable, 1},
		"plain":    {errors.New("x"), task.Retryable, 1},
		"nil":      {nil, task.Succeeded, 1},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error { return c.err })})
				got := w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, c.state, time.Second)
				if got.Attempts != c.attempts {
					t.Errorf("%d attempts, want %d", got.Attempts, c.attempts)
				}
				w.end(wk)
			})
		})
	}
}

func TestAPanicIsAFailedAttempt(t *testing.T) {
	virtual(t, func(w *world) {
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error { panic("boom\x00") })})
		got := w.expect(w.enqueue(task.Spec{Kind: "k", Options: task.Options{MaxAttempts: 1}}).ID, task.Failed, time.Minute)
		if len(got.History) != 1 || got.History[0].Error[:11] != "panic: boom" {
			t.Errorf("%+v", got.History)
		}
		w.end(wk)
	})
}

func TestTimeoutsEndAttempts(t *testing.T) {
	virtual(t, func(w *world) {
		wk := w.work(queue.WorkerOptions{Mux: handler(func(ctx context.Context, _ *queue.Run) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})})
		got := w.expect(w.enqueue(task.Spec{Kind: "k", Options: task.Options{MaxAttempts: 2, Timeout: 5 * time.Second}}).ID, task.Failed, time.Minute)
		if len(got.History) != 2 || got.History[0].Outcome != "timed_out" || got.History[0].Ended.Sub(got.History[0].Started) != 5*time.Second {
			t.Errorf("%+v", got.History)
		}
		w.end(wk)
	})
}

// However long the graces are, what ends within them is reported.
func TestAGraceForEver(t *testing.T) {
	virtual(t, func(w *world) {
		wk := w.work(queue.WorkerOptions{Slots: 1, Grace: math.MaxInt64, StopGrace: math.MaxInt64, Mux: handler(func(context.Context, *queue.Run) error {
			time.Sleep(time.Hour)
			return nil
		})})
		id := w.enqueue(task.Spec{Kind: "k"}).ID
		w.expect(id, task.Running, time.Second)
		w.end(wk)
		w.expect(id, task.Succeeded, 0)
	})
}

func TestAShutdownHandsBackWithoutAnAttempt(t *testing.T) {
	virtual(t, func(w *world) {
		wk := w.work(queue.WorkerOptions{Slots: 1, Grace: 5 * time.Second, Mux: handler(func(ctx context.Context, r *queue.Run) error {
			var short bool
			_ = json.Unmarshal(r.Args, &short)
			if short {
				time.Sleep(3 * time.Second)
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})})
		short := w.enqueue(task.Spec{Kind: "k", Args: []byte("true")}).ID
		w.expect(short, task.Running, time.Second)
		waiting := w.enqueue(task.Spec{Kind: "k", Args: []byte("false")}).ID
		w.end(wk)
		w.expect(short, task.Succeeded, 0)
		if got := w.expect(waiting, task.Available, 0); got.Attempts != 0 {
			t.Errorf("a task that never began has %d attempts", got.Attempts)
		}
		wk = w.work(queue.WorkerOptions{Slots: 1, Grace: 5 * time.Second, Mux: handler(func(ctx context.Context, r *queue.Run) error {
			<-ctx.Done()
			return ctx.Err()
		})})
		w.expect(waiting, task.Running, time.Second)
		at := time.Now()
		w.end(wk)
		if d := time.Since(at); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("it ended after %s, with a grace of 5 s", d)
		}
		if got := w.expect(waiting, task.Available, 0); got.Attempts != 0 || got.Suspect {
			t.Errorf("handed back: %+v", got)
		}
		hurry := make(chan struct{})
		wk = w.work(queue.WorkerOptions{Slots: 1, Grace: time.Hour, Hurry: hurry, Mux: handler(func(ctx context.Context, r *queue.Run) error {
			<-ctx.Done()
			time.Sleep(2 * time.Second)
			return ctx.Err()
		})})
		w.expect(waiting, task.Running, time.Second)
		at = time.Now()
		time.AfterFunc(3*time.Second, func() { close(hurry) })
		w.end(wk)
		if d := time.Since(at); d < 5*time.Second || d > 6*time.Second {
			t.Errorf("it ended after %s, told to hurry after 3 s what takes 2 s more", d)
		}
		if got := w.expect(waiting, task.Available, 0); got.Attempts != 0 {
			t.Errorf("handed back in a hurry: %+v", got)
		}
	})
}

func TestARunningTaskIsCanceled(t *testing.T) {
	virtual(t, func(w *world) {
		wk := w.work(queue.WorkerOptions{Mux: handler(func(ctx context.Context, _ *queue.Run) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})})
		id := w.enqueue(task.Spec{Kind: "k"}).ID
		w.expect(id, task.Running, time.Second)
		a, err := w.st.Tasks.Operate(t.Context(), driver.OpRequest{Operation: driver.OpCancel, IDs: []task.ID{id}, By: "me"})
		if err != nil || a[0].Answer != driver.Asking {
			t.Fatalf("%+v, %v", a, err)
		}
		if got := w.expect(id, task.Canceled, 3*time.Second); got.Reason != task.ReasonOperator {
			t.Errorf("reason %q", got.Reason)
		}
		if h := w.task(id).History; len(h) != 1 || h[0].Outcome != "canceled" {
			t.Errorf("its attempt is told as %+v", h)
		}
		w.end(wk)
	})
}

// recorded is what handlers saw.
type recorded[T any] struct {
	mu   sync.Mutex
	seen []T
}

func (r *recorded[T]) add(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, v)
}

func (r *recorded[T]) all() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]T(nil), r.seen...)
}

// deaf is a store that can be made to hear nothing, or to answer nothing.
type deaf struct {
	driver.Store
	mu       sync.Mutex
	fetches  int // answers of Fetch to lose
	finishes int // answers of Finish to lose
}

var errCut = fmt.Errorf("cut off: %w", queue.ErrUnavailable)

func (d *deaf) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	f, err := d.Store.Fetch(ctx, r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fetches > 0 && len(f.Tasks) > 0 {
		d.fetches--
		return driver.Fetch{}, errCut
	}
	return f, err
}

func (d *deaf) Finish(ctx context.Context, w lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	s, err := d.Store.Finish(ctx, w, ends)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.finishes > 0 {
		d.finishes--
		return nil, errCut
	}
	return s, err
}

// Holds: promise 19.
func TestLostAnswersLoseNoTask(t *testing.T) {
	virtual(t, func(w *world) {
		d := &deaf{Store: w.st.Queue, fetches: 3, finishes: 4}
		var mu sync.Mutex
		calls := map[task.ID]int{}
		wk := w.work(queue.WorkerOptions{Store: d, Mux: handler(func(_ context.Context, r *queue.Run) error {
			mu.Lock()
			defer mu.Unlock()
			calls[r.ID]++
			return nil
		})})
		var ids []task.ID
		for range 100 {
			ids = append(ids, w.enqueue(task.Spec{Kind: "k"}).ID)
		}
		for _, id := range ids {
			w.expect(id, task.Succeeded, time.Minute)
			mu.Lock()
			n := calls[id]
			mu.Unlock()
			if n != 1 {
				t.Errorf("task %d was worked %d times", id, n)
			}
		}
		w.end(wk)
	})
}

// A thief gives a task to somebody else before its worker reports.
type thief struct {
	driver.Store
	steals task.ID
}

func (s *thief) Finish(ctx context.Context, w lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	if ends[0].ID == s.steals {
		return []driver.Status{driver.Gone}, nil
	}
	return s.Store.Finish(ctx, w, ends)
}

func TestOnlyWhatTheStoreTookIsCounted(t *testing.T) {
	virtual(t, func(w *world) {
		ours, stolen := w.enqueue(task.Spec{Kind: "k"}), w.enqueue(task.Spec{Kind: "k"})
		var told recorded[observe.Event]
		wk := w.work(queue.WorkerOptions{Store: &thief{w.st.Queue, stolen.ID}, Slots: 1, Observe: told.add, Mux: handler(func(context.Context, *queue.Run) error {
			time.Sleep(time.Second)
			return nil
		})})
		w.expect(ours.ID, task.Succeeded, 5*time.Second)
		time.Sleep(5 * time.Second)
		w.end(wk)
		got := map[string]int64{}
		counts, err := w.st.Tasks.Counts(w.Context(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range counts {
			if c.Queue == task.DefaultQueue && c.Kind == "k" {
				got[c.Name] += c.N
			}
		}
		if got[counters.Succeeded] != 1 || got[counters.Stale] != 1 {
			t.Errorf("counted: %v; want one that succeeded, and one stale", got)
		}
		e := told.all()
		slices.SortStableFunc(e, func(a, b observe.Event) int { return int(a.On) - int(b.On) })
		if len(e) != 3 || e[1].On != observe.Started || e[1].Wait < time.Second || e[2].On != observe.Ended ||
			e[2].ID != strconv.Itoa(int(ours.ID)) || e[2].Outcome != "succeeded" || e[2].Took < time.Second {
			t.Errorf("the observer was told of %+v; want two starts, and one end", e)
		}
	})
}

// A worker that is stopped for longer than its lease can report nothing when it wakes; another has its tasks
// by then.
// Holds: promise 19.
func TestAStoppedWorkerReportsNothing(t *testing.T) {
	virtual(t, func(w *world) {
		release := make(chan struct{})
		var tokens recorded[lease.Token]
		frozen := w.work(queue.WorkerOptions{Slots: 1, Mux: handler(func(_ context.Context, r *queue.Run) error {
			tokens.add(r.Token)
			<-release // it hears of nothing
			return nil
		})})
		id := w.enqueue(task.Spec{Kind: "k"}).ID
		w.expect(id, task.Running, time.Second)
		rs, err := w.st.Leases.List(t.Context(), "", false)
		if err != nil || len(rs.Answers) != 1 {
			t.Fatalf("%d leases, %v", len(rs.Answers), err)
		}
		now := true
		if _, err := w.st.Leases.Break(t.Context(), rs.Answers[0].Record.Ref(), lease.Broken{By: "test", Why: "as if it had lapsed", Now: now}); err != nil {
			t.Fatal(err)
		}
		other := w.work(queue.WorkerOptions{Slots: 1, Mux: handler(func(_ context.Context, r *queue.Run) error {
			tokens.add(r.Token)
			return nil
		})})
		got := w.expect(id, task.Succeeded, 20*time.Second)
		seen := tokens.all()
		if len(seen) != 2 || seen[1] <= seen[0] || got.Token != seen[1] {
			t.Fatalf("tokens %v, the task has %d", seen, got.Token)
		}
		close(release)
		time.Sleep(5 * time.Second)
		if after := w.task(id); after.Attempts != 1 || after.Token != seen[1] {
			t.Errorf("the stale worker changed the task: %+v", after)
		}
		w.end(other)
		w.end(frozen)
	})
}

// A worker that ends while a handler ignores that keeps its lease until it lapses: nobody has the task before.
// Holds: promise 19, Q4.
func TestWhatOutlivesItsWorkerIsNotGivenAtOnce(t *testing.T) {
	virtual(t, func(w *world) {
		release := make(chan struct{})
		deaf := w.work(queue.WorkerOptions{Slots: 1, Grace: time.Second, StopGrace: time.Second, Mux: handler(func(context.Context, *queue.Run) error {
			<-release
			return nil
		})})
		id := w.enqueue(task.Spec{Kind: "k"}).ID
		w.expect(id, task.Running, time.Second)
		other := w.work(queue.WorkerOptions{Slots: 1, Mux: handler(func(context.Context, *queue.Run) error { return nil })})
		time.Sleep(time.Minute)
		deaf.stop()
		if err := <-deaf.done; err == nil {
			t.Error("nothing is said of the task that goes on")
		}
		ended := time.Now()
		w.expect(id, task.Succeeded, time.Minute)
		if m := deaf.k.Margin(); time.Since(ended) < m.TTL-2*m.Heartbeat-2*time.Second {
			t.Errorf("the task began again %s after its worker had ended without it", time.Since(ended))
		}
		close(release)
		w.end(other)
	})
}

func TestALimitIsWokenByWhoFreesIt(t *testing.T) {
	virtual(t, func(w *world) {
		var running, most atomic.Int64
		wk := w.work(queue.WorkerOptions{Slots: 10, Mux: handler(func(context.Context, *queue.Run) error {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(10 * time.Millisecond)
			running.Add(-1)
			return nil
		})})
		at := time.Now()
		var last task.ID
		for range 100 {
			last = w.enqueue(task.Spec{Kind: "k", Limit: &task.Limit{Key: "x", Max: 2}}).ID
		}
		w.expect(last, task.Succeeded, time.Minute)
		if most.Load() != 2 {
			t.Errorf("%d ran at the same time, want 2", most.Load())
		}
		if d := time.Since(at); d > 2*time.Second {
			t.Errorf("50 rounds of 10 ms took %s", d)
		}
		w.end(wk)
	})
}

// A worker whose lease the store no longer knows begins anew, whether it works or idles: after a step of the store's
// clock, and after a server took over that never had the lease.
// Holds: promise 19.
func TestAWorkerWhoseLeaseIsGoneBeginsAnew(t *testing.T) {
	for name, far := range map[string]time.Duration{"step": 20 * time.Second, "gone": 0} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				var ahead atomic.Int64
				b := memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
				w.st = b.Store()
				w.client = queue.NewClient(queue.ClientOptions{Store: w.st.Queue})
				defer w.client.Close()
				idle := w.work(queue.WorkerOptions{Slots: 1, Mux: handler(func(context.Context, *queue.Run) error { return nil })})
				w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, task.Succeeded, time.Minute)
				for range 3 {
					ahead.Add(int64(far))
					for _, a := range w.leases() {
						if far == 0 {
							if _, err := w.st.Leases.Break(t.Context(), a.Record.Ref(), lease.Broken{By: "test", Now: true}); err != nil {
								t.Fatal(err)
							}
						}
					}
					w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, task.Succeeded, time.Minute)
					select {
					case err := <-idle.done:
						t.Fatalf("the worker ended: %v", err)
					default:
					}
					time.Sleep(time.Minute)
				}
				w.end(idle)
			})
		})
	}
}

func (w *world) leases() []lease.Answer {
	w.Helper()
	rs, err := w.st.Leases.List(w.Context(), "", false)
	if err != nil {
		w.Fatal(err)
	}
	return rs.Answers
}
