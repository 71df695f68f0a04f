package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A worker of several queues takes turns between them: the backlog of one does not starve the others.
func TestABacklogStarvesNoOtherQueue(t *testing.T) {
	virtual(t, func(w *world) {
		for range 100 {
			w.enqueue(task.Spec{Queue: "a", Kind: "k"})
		}
		other := w.enqueue(task.Spec{Queue: "b", Kind: "k"}).ID
		wk := w.work(queue.WorkerOptions{Queues: []string{"a", "b"}, Slots: 1, Grace: time.Second, Mux: handler(func(context.Context, *queue.Run) error {
			time.Sleep(time.Second)
			return nil
		})})
		w.expect(other, task.Succeeded, 10*time.Second)
		w.end(wk)
	})
}

// A delayed task begins at its instant, although nobody tells of it then, and no poll is near.
func TestADelayedTaskBeginsAtItsInstant(t *testing.T) {
	virtual(t, func(w *world) {
		at := time.Now().Add(7777 * time.Millisecond)
		id := w.enqueue(task.Spec{Kind: "k", RunAt: at}).ID // before the worker's first fetch, which learns of it
		var began time.Time
		wk := w.work(queue.WorkerOptions{Poll: time.Hour, Mux: handler(func(context.Context, *queue.Run) error {
			began = time.Now()
			return nil
		})})
		w.expect(id, task.Succeeded, time.Minute)
		if late := began.Sub(at); late < 0 || late > 10*time.Millisecond {
			t.Errorf("it began %s after its instant", late)
		}
		w.end(wk)
	})
}

// untidy is a store whose maintenance leaves more to be done many times.
type untidy struct {
	driver.Store
	left atomic.Int64
}

func (u *untidy) Maintain(ctx context.Context, r driver.MaintainRequest) (driver.Maintained, error) {
	done, err := u.Store.Maintain(ctx, r)
	done.More = done.More || u.left.Add(-1) >= 0
	return done, err
}

// Maintenance goes in bounded steps, and the next step follows at once where one has left more.
func TestMaintenanceGoesOnUntilItIsDone(t *testing.T) {
	virtual(t, func(w *world) {
		u := &untidy{Store: w.st.Queue}
		u.left.Store(1000)
		wk := w.work(queue.WorkerOptions{Store: u, Mux: handler(func(context.Context, *queue.Run) error { return nil })})
		time.Sleep(2 * time.Second)
		if n := u.left.Load(); n > 0 {
			t.Errorf("%d steps are left", n)
		}
		w.end(wk)
	})
}
