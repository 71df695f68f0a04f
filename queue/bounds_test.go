package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// noting is a store that notes by when each fetch must be carried out, counted from the instant at which it came;
// negative: it has no bound.
type noting struct {
	driver.Store
	mu     sync.Mutex
	bounds []time.Duration
}

func (n *noting) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	n.mu.Lock()
	bound := time.Duration(-1)
	if !r.NotAfter.IsZero() {
		bound = max(time.Until(r.NotAfter), 0)
	}
	n.bounds = append(n.bounds, bound)
	n.mu.Unlock()
	return n.Store.Fetch(ctx, r)
}

// Rule L1: a fetch says by when it must be carried out: one rpc timeout after it was sent. A server that was
// stopped would else give tasks to a worker that has given up on them.
// Holds: L1.
func TestWhateverFetchesIsBounded(t *testing.T) {
	virtual(t, func(w *world) {
		n := &noting{Store: w.st.Queue}
		wk := w.work(queue.WorkerOptions{Store: n, Mux: handler(func(context.Context, *queue.Run) error { return nil })})
		w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, task.Succeeded, time.Minute)
		time.Sleep(time.Minute) // it looks again and again
		most := wk.k.Margin().RPCTimeout
		w.end(wk)
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.bounds) < 10 {
			t.Errorf("%d fetches in a minute", len(n.bounds))
		}
		for _, bound := range n.bounds {
			if bound <= 0 || bound > most {
				t.Fatalf("a fetch was good for %s; want at most %s", bound, most)
			}
		}
	})
}

// Promise 20: back-off is of errors. A task that is postponed comes again when it asked to, however often it
// has been tried.
// Holds: promise 20.
func TestAPostponementIsAsLongAsItSays(t *testing.T) {
	virtual(t, func(w *world) {
		var began []time.Time
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error {
			switch began = append(began, time.Now()); len(began) {
			case 1, 2:
				return errors.New("it failed")
			case 3, 4, 5:
				return queue.Postpone(10 * time.Second)
			}
			return nil
		})})
		w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, task.Succeeded, time.Hour)
		w.end(wk)
		for i := 3; i < len(began); i++ {
			if d := began[i].Sub(began[i-1]); d < 10*time.Second || d > 10*time.Second+500*time.Millisecond {
				t.Errorf("after the postponement %d it came again after %s; want 10 s", i-2, d)
			}
		}
	})
}
