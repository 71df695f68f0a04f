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

// locked is a store in which another transaction has some tasks: their ends are withheld.
type locked struct {
	driver.Store
	free atomic.Bool
	has  map[task.ID]bool
}

func (l *locked) Finish(ctx context.Context, w lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	st := make([]driver.Status, len(ends))
	for i, c := range ends {
		if l.has[c.ID] && !l.free.Load() {
			st[i] = driver.Withheld
			continue
		}
		one, err := l.Store.Finish(ctx, w, ends[i:i+1])
		if err != nil {
			return nil, err
		}
		st[i] = one[0]
	}
	return st, nil
}

// The ends of other tasks do not wait for those that another transaction has; and these are reported once they
// are free.
// Holds: promise 26.
func TestALockedTaskHoldsUpNoOtherEnd(t *testing.T) {
	virtual(t, func(w *world) {
		store := &locked{Store: w.st.Queue, has: map[task.ID]bool{}}
		var all []task.ID
		for i := range 30 {
			id := w.enqueue(task.Spec{Kind: "k"}).ID
			store.has[id] = i == 3 || i == 9
			all = append(all, id)
		}
		m := &queue.Mux{}
		m.Handle("k", queue.Handler{Do: func(context.Context, *queue.Run) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}})
		wk := w.work(queue.WorkerOptions{Store: store, Mux: m, Slots: 2})
		for _, id := range all {
			if !store.has[id] {
				w.expect(id, task.Succeeded, 5*time.Second)
			}
		}
		for id, has := range store.has {
			if s := w.task(id).State; has && s != task.Running {
				t.Errorf("task %d, which another transaction has, is %s", id, s)
			}
		}
		store.free.Store(true)
		for _, id := range all {
			w.expect(id, task.Succeeded, time.Second)
		}
		w.end(wk)
	})
}
