package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// choking is a store that cannot take the end of one task until it is healed, nor anything that comes with it.
type choking struct {
	driver.Store
	on     task.ID
	healed atomic.Bool
	within atomic.Int64 // how many ends came at once with it, at most
}

func (c *choking) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	time.Sleep(100 * time.Millisecond) // others are gathered meanwhile
	for _, e := range ends {
		if e.ID == c.on && !c.healed.Load() {
			c.within.Store(max(c.within.Load(), int64(len(ends))))
			return nil, errors.New("the row is damaged")
		}
	}
	return c.Store.Finish(ctx, worker, ends)
}

// Ends travel together. One that the store cannot take is parted from the others, which are reported without it.
func TestAnEndThatCannotBeTakenHoldsUpNoOther(t *testing.T) {
	virtual(t, func(w *world) {
		var ids []task.ID
		for range 10 {
			ids = append(ids, w.enqueue(task.Spec{Kind: "k"}).ID)
		}
		st := &choking{Store: w.st.Queue, on: ids[4]}
		wk := w.work(queue.WorkerOptions{Store: st, Slots: 10, Mux: handler(func(_ context.Context, r *queue.Run) error {
			time.Sleep(time.Second + time.Duration(r.ID)*time.Millisecond) // the first two keep the finishers busy
			return nil
		})})
		for i, id := range ids {
			if i != 4 {
				w.expect(id, task.Succeeded, 10*time.Second)
			}
		}
		if st.within.Load() < 2 {
			t.Error("the bad end came alone, and there was nothing to part")
		}
		st.healed.Store(true)
		w.expect(ids[4], task.Succeeded, 10*time.Second)
		w.end(wk)
	})
}

// A store that takes no end whatsoever is at fault itself, and not one of the ends: the worker does not go on
// as if nothing were.
func TestAStoreThatTakesNoEndsIsNoticed(t *testing.T) {
	virtual(t, func(w *world) {
		const tasks = 9000
		specs := make([]task.Spec, tasks)
		for i := range specs {
			specs[i].Kind = "k"
		}
		if _, err := w.client.EnqueueMany(w.Context(), specs); err != nil {
			t.Fatal(err)
		}
		var healed atomic.Bool
		var done atomic.Int64
		st := &refusing{Store: w.st.Queue, healed: &healed}
		wk := w.work(queue.WorkerOptions{Store: st, Slots: 10, Mux: handler(func(context.Context, *queue.Run) error {
			done.Add(1)
			time.Sleep(10 * time.Millisecond)
			return nil
		})})
		time.Sleep(time.Minute)
		if n := done.Load(); n == tasks {
			t.Errorf("all %d tasks were worked, and none was reported", n)
		}
		healed.Store(true)
		for time.Sleep(time.Minute); done.Load() < tasks; {
			time.Sleep(time.Minute)
		}
		w.end(wk)
		if n := done.Load(); n != tasks {
			t.Errorf("%d attempts at %d tasks", n, tasks)
		}
	})
}

// refusing is a store that takes no end until it is healed.
type refusing struct {
	driver.Store
	healed *atomic.Bool
}

func (r *refusing) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	if !r.healed.Load() {
		return nil, errors.New("the disk is full")
	}
	return r.Store.Finish(ctx, worker, ends)
}

// What a worker has fetched and not begun when its lease is lost is begun by nobody under that lease.
func TestNothingBeginsAfterTheLoss(t *testing.T) {
	nothingBeginsAfterTheLoss(t, time.Second)
	for range 20 { // its slot is free at once, beside whoever takes back what waits
		nothingBeginsAfterTheLoss(t, 0)
	}
}

func nothingBeginsAfterTheLoss(t *testing.T, ends time.Duration) {
	virtual(t, func(w *world) {
		const quick = 200 // they show that tasks are short: then some are fetched ahead
		var ids []task.ID
		for range quick + 5 {
			ids = append(ids, w.enqueue(task.Spec{Kind: "k"}).ID)
		}
		began, lost := make(chan struct{}), make(chan struct{})
		var calls, late atomic.Int64
		st := &mute{Store: w.st.Queue, until: time.Now().Add(30 * time.Second)} // else it would hear first that they are not its own
		wk := w.work(queue.WorkerOptions{Store: st, Slots: 1, Prefetch: 5, Mux: handler(func(ctx context.Context, r *queue.Run) error {
			if ctx.Err() != nil {
				late.Add(1)
			}
			if calls.Add(1) == quick {
				close(began)
				<-ctx.Done()
				close(lost)
				time.Sleep(ends)
			}
			return nil
		})})
		<-began
		time.Sleep(time.Millisecond)
		if n := w.running(ids); n < 2 {
			t.Errorf("%d is fetched: none waits for the slot", n)
		}
		for _, a := range w.leases() {
			if _, err := w.st.Leases.Break(w.Context(), a.Record.Ref(), lease.Broken{By: "test", Now: true}); err != nil {
				t.Error(err)
			}
		}
		<-lost
		for _, id := range ids {
			w.expect(id, task.Succeeded, time.Minute)
		}
		w.end(wk)
		if n := late.Load(); n > 0 {
			t.Errorf("%d tasks began after the loss", n)
		}
	})
}

// running counts the tasks that some worker has.
func (w *world) running(ids []task.ID) (n int) {
	for _, id := range ids {
		if w.task(id).State == task.Running {
			n++
		}
	}
	return n
}
