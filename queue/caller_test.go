package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/task"
)

// trap is an error whose methods panic; a nil one as well.
type trap struct{ text, unwrap bool }

func (e *trap) Error() string {
	if e.text {
		panic("no words")
	}
	return "trap"
}

func (e *trap) Unwrap() error {
	if e.unwrap {
		panic(e)
	}
	return nil
}

// snare is a value that panics when it is printed, even by who prints panics.
type snare struct{}

func (s snare) String() string { panic(s) }

// picky are arguments that panic when they are read.
type picky struct{}

func (picky) UnmarshalJSON([]byte) error { panic("cannot read") }

// The caller's code costs one attempt and no more, whatever it does: the worker goes on, and the task is tried again.
// Holds: promise 20.
func TestWhatTheCallersCodeDoesCostsOneAttempt(t *testing.T) {
	says := func(err error) func(context.Context, *queue.Run) error {
		return func(context.Context, *queue.Run) error { return err }
	}
	for name, c := range map[string]struct {
		do      func(context.Context, *queue.Run) error
		backoff func(int, error) time.Duration
		want    string
	}{
		"typed nil":               {says((*trap)(nil)), nil, "*queue_test.trap"},
		"Error panics":            {says(&trap{text: true}), nil, "no words"},
		"Unwrap panics":           {says(&trap{unwrap: true}), nil, "panics when it is read"},
		"panic":                   {func(context.Context, *queue.Run) error { panic("oh") }, nil, "panic: oh"},
		"panic with nil":          {func(context.Context, *queue.Run) error { panic(nil) }, nil, "panic: "},
		"panic with a snare":      {func(context.Context, *queue.Run) error { panic(snare{}) }, nil, "cannot be printed"},
		"Goexit":                  {func(context.Context, *queue.Run) error { runtime.Goexit(); return nil }, nil, "Goexit"},
		"FailNow":                 {func(context.Context, *queue.Run) error { new(testing.T).FailNow(); return nil }, nil, "FailNow"},
		"Backoff panics":          {says(errors.New("no")), func(n int, _ error) time.Duration { return []time.Duration{}[n] }, "out of range"},
		"Backoff exits":           {says(errors.New("no")), func(int, error) time.Duration { runtime.Goexit(); return 0 }, "no"},
		"Backoff is negative":     {says(errors.New("no")), func(int, error) time.Duration { return -time.Hour }, "no"},
		"Backoff reads its snare": {says(&trap{text: true}), func(_ int, err error) time.Duration { return time.Duration(len(err.Error())) }, "no words"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				m := &queue.Mux{}
				fails := true
				m.Handle("k", queue.Handler{Backoff: c.backoff, Do: func(ctx context.Context, r *queue.Run) error {
					if fails {
						fails = false
						return c.do(ctx, r)
					}
					return nil
				}})
				wk := w.work(queue.WorkerOptions{Mux: m, Slots: 1})
				id := w.enqueue(task.Spec{Kind: "k"}).ID
				other := w.enqueue(task.Spec{Kind: "k"}).ID
				w.expect(other, task.Succeeded, time.Minute) // the one slot goes on
				got := w.expect(id, task.Succeeded, time.Minute)
				w.end(wk)
				if len(got.History) != 1 || got.Attempts != 2 || !strings.Contains(got.History[0].Error, c.want) {
					t.Errorf("%d attempts, %+v; want one that failed with %q", got.Attempts, got.History, c.want)
				}
			})
		})
	}
}

// The same where the arguments' own code panics.
// Holds: promise 20.
func TestArgumentsThatPanicCostOneAttempt(t *testing.T) {
	virtual(t, func(w *world) {
		m := &queue.Mux{}
		queue.Define[picky]("k").Handle(m, func(context.Context, *queue.Run, picky) error { return nil }, queue.Handler{})
		wk := w.work(queue.WorkerOptions{Mux: m})
		id := w.enqueue(task.Spec{Kind: "k", Args: []byte(`{}`), Options: task.Options{MaxAttempts: 1}}).ID
		got := w.expect(id, task.Failed, time.Minute)
		w.end(wk)
		if len(got.History) != 1 || !strings.Contains(got.History[0].Error, "cannot read") {
			t.Errorf("%+v", got.History)
		}
	})
}

// bomb is a log that panics.
type bomb struct{ slog.Handler }

func (bomb) Enabled(context.Context, slog.Level) bool  { return true }
func (bomb) Handle(context.Context, slog.Record) error { panic("no paper") }
func (b bomb) WithAttrs([]slog.Attr) slog.Handler      { return b }

// A listener or a log that panics does not end the worker either.
// Holds: promise 20.
func TestAListenerAndALogThatPanic(t *testing.T) {
	virtual(t, func(w *world) {
		w.log = slog.New(bomb{slog.DiscardHandler})
		var heard atomic.Int64
		wk := w.work(queue.WorkerOptions{Mux: handler(func(context.Context, *queue.Run) error { return errors.New("no") }),
			Listen: func(queue.Happening) { heard.Add(1); panic(snare{}) }})
		id := w.enqueue(task.Spec{Kind: "k", Options: task.Options{MaxAttempts: 2}}).ID
		w.expect(id, task.Failed, time.Minute)
		w.end(wk)
		if n := heard.Load(); n != 4 { // two starts, a retry, the failure
			t.Errorf("it heard %d times", n)
		}
	})
}

// A task whose arguments have another shape is tried again, because a deploy may mend that: arguments that this
// version's type cannot hold.
// Holds: promise 20.
func TestArgumentsOfAnotherShapeAreTriedAgain(t *testing.T) {
	virtual(t, func(w *world) {
		type seven struct{ N int }
		type words struct{ N string }
		done := func(m *queue.Mux) *worker { return w.work(queue.WorkerOptions{Mux: m}) }
		old, mended := &queue.Mux{}, &queue.Mux{}
		queue.Define[seven]("k").Handle(old, func(context.Context, *queue.Run, seven) error { return nil }, queue.Handler{})
		queue.Define[words]("k").Handle(mended, func(context.Context, *queue.Run, words) error { return nil }, queue.Handler{})
		id := w.enqueue(task.Spec{Kind: "k", Args: []byte(`{"N":"seven"}`)}).ID
		wk := done(old)
		got := w.expect(id, task.Retryable, time.Minute)
		w.end(wk)
		if got.Attempts != 1 {
			t.Errorf("%d attempts", got.Attempts)
		}
		wk = done(mended)
		w.expect(id, task.Succeeded, time.Minute)
		w.end(wk)
	})
}

// A wrapped nil is nil, as fmt's users expect of what wraps.
func TestFinalOfNothingIsNothing(t *testing.T) {
	if queue.Final(nil) != nil || queue.RetryAfter(time.Minute, nil) != nil {
		t.Fatal("not nil")
	}
	if queue.Final(errors.New("x")) == nil || queue.RetryAfter(time.Minute, errors.New("x")) == nil {
		t.Fatal("nil")
	}
}

// The deadline of a handler's context is the end of its attempt, known beforehand.
func TestATimeoutIsTheContextsDeadline(t *testing.T) {
	virtual(t, func(w *world) {
		m := &queue.Mux{}
		m.Handle("k", queue.Handler{Timeout: time.Hour, Do: func(ctx context.Context, r *queue.Run) error {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Minute {
				t.Errorf("the deadline is in %s, %v", time.Until(at), ok)
			}
			<-ctx.Done()
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), queue.ErrTimedOut) {
				t.Errorf("%v, because %v", ctx.Err(), context.Cause(ctx))
			}
			return queue.Final(ctx.Err())
		}})
		wk := w.work(queue.WorkerOptions{Mux: m})
		id := w.enqueue(task.Spec{Kind: "k", Options: task.Options{Timeout: time.Minute}}).ID
		w.expect(id, task.Failed, 2*time.Minute)
		w.end(wk)
	})
}

func panics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if p := recover(); p == nil || !strings.Contains(p.(string), want) {
			t.Errorf("it panicked with %v, want %q", p, want)
		}
	}()
	f()
}

// A handler that would silently take another's place, and rates that would bind nothing, are refused at once.
func TestAMuxRefusesWhatWouldBindNothing(t *testing.T) {
	h := queue.Handler{Do: func(context.Context, *queue.Run) error { return nil }}
	m := &queue.Mux{}
	m.Handle("k", h)
	m.HandleAny(h)
	panics(t, `"k" has a handler already`, func() { m.Handle("k", h) })
	panics(t, "already", func() { m.HandleAny(h) })
	panics(t, "without a function", func() { new(queue.Mux).HandleAny(queue.Handler{}) })
	virtual(t, func(w *world) {
		for want, rate := range map[string]task.Rate{
			"":               {Count: 1, Per: time.Second, Burst: 3},
			"1 in 0s":        {Count: 1},
			"0 in 1s":        {Per: time.Second},
			"-1 in 1s":       {Count: -1, Per: time.Second},
			"Burst of -1":    {Count: 1, Per: time.Second, Burst: -1},
			"0 in 0s":        {Burst: 1},
			"than a million": {Count: 2_000_000, Per: time.Second},
		} {
			h := queue.Handler{Do: h.Do, Rate: rate}
			named, anyKind := &queue.Mux{}, &queue.Mux{}
			named.Handle("k", h)
			anyKind.HandleAny(h)
			k := w.keeper()
			_, err := queue.NewWorker(queue.WorkerOptions{Store: w.st.Queue, Keeper: k, Mux: named})
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "kind k")) {
				t.Errorf("%+v: %v, want %q", rate, err, want)
			}
			if _, err := queue.NewWorker(queue.WorkerOptions{Store: w.st.Queue, Keeper: k, Mux: anyKind}); err == nil || !strings.Contains(err.Error(), "HandleAny") {
				t.Errorf("HandleAny with %+v: %v", rate, err)
			}
			k.Close()
		}
	})
}

// A rate that a handler does not have any more is gone once its worker has begun; a worker that knows no kind by name
// leaves it alone.
func TestARemovedRateIsGone(t *testing.T) {
	virtual(t, func(w *world) {
		nothing := func(context.Context, *queue.Run) error { return nil }
		rated, plain, anyKind := &queue.Mux{}, &queue.Mux{}, &queue.Mux{}
		rated.Handle("k", queue.Handler{Do: nothing, Rate: task.Rate{Count: 1, Per: time.Hour}})
		plain.Handle("k", queue.Handler{Do: nothing})
		anyKind.HandleAny(queue.Handler{Do: nothing})
		for i, c := range []struct {
			mux  *queue.Mux
			want int
		}{{rated, 1}, {anyKind, 1}, {plain, 0}, {rated, 1}} {
			wk := w.work(queue.WorkerOptions{Mux: c.mux})
			time.Sleep(time.Second)
			rates, err := w.st.Tasks.Rates(w.Context())
			if err != nil || len(rates) != c.want {
				t.Errorf("worker %d: rates %v, %v", i+1, rates, err)
			}
			w.end(wk)
		}
	})
}

// How long tasks are kept is a time, of final states.
func TestKeepIsChecked(t *testing.T) {
	virtual(t, func(w *world) {
		for _, c := range []struct {
			state task.State
			d     time.Duration
			fine  bool
		}{
			{task.Succeeded, 0, true}, {task.Succeeded, time.Hour, true}, {task.Succeeded, -1, false},
			{task.Running, time.Hour, false}, {"nonsense", time.Hour, false},
		} {
			m := &queue.Mux{}
			m.Handle("k", queue.Handler{Do: func(context.Context, *queue.Run) error { return nil }})
			k := w.keeper()
			_, err := queue.NewWorker(queue.WorkerOptions{Store: w.st.Queue, Keeper: k, Mux: m, Keep: map[task.State]time.Duration{c.state: c.d}})
			if c.fine != (err == nil) {
				t.Errorf("%s kept for %s: %v", c.state, c.d, err)
			}
			k.Close()
		}
	})
}
