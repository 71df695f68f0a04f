package queue_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A forgetful store does not know of some fetches, as one that took over in a failover. It gives no such task again.
type forgetful struct {
	driver.Store
	mu        sync.Mutex
	forgotten []task.ID
	reported  []task.ID
}

func (f *forgetful) forget(id task.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgotten = append(f.forgotten, id)
}

func (f *forgetful) Running(ctx context.Context, worker lease.Ref, asked bool) ([]driver.RunningTask, error) {
	mine, err := f.Store.Running(ctx, worker, asked)
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(mine, func(a driver.RunningTask) bool { return slices.Contains(f.forgotten, a.ID) }), err
}

func (f *forgetful) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	f.mu.Lock()
	for _, c := range ends {
		f.reported = append(f.reported, c.ID)
	}
	f.mu.Unlock()
	return f.Store.Finish(ctx, worker, ends)
}

// Rule Q5: a worker gives up what the store does not know to be its own, long before the store gives it to
// somebody else.
// Holds: Q5.
func TestAForgottenFetchEndsItsWork(t *testing.T) {
	virtual(t, func(w *world) {
		st := &forgetful{Store: w.st.Queue}
		ended := make(chan error, 2)
		m := new(queue.Mux)
		m.Handle("k", queue.Handler{Do: func(ctx context.Context, r *queue.Run) error {
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
			case <-time.After(time.Minute):
				ended <- nil
			}
			return nil
		}})
		first, second := w.enqueue(task.Spec{Kind: "k"}).ID, w.enqueue(task.Spec{Kind: "k"}).ID
		wk := w.work(queue.WorkerOptions{Store: st, Mux: m, Slots: 2})
		w.expect(first, task.Running, time.Second)
		w.expect(second, task.Running, time.Second)
		time.Sleep(20 * time.Second) // it has asked for all of its tasks, and keeps them
		if len(ended) > 0 {
			t.Fatalf("it ended with %v", <-ended)
		}
		st.forget(first)
		begin := time.Now()
		if err := <-ended; !errors.Is(err, lease.ErrLost) {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(begin); took > lease.DefaultTTL/2 {
			t.Errorf("it ended after %v", took)
		}
		w.expect(second, task.Succeeded, 2*time.Minute)
		w.end(wk)
		if slices.Contains(st.reported, first) {
			t.Error("its end was reported")
		}
	})
}

// A task that its handler completed in a transaction of its own is not given up: the store rightly knows no
// more of it.
// Holds: Q5.
func TestACompletedTaskIsNotGivenUp(t *testing.T) {
	virtual(t, func(w *world) {
		ended := make(chan error, 1)
		m := new(queue.Mux)
		m.Handle("k", queue.Handler{Do: func(ctx context.Context, r *queue.Run) error {
			if err := r.Complete(ctx, w.st.Queue); err != nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
			case <-time.After(time.Minute):
				ended <- nil
			}
			return nil
		}})
		id := w.enqueue(task.Spec{Kind: "k"}).ID
		wk := w.work(queue.WorkerOptions{Mux: m})
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
		w.expect(id, task.Succeeded, time.Second)
		w.end(wk)
	})
}
