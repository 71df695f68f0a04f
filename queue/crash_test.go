package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// mortal is a process: once it is dead, nothing that it asks reaches the store.
type mortal struct {
	driver.Store
	lease leases
	dead  atomic.Bool
}

type leases struct {
	lease.Store
	of *mortal
}

func (w *world) mortal() *mortal {
	m := &mortal{Store: w.st.Queue}
	m.lease = leases{w.st.Leases, m}
	return m
}

func (m *mortal) gone() error {
	if m.dead.Load() {
		return fmt.Errorf("%w: the process is dead", queue.ErrUnavailable)
	}
	return nil
}

func (m *mortal) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	if err := m.gone(); err != nil {
		return driver.Fetch{}, err
	}
	return m.Store.Fetch(ctx, r)
}

func (m *mortal) Start(ctx context.Context, worker lease.Ref, tasks []driver.Ref) ([]driver.Status, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	return m.Store.Start(ctx, worker, tasks)
}

func (m *mortal) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	return m.Store.Finish(ctx, worker, ends)
}

func (m *mortal) Deregister(ctx context.Context, worker lease.Ref) error {
	if err := m.gone(); err != nil {
		return err
	}
	return m.Store.Deregister(ctx, worker)
}

func (m *mortal) Maintain(ctx context.Context, r driver.MaintainRequest) (driver.Maintained, error) {
	if err := m.gone(); err != nil {
		return driver.Maintained{}, err
	}
	return m.Store.Maintain(ctx, r)
}

func (l leases) Acquire(ctx context.Context, r []lease.AcquireRequest) (lease.Reply, error) {
	if err := l.of.gone(); err != nil {
		return lease.Reply{}, err
	}
	return l.Store.Acquire(ctx, r)
}

func (l leases) Renew(ctx context.Context, r []lease.RenewRequest) (lease.Reply, error) {
	if err := l.of.gone(); err != nil {
		return lease.Reply{}, err
	}
	return l.Store.Renew(ctx, r)
}

// Rule Q4: a poisonous task ends, and none of its neighbours does, whatever their crashes may be: those of one worker,
// those that come fresh while it is tried again, and those that died with it.
// Holds: promise 19, Q4.
func TestACrashEndsNoNeighbour(t *testing.T) {
	for _, budget := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(budget), func(t *testing.T) {
			virtual(t, func(w *world) {
				o := task.Options{MaxCrashes: budget}
				poison := w.enqueue(task.Spec{Kind: "poison", Options: o}).ID
				var innocent []task.ID
				add := func() { innocent = append(innocent, w.enqueue(task.Spec{Kind: "k", Options: o}).ID) }
				deaths := 0
				for w.task(poison).State != task.Crashed {
					for range 5 {
						add()
					}
					if deaths > 10 {
						t.Fatalf("the poison goes on: %+v", w.task(poison))
					}
					if !w.untilDead(poison) {
						break
					}
					deaths++
				}
				for _, id := range innocent {
					if got := w.task(id); got.State != task.Succeeded {
						t.Errorf("after %d deaths the innocent %d is %s, %d crashes", deaths, id, got.State, got.Crashes)
					}
				}
				if got := w.task(poison); got.Crashes != budget || deaths != budget+1 {
					t.Errorf("%d deaths, %d crashes; want %d and %d", deaths, got.Crashes, budget+1, budget)
				}
			})
		})
	}
}

// untilDead works until the poison kills the process; false where the poison has crashed for good, and all others are
// done.
func (w *world) untilDead(poison task.ID) (died bool) {
	w.Helper()
	p := w.mortal()
	mux := &queue.Mux{}
	mux.Handle("k", queue.Handler{Do: func(ctx context.Context, _ *queue.Run) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Second): // it runs when the poison strikes
			return nil
		}
	}})
	mux.Handle("poison", queue.Handler{Do: func(ctx context.Context, _ *queue.Run) error {
		time.Sleep(time.Second)
		p.dead.Store(true)
		<-ctx.Done()
		return ctx.Err()
	}})
	wk := w.workAs(p, queue.WorkerOptions{Mux: mux, Slots: 10})
	for range 600 {
		time.Sleep(100 * time.Millisecond)
		if p.dead.Load() {
			died = true
			time.Sleep(20 * time.Second) // its lease lapses
			break
		}
		if s := w.task(poison).State; s == task.Crashed {
			time.Sleep(time.Minute)
			break
		}
	}
	wk.stop()
	<-wk.done
	wk.k.Close()
	return died
}

// A task that is worked alone is stopped and handed back as any: it does not keep its worker from ending.
// Holds: promise 19.
func TestAWorkerEndsWhileATaskWaitsToBeAlone(t *testing.T) {
	virtual(t, func(w *world) {
		last := w.enqueue(task.Spec{Kind: "k", Args: []byte(`"last"`), Options: task.Options{MaxCrashes: 1}}).ID
		w.dies(last)
		if _, err := w.st.Queue.Maintain(w.Context(), driver.MaintainRequest{}); err != nil {
			t.Fatal(err)
		}
		long := w.enqueue(task.Spec{Kind: "k"}).ID
		wk := w.work(queue.WorkerOptions{Slots: 5, Grace: time.Second, Mux: handler(func(ctx context.Context, r *queue.Run) error {
			if string(r.Args) == `"last"` {
				t.Error("it began beside another one")
			}
			<-ctx.Done()
			return ctx.Err()
		})})
		w.expect(long, task.Running, time.Minute)
		time.Sleep(time.Minute) // much longer than others may wait for a slot
		if got := w.task(last); got.State != task.Running {
			t.Errorf("it is %s, want running: its worker has it, and waits", got.State)
		}
		fresh := w.enqueue(task.Spec{Kind: "k"}).ID
		time.Sleep(10 * time.Second)
		if got := w.task(fresh); got.State != task.Available {
			t.Errorf("the worker has fetched another one: %s", got.State)
		}
		w.end(wk)
		for _, id := range []task.ID{last, long} {
			if got := w.task(id); got.State != task.Available || got.Attempts != 0 || got.Crashes != 0 {
				t.Errorf("%d is %s after %d attempts", id, got.State, got.Attempts)
			}
		}
	})
}

// dies is a worker that fetches a task, begins it, and is gone.
func (w *world) dies(id task.ID) {
	w.Helper()
	if _, err := w.st.Queue.Maintain(w.Context(), driver.MaintainRequest{}); err != nil { // what an earlier one left
		w.Fatal(err)
	}
	k := w.keeper()
	defer k.Close()
	l, err := k.Acquire(w.Context(), lease.Want{Key: lease.OnceKey()})
	if err != nil {
		w.Fatal(err)
	}
	f, err := w.st.Queue.Fetch(w.Context(), driver.FetchRequest{Worker: l.Ref(), Queues: []string{"default"}, Max: 1, Suspects: true, Crashers: true})
	if err != nil || len(f.Tasks) != 1 || f.Tasks[0].ID != id {
		w.Fatalf("fetched %+v, %v", f, err)
	}
	if st, err := w.st.Queue.Start(w.Context(), l.Ref(), []driver.Ref{f.Tasks[0].Ref}); err != nil || st[0] != driver.OK {
		w.Fatal(st, err)
	}
	if err := l.Release(w.Context()); err != nil {
		w.Fatal(err)
	}
}
