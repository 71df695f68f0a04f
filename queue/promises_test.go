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

func TestThePausesBetweenAttempts(t *testing.T) {
	b := task.Backoff{NoJitter: true, Cap: 5 * time.Second}
	for n, want := range []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		if got := b.After(n); got != want {
			t.Errorf("after the attempt %d: %s, want %s", n, got, want)
		}
	}
	b.NoJitter = false
	for range 1000 { // one sample says little of a drawn value
		if d := b.After(3); d > 4*time.Second || d < 2*time.Second {
			t.Fatalf("jitter leaves the upper half: %s", d)
		}
	}
}

// Rule Q6: a task is postponed as often as its budget says, and then fails.
// Holds: Q6.
func TestPostponementsHaveABudget(t *testing.T) {
	virtual(t, func(w *world) {
		var began atomic.Int64
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error {
			began.Add(1)
			return queue.Postpone(time.Second)
		})})
		id := w.enqueue(task.Spec{Kind: "k", Options: task.Options{MaxSnoozes: 2}}).ID
		w.expect(id, task.Failed, time.Minute)
		w.end(wk)
		if n := began.Load(); n != 3 {
			t.Errorf("it began %d times; want twice to be postponed, and once to fail", n)
		}
	})
}

// A retry that would come after retry_until is not planned: the task fails at once.
func TestNoRetryIsPlannedBeyondItsTime(t *testing.T) {
	virtual(t, func(w *world) {
		m := &queue.Mux{}
		m.Handle("k", queue.Handler{Do: func(context.Context, *queue.Run) error { return errors.New("it failed") },
			Backoff: func(int, error) time.Duration { return time.Hour }})
		wk := w.work(queue.WorkerOptions{Mux: m})
		id := w.enqueue(task.Spec{Kind: "k", Options: task.Options{RetryUntil: time.Now().Add(time.Minute)}}).ID
		w.expect(id, task.Failed, 10*time.Second)
		w.end(wk)
	})
}

// odd is a store whose answers are changed on their way.
type odd struct {
	driver.Store
	fetch func(driver.FetchRequest, driver.Fetch) (driver.Fetch, error)
	start func() []driver.Status
}

func (s *odd) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	f, err := s.Store.Fetch(ctx, r)
	if err != nil || s.fetch == nil {
		return f, err
	}
	return s.fetch(r, f)
}

func (s *odd) Start(ctx context.Context, worker lease.Ref, refs []driver.Ref) ([]driver.Status, error) {
	if s.start != nil {
		return s.start(), nil
	}
	return s.Store.Start(ctx, worker, refs)
}

// What is somebody else's by now does not begin.
func TestWhatIsGoneDoesNotBegin(t *testing.T) {
	virtual(t, func(w *world) {
		var began atomic.Int64
		wk := w.work(queue.WorkerOptions{Store: &odd{Store: w.st.Queue, start: func() []driver.Status { return []driver.Status{driver.Gone} }},
			Mux: handler(func(context.Context, *queue.Run) error { began.Add(1); return nil })})
		w.enqueue(task.Spec{Kind: "k", Unique: &task.Unique{Key: "u", Until: task.UntilStarted}})
		time.Sleep(10 * time.Second)
		w.end(wk)
		if n := began.Load(); n != 0 {
			t.Errorf("it began %d times", n)
		}
	})
}

// An answer that is lost takes nothing from what is at work.
func TestALostAnswerHandsNothingBackThatRuns(t *testing.T) {
	virtual(t, func(w *world) {
		var began, fetches atomic.Int64
		wk := w.work(queue.WorkerOptions{Store: &odd{Store: w.st.Queue, fetch: func(_ driver.FetchRequest, f driver.Fetch) (driver.Fetch, error) {
			if began.Load() > 0 && fetches.Add(1) == 1 {
				return driver.Fetch{}, queue.ErrUnavailable
			}
			return f, nil
		}}, Mux: handler(func(ctx context.Context, _ *queue.Run) error {
			began.Add(1)
			select {
			case <-time.After(20 * time.Second):
			case <-ctx.Done():
			}
			return nil
		})})
		w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, task.Succeeded, time.Minute)
		w.end(wk)
		if n := began.Load(); n != 1 {
			t.Errorf("it began %d times", n)
		}
	})
}

// Rule Q4: a worker that works a task which took a worker down asks for no other such task.
// Holds: Q4.
func TestOneCrasherAtATime(t *testing.T) {
	virtual(t, func(w *world) {
		var working atomic.Bool
		var asked atomic.Int64
		wk := w.work(queue.WorkerOptions{Store: &odd{Store: w.st.Queue, fetch: func(r driver.FetchRequest, f driver.Fetch) (driver.Fetch, error) {
			if working.Load() {
				asked.Add(1)
				if r.Crashers {
					t.Error("it asks for another one beside it")
				}
			}
			for i := range f.Tasks {
				f.Tasks[i].Crashes = 1
			}
			return f, nil
		}}, Mux: handler(func(context.Context, *queue.Run) error {
			working.Store(true)
			time.Sleep(20 * time.Second)
			working.Store(false)
			return nil
		})})
		w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, task.Succeeded, time.Minute)
		w.end(wk)
		if asked.Load() == 0 {
			t.Error("it did not ask meanwhile: this shows nothing")
		}
	})
}
