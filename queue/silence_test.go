package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// narrow is a store behind a link that carries so many bytes in a call's time: what has more is carried out, and never
// answered. It notes what each fetch asked for and how many ends each report had.
type narrow struct {
	driver.Store
	carries int

	mu      sync.Mutex
	asked   []driver.FetchRequest
	reports []int
}

func (n *narrow) silence(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", queue.ErrUnavailable, ctx.Err())
}

func (n *narrow) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	n.mu.Lock()
	n.asked = append(n.asked, r)
	n.mu.Unlock()
	f, err := n.Store.Fetch(ctx, r)
	size := 0
	for i := range f.Tasks {
		size += len(f.Tasks[i].Args)
	}
	if err == nil && size > n.carries {
		return driver.Fetch{}, n.silence(ctx)
	}
	return f, err
}

func (n *narrow) Finish(ctx context.Context, w lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	size := 0
	for _, e := range ends {
		size += len(e.Error)
	}
	n.mu.Lock()
	n.reports = append(n.reports, size)
	n.mu.Unlock()
	if size > n.carries {
		return nil, n.silence(ctx)
	}
	return n.Store.Finish(ctx, w, ends)
}

// A slow link stops no queue: a fetch asks for a bounded number of bytes, and for half after a silence.
// Holds: promise 26.
func TestASlowLinkStopsNoQueue(t *testing.T) {
	virtual(t, func(w *world) {
		const size, tasks = 100_000, 200
		n := &narrow{Store: w.st.Queue, carries: 3 * size}
		for range tasks {
			w.enqueue(task.Spec{Kind: "k", Args: []byte(`"` + strings.Repeat("x", size) + `"`)})
		}
		done := make(chan struct{}, tasks)
		wk := w.work(queue.WorkerOptions{Store: n, Slots: tasks, Mux: handler(func(context.Context, *queue.Run) error {
			done <- struct{}{}
			return nil
		})})
		for i := range tasks {
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatalf("no task began for a minute, after %d of %d", i, tasks)
			}
		}
		for range 50 { // small ones, which the link carries at once
			w.enqueue(task.Spec{Kind: "k"})
			<-done
		}
		w.end(wk)
		for i, r := range n.asked {
			if r.Bytes <= 0 || r.Bytes > 4<<20 {
				t.Fatalf("fetch %d asks for %d bytes", i, r.Bytes)
			}
		}
		if first, second := n.asked[0], n.asked[1]; second.Bytes != first.Bytes/2 {
			t.Errorf("after a silence it asks for %d bytes and %d tasks, after %d and %d", second.Bytes, second.Max, first.Bytes, first.Max)
		}
		if last := n.asked[len(n.asked)-1]; last.Bytes != n.asked[0].Bytes {
			t.Errorf("in the end, with answers at once, it asks for %d bytes; at first for %d", last.Bytes, n.asked[0].Bytes)
		}
	})
}

// Reports are bounded in bytes, and those that the link does not carry together are sent in parts.
// Holds: promise 26.
func TestASlowLinkStopsNoReport(t *testing.T) {
	virtual(t, func(w *world) {
		const tasks = 1000
		n := &narrow{Store: w.st.Queue, carries: 100_000}
		specs := make([]task.Spec, tasks)
		for i := range specs {
			specs[i] = task.Spec{Kind: "k", Options: task.Options{MaxAttempts: 1}}
		}
		if _, err := w.client.EnqueueMany(w.Context(), specs); err != nil {
			t.Fatal(err)
		}
		wk := w.work(queue.WorkerOptions{Store: n, Slots: tasks, Mux: handler(func(context.Context, *queue.Run) error {
			time.Sleep(time.Second) // so that all end together
			return fmt.Errorf("%s", strings.Repeat("e", 8000))
		})})
		time.Sleep(5 * time.Minute)
		failed, err := w.st.Tasks.Tasks(w.Context(), driver.Filter{States: []task.State{task.Failed}, Max: tasks})
		if err != nil || len(failed) != tasks {
			t.Errorf("%d of %d ends are reported: %v", len(failed), tasks, err)
		}
		w.end(wk)
		for _, size := range n.reports {
			if size > 2<<20 {
				t.Errorf("a report of %d bytes", size)
			}
		}
	})
}

// stuck is a store that takes no ends, as with a locked table, for as long as it is called.
type stuck struct{ driver.Store }

func (stuck) Finish(ctx context.Context, _ lease.Ref, _ []driver.Completion) ([]driver.Status, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", queue.ErrUnavailable, ctx.Err())
}

func (stuck) Deregister(ctx context.Context, _ lease.Ref) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", queue.ErrUnavailable, ctx.Err())
}

// A shutdown ends within 30 s, whatever the store does, and whether tasks end at once or late. What could not be
// reported is said.
func TestAShutdownWaitsForNoStore(t *testing.T) {
	for name, takes := range map[string]time.Duration{"tasks that have ended": time.Second, "a task that ends late": 25 * time.Second} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				var log lockedText
				w.log = slog.New(slog.NewTextHandler(&log, nil))
				for range 3 {
					w.enqueue(task.Spec{Kind: "k"})
				}
				wk := w.work(queue.WorkerOptions{Store: stuck{w.st.Queue}, Slots: 2, Mux: handler(func(context.Context, *queue.Run) error {
					time.Sleep(takes)
					return nil
				})})
				time.Sleep(5 * time.Second)
				begun := time.Now()
				w.end(wk)
				if d := time.Since(begun); d > 30*time.Second {
					t.Errorf("it ended after %s", d)
				}
				if !strings.Contains(log.String(), "could not be reported, and the worker waits no longer") {
					t.Errorf("it is not said what was not reported:\n%s", log.String())
				}
				if leases := w.leases(); len(leases) > 0 {
					t.Errorf("%d leases are left", len(leases))
				}
			})
		})
	}
}

// weighed is a store that notes the size of each step that takes tasks in, and takes a second for it.
type weighed struct {
	driver.Store
	mu    sync.Mutex
	steps []int
}

func (s *weighed) Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	size := 0
	for i := range specs {
		size += len(specs[i].Args)
	}
	s.mu.Lock()
	s.steps = append(s.steps, size)
	s.mu.Unlock()
	time.Sleep(time.Second) // others come together meanwhile
	return s.Store.Enqueue(ctx, specs)
}

// Tasks that are enqueued at the same time travel together in steps of a bounded size.
// Holds: promise 26.
func TestConcurrentEnqueuesAreBounded(t *testing.T) {
	virtual(t, func(w *world) {
		s := &weighed{Store: w.st.Queue}
		c := queue.NewClient(queue.ClientOptions{Store: s})
		defer c.Close()
		var calls sync.WaitGroup
		for range 300 {
			calls.Go(func() {
				if _, err := c.Enqueue(w.Context(), task.Spec{Kind: "k", Args: []byte(`"` + strings.Repeat("x", 200_000) + `"`)}); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		for _, size := range s.steps {
			if size > 8<<20 {
				t.Errorf("a step of %d bytes", size)
			}
		}
	})
}
