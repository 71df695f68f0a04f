package queue_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// transaction is one of the caller's: what it finishes is so at its commit, if there is one.
type transaction struct {
	to   driver.Finisher
	when func(context.Context) error
}

func (x *transaction) Finish(_ context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	x.when = func(ctx context.Context) error {
		_, err := x.to.Finish(ctx, worker, ends)
		return err
	}
	return []driver.Status{driver.OK}, nil
}

// A completion that was never committed is noticed when the handler returns: the attempt has failed, and is made
// again. One that was committed is asked about, and reported nowhere.
// Holds: Q2.
func TestACompletionWithoutACommitIsNoticed(t *testing.T) {
	virtual(t, func(w *world) {
		var mu sync.Mutex
		heard := map[queue.TaskEvent]int{}
		wk := w.work(queue.WorkerOptions{Slots: 3,
			Listen: func(h queue.Happening) { mu.Lock(); defer mu.Unlock(); heard[h.On]++ },
			Mux: handler(func(ctx context.Context, r *queue.Run) error {
				tx := &transaction{to: w.st.Queue}
				if err := r.Complete(ctx, tx); err != nil {
					return err
				}
				if string(r.Args) == `"forgets"` && r.Attempt == 1 {
					return nil
				}
				return tx.when(ctx)
			})})
		forgets := w.enqueue(task.Spec{Kind: "k", Args: []byte(`"forgets"`)}).ID
		commits := w.enqueue(task.Spec{Kind: "k"}).ID
		if got := w.expect(commits, task.Succeeded, time.Minute); len(got.History) != 0 || got.Attempts != 1 {
			t.Errorf("committed: %d attempts, %+v", got.Attempts, got.History)
		}
		got := w.expect(forgets, task.Succeeded, time.Minute)
		if len(got.History) != 1 || got.History[0].Error != queue.ErrUncommitted.Error() || got.Attempts != 2 {
			t.Errorf("forgotten: %d attempts, %+v", got.Attempts, got.History)
		}
		w.end(wk)
		if heard[queue.TaskStarted] != 3 || heard[queue.TaskSucceeded] != 2 || heard[queue.TaskRetried] != 1 {
			t.Errorf("heard %v", heard)
		}
		w.counted(map[string]int64{counters.Succeeded: 2, counters.Retried: 1})
	})
}

// mute is a store that cannot be asked for a while.
type mute struct {
	driver.Store
	mu    sync.Mutex
	until time.Time
}

func (m *mute) Running(ctx context.Context, worker lease.Ref, asked bool) ([]driver.RunningTask, error) {
	m.mu.Lock()
	until := m.until
	m.mu.Unlock()
	if time.Now().Before(until) {
		return nil, queue.ErrUnavailable
	}
	return m.Store.Running(ctx, worker, asked)
}

// Until the store can be asked, nothing is concluded.
func TestWhetherATaskWasCompletedIsAskedUntilItIsKnown(t *testing.T) {
	virtual(t, func(w *world) {
		m := &mute{Store: w.st.Queue, until: time.Now().Add(5 * time.Second)}
		n := 0
		wk := w.work(queue.WorkerOptions{Store: m, Mux: handler(func(ctx context.Context, r *queue.Run) error {
			n++
			tx := &transaction{to: w.st.Queue}
			return errors.Join(r.Complete(ctx, tx), tx.when(ctx))
		})})
		id := w.enqueue(task.Spec{Kind: "k"}).ID
		time.Sleep(10 * time.Second)
		w.end(wk)
		if got := w.task(id); got.State != task.Succeeded || len(got.History) != 0 || n != 1 {
			t.Errorf("%s after %d attempts, %+v", got.State, n, got.History)
		}
		w.counted(map[string]int64{counters.Succeeded: 1, counters.Retried: 0})
	})
}

// counted compares the store's counters of kind k.
func (w *world) counted(want map[string]int64) {
	w.Helper()
	counts, err := w.st.Tasks.Counts(w.Context(), time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		w.Fatal(err)
	}
	got := map[string]int64{}
	for _, c := range counts {
		if c.Kind == "k" {
			got[c.Name] += c.N
		}
	}
	for name, n := range want {
		if got[name] != n {
			w.Errorf("counted %d %s, want %d", got[name], name, n)
		}
	}
}
