package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
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

// A handler that fails, or panics, after the commit of its task's completion announces no other attempt: the task is
// done. One that fails before the commit does.
func TestAFailureAfterTheCommitAnnouncesNoAttempt(t *testing.T) {
	virtual(t, func(w *world) {
		var log lockedText
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		var mu sync.Mutex
		heard := map[queue.TaskEvent]int{}
		wk := w.work(queue.WorkerOptions{Slots: 3,
			Listen: func(h queue.Happening) { mu.Lock(); defer mu.Unlock(); heard[h.On]++ },
			Mux: handler(func(ctx context.Context, r *queue.Run) error {
				tx := &transaction{to: w.st.Queue}
				if err := r.Complete(ctx, tx); err != nil {
					return err
				}
				if string(r.Args) == `"before"` && r.Attempt == 1 {
					return errors.New("no commit")
				}
				if err := tx.when(ctx); err != nil {
					return err
				}
				switch string(r.Args) {
				case `"panics"`:
					panic("the mail")
				case `"fails"`:
					return errors.New("the mail could not be sent")
				}
				return nil
			})})
		for _, how := range []string{`"before"`, `"panics"`, `"fails"`} {
			got := w.expect(w.enqueue(task.Spec{Kind: "k", Args: []byte(how)}).ID, task.Succeeded, time.Minute)
			if want := map[bool]int{true: 2, false: 1}[how == `"before"`]; got.Attempts != want || len(got.History) != want-1 {
				t.Errorf("%s: %d attempts, %+v", how, got.Attempts, got.History)
			}
		}
		w.end(wk)
		text := log.String()
		if n := strings.Count(text, "will be tried again"); n != 1 {
			t.Errorf("%d attempts are announced, want that before the commit:\n%s", n, text)
		}
		if n := strings.Count(text, "event=task-completed"); n != 2 {
			t.Errorf("%d failures after a commit are told of:\n%s", n, text)
		}
		if heard[queue.TaskSucceeded] != 3 || heard[queue.TaskRetried] != 1 || heard[queue.TaskFailed] != 0 {
			t.Errorf("heard %v", heard)
		}
		w.counted(map[string]int64{counters.Succeeded: 3, counters.Retried: 1, counters.Failed: 0})
	})
}

// lockedText is a log that several goroutines write.
type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A timeout of the longest duration is over for no handler.
func TestTheLongestTimeoutIsNotOver(t *testing.T) {
	virtual(t, func(w *world) {
		var log lockedText
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		wk := w.work(queue.WorkerOptions{Mux: handler(func(ctx context.Context, _ *queue.Run) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		})})
		for _, timeout := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 2} {
			w.expect(w.enqueue(task.Spec{Kind: "k", Options: task.Options{Timeout: timeout}}).ID, task.Succeeded, time.Hour)
		}
		w.end(wk)
		if strings.Contains(log.String(), "task-deaf") {
			t.Error(log.String())
		}
	})
}
