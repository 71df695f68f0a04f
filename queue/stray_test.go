package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// dawdling is a store that takes its time for some fetches, which does not depend on whether somebody still waits for
// the answer.
type dawdling struct {
	driver.Store
	fetch func(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) // nil: at once
}

func (d *dawdling) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	if d.fetch != nil {
		return d.fetch(ctx, r)
	}
	return d.Store.Fetch(ctx, r)
}

// A store that has begun a fetch in time may end it when nobody waits for it any more, and after the worker has asked
// what it lost. The worker finds the tasks, whether or not it has others, and hands them back.
// Holds: promise 19, Q5.
func TestAFetchThatEndsTooLateLosesNoTask(t *testing.T) {
	for name, tc := range map[string]struct {
		busy   bool
		within time.Duration
	}{"idle": {false, 2 * time.Minute}, "busy": {true, 15 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				id := w.enqueue(task.Spec{Kind: "k", Queue: "other"}).ID
				var late, fetched atomic.Bool
				st := &dawdling{Store: w.st.Queue}
				st.fetch = func(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
					if !late.CompareAndSwap(true, false) {
						return w.st.Queue.Fetch(ctx, r)
					}
					r.Queues, r.NotAfter = []string{"other"}, time.Time{}
					go func() {
						time.Sleep(20 * time.Second)
						f, err := w.st.Queue.Fetch(context.WithoutCancel(ctx), r)
						if err != nil || len(f.Tasks) != 1 {
							t.Error(f, err)
						}
						fetched.Store(true)
					}()
					return driver.Fetch{}, errCut
				}
				var began atomic.Int64
				wk := w.work(queue.WorkerOptions{Store: st, Queues: []string{"default"}, Slots: 2, Mux: handler(func(context.Context, *queue.Run) error {
					began.Add(1)
					time.Sleep(5 * time.Minute)
					return nil
				})})
				long := task.ID(0)
				if tc.busy {
					long = w.enqueue(task.Spec{Kind: "k"}).ID
					w.expect(long, task.Running, time.Minute)
				}
				time.Sleep(70 * time.Second)
				late.Store(true)
				for !fetched.Load() {
					time.Sleep(time.Second)
				}
				w.expect(id, task.Running, 0)
				w.expect(id, task.Available, tc.within)
				if tc.busy {
					w.expect(long, task.Succeeded, 6*time.Minute)
				}
				w.end(wk)
				if n := began.Load(); n > 1 || tc.busy != (n == 1) {
					t.Errorf("%d tasks began", n)
				}
			})
		})
	}
}

// A task that is on its way for long is not handed back, however often the worker asks meanwhile what it has.
// Holds: Q5.
func TestATaskOnItsWayIsNotHandedBack(t *testing.T) {
	virtual(t, func(w *world) {
		var slow atomic.Bool
		st := &dawdling{Store: w.st.Queue}
		st.fetch = func(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
			f, err := w.st.Queue.Fetch(ctx, r)
			if slow.Load() && len(f.Tasks) > 0 {
				time.Sleep(time.Minute) // it does not heed ctx
			}
			return f, err
		}
		var began atomic.Int64
		wk := w.work(queue.WorkerOptions{Store: st, Slots: 2, Mux: handler(func(context.Context, *queue.Run) error {
			began.Add(1)
			time.Sleep(3 * time.Minute)
			return nil
		})})
		first := w.enqueue(task.Spec{Kind: "k"}).ID
		w.expect(first, task.Running, time.Minute)
		slow.Store(true)
		second := w.enqueue(task.Spec{Kind: "k"}).ID
		w.expect(second, task.Running, 10*time.Second)
		for range 50 {
			time.Sleep(time.Second)
			w.expect(second, task.Running, 0)
		}
		w.expect(second, task.Succeeded, 5*time.Minute)
		w.end(wk)
		if n := began.Load(); n != 2 {
			t.Errorf("work began %d times", n)
		}
	})
}

// A shutdown waits for the answer to a fetch that is under way, and hands back what it brings.
// Holds: Q4, Q6.
func TestAShutdownHandsBackWhatIsOnItsWay(t *testing.T) {
	virtual(t, func(w *world) {
		given := make(chan struct{})
		st := &dawdling{Store: w.st.Queue}
		st.fetch = func(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
			f, err := w.st.Queue.Fetch(ctx, r)
			if err != nil || len(f.Tasks) == 0 {
				return f, err
			}
			close(given)
			select {
			case <-time.After(500 * time.Millisecond):
				return f, nil
			case <-ctx.Done():
				return driver.Fetch{}, ctx.Err()
			}
		}
		var began atomic.Int64
		wk := w.work(queue.WorkerOptions{Store: st, Mux: handler(func(context.Context, *queue.Run) error { began.Add(1); return nil })})
		id := w.enqueue(task.Spec{Kind: "k"}).ID
		<-given
		w.end(wk)
		st.fetch = nil
		k := w.keeper()
		defer k.Close()
		l, err := k.Acquire(w.Context(), lease.Want{Key: lease.OnceKey()})
		if err != nil {
			t.Fatal(err)
		}
		f, err := w.st.Queue.Fetch(w.Context(), driver.FetchRequest{Worker: l.Ref(), Queues: []string{"default"}, Max: 1, Suspects: true, Crashers: true})
		if err != nil || began.Load()+int64(len(f.Tasks)) != 1 {
			t.Fatal(began.Load(), f, err)
		}
		if len(f.Tasks) == 1 && (f.Tasks[0].ID != id || f.Tasks[0].Suspect) {
			t.Errorf("it was not handed back: %+v", f.Tasks[0])
		}
	})
}
