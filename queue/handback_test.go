package queue_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/task"
)

// written is a log that is read while it is written.
type written struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *written) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *written) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// A worker that cannot start anything hands its tasks back, says so once, and tries seldom: another worker does them
// all, without an attempt too many. Once it can, it works again.
// Holds: promise 19, Q6.
func TestAWorkerThatCanStartNothingTakesNothing(t *testing.T) {
	virtual(t, func(w *world) {
		var log written
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		var ill atomic.Bool
		var tries, done, other atomic.Int64
		ill.Store(true)
		a := w.work(queue.WorkerOptions{Slots: 10, Mux: handler(func(context.Context, *queue.Run) error {
			if ill.Load() {
				tries.Add(1)
				return queue.NotStarted(errors.New("too many open files"))
			}
			done.Add(1)
			return nil
		})})
		var ids []task.ID
		for range 200 {
			ids = append(ids, w.enqueue(task.Spec{Kind: "k", Options: task.Options{MaxAttempts: 1}}).ID)
		}
		time.Sleep(10 * time.Minute)
		if n := tries.Load(); n < 10 || n > 40 {
			w.Errorf("%d tries in ten minutes", n)
		}
		b := w.work(queue.WorkerOptions{Slots: 2, Mux: handler(func(ctx context.Context, r *queue.Run) error {
			other.Add(1)
			if r.Attempt != 1 {
				w.Errorf("attempt %d", r.Attempt)
			}
			time.Sleep(time.Second)
			return nil
		})})
		for _, id := range ids {
			w.expect(id, task.Succeeded, 5*time.Minute)
		}
		w.end(b)
		if n := other.Load(); n != 200 {
			w.Errorf("the other worker did %d of 200", n)
		}
		ill.Store(false)
		for range 100 {
			w.expect(w.enqueue(task.Spec{Kind: "k"}).ID, task.Succeeded, 2*time.Minute)
		}
		w.end(a)
		if n, again := log.count("event=cannot-start"), log.count("event=starting-again"); n != 1 || again != 1 || done.Load() != 100 {
			w.Errorf("said %d times that nothing can be started, and %d times that it can again; %d done", n, again, done.Load())
		}
	})
}

// A task that no worker can start is handed back as often as it may be postponed, and then fails with the reason.
// Holds: Q6.
func TestHandingBackHasABudget(t *testing.T) {
	virtual(t, func(w *world) {
		var began atomic.Int64
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error {
			began.Add(1)
			return queue.NotStarted(errors.New("no such file or directory"))
		})})
		id := w.enqueue(task.Spec{Kind: "k", Options: task.Options{MaxSnoozes: 2}}).ID
		w.expect(id, task.Failed, 5*time.Minute)
		w.end(wk)
		got := w.task(id)
		if h := got.History; began.Load() != 3 || len(h) != 3 || h[0].Outcome != "returned" || h[2].Error != "no such file or directory" ||
			got.Reason != "handed back or postponed 2 times" {
			w.Errorf("it began %d times: %q %+v", began.Load(), got.Reason, h)
		}
	})
}
