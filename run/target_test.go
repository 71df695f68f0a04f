package run_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// script answers each attempt in turn, after a time.
type script []struct {
	takes time.Duration
	res   run.Result
}

func (s script) Attempt(ctx context.Context, c run.Call) run.Result {
	step := s[min(c.Attempt, len(s))-1]
	select {
	case <-time.After(step.takes):
		return step.res
	case <-ctx.Done():
		if step.res.Stopped {
			return step.res
		}
		return run.Result{Outcome: run.Failed, Err: context.Cause(ctx)}
	}
}

var (
	failed = run.Result{Outcome: run.Failed, Status: 3, Err: errors.New("exit status 3")}
	good   = run.Result{Outcome: run.Succeeded}
	// polite ends well when it is told to stop, as a command does that exits 0 on SIGTERM.
	polite = run.Result{Outcome: run.Succeeded, Stopped: true, Err: errors.New("stopped")}
)

type attemptsCase struct {
	name   string
	steps  script
	lim    run.Limits
	cancel error // after 5 s
	want   run.Outcome
	reason string
	n      int
	took   time.Duration
}

// Limits and stops say how many attempts there are, how long they take, and how the run ends.
// Holds: promise 14.
func TestAttempts(t *testing.T) {
	second := func(int) time.Duration { return time.Second }
	cases := []attemptsCase{
		{"the first one succeeds", script{{time.Second, good}}, run.Limits{Attempts: 3}, nil, run.Succeeded, "", 1, time.Second},
		{"a failure is tried again", script{{0, failed}, {0, good}}, run.Limits{Attempts: 3, Backoff: second}, nil, run.Succeeded, "", 2, time.Second},
		{"one attempt by default", script{{0, failed}}, run.Limits{}, nil, run.Failed, "exit status 3", 1, 0},
		{"attempts end", script{{0, failed}}, run.Limits{Attempts: 3, Backoff: second}, nil, run.Failed, "exit status 3", 3, 2 * time.Second},
		{"a final failure", script{{0, run.Result{Outcome: run.Failed, Final: true, Err: errors.New("no")}}}, run.Limits{Attempts: 3}, nil, run.Failed, "no", 1, 0},
		{"a later time is asked for", script{{0, run.Result{Outcome: run.Failed, After: time.Minute}}, {0, good}}, run.Limits{Attempts: 2, Backoff: second}, nil, run.Succeeded, "", 2, time.Minute},
		{"a timeout bounds each attempt", script{{time.Hour, good}, {0, good}}, run.Limits{Attempts: 2, Timeout: time.Minute}, nil, run.Succeeded, "", 2, time.Minute},
		{"a timeout is an outcome", script{{time.Hour, good}}, run.Limits{Timeout: time.Minute}, nil, run.TimedOut, "timed out", 1, time.Minute},
		{"a deadline bounds them all", script{{time.Minute, failed}}, run.Limits{Attempts: 10, Deadline: 150 * time.Second}, nil, run.TimedOut, "timed out", 3, 150 * time.Second},
		{"a timeout of a polite one", script{{time.Hour, polite}}, run.Limits{Timeout: time.Minute}, nil, run.TimedOut, "stopped", 1, time.Minute},
		{"a shutdown", script{{time.Hour, good}}, run.Limits{Attempts: 3}, run.ErrShutdown, run.Canceled, run.ReasonShutdown, 1, 5 * time.Second},
		{"a replacement", script{{time.Hour, good}}, run.Limits{Attempts: 3}, run.ErrReplaced, run.Replaced, run.ErrReplaced.Error(), 1, 5 * time.Second},
		{"a lost lease", script{{time.Hour, good}}, run.Limits{Attempts: 3}, lease.ErrLost, run.Lost, lease.ErrLost.Error(), 1, 5 * time.Second},
		{"a lease lost between attempts", script{{0, failed}}, run.Limits{Attempts: 3, Backoff: func(int) time.Duration { return time.Hour }}, lease.ErrLost, run.Lost, lease.ErrLost.Error(), 1, 5 * time.Second},
	}
	for cause, want := range map[error]run.Outcome{run.ErrTimedOut: run.TimedOut, run.ErrReplaced: run.Replaced,
		run.ErrShutdown: run.Canceled, run.ErrCanceled: run.Canceled, lease.ErrLost: run.Lost} {
		reason := cause.Error()
		if cause == run.ErrShutdown {
			reason = run.ReasonShutdown
		}
		cases = append(cases, attemptsCase{"success after it was stopped: " + reason, script{{time.Hour, polite}}, run.Limits{Attempts: 1}, cause, want, reason, 1, 5 * time.Second})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.cancel != nil {
					time.AfterFunc(5*time.Second, func() { cancel(c.cancel) })
				}
				start := time.Now()
				all, out, reason, recorded := run.Attempts(ctx, c.steps, run.Call{}, c.lim, time.Now)
				recorded()
				if out != c.want || reason != c.reason || len(all) != c.n {
					t.Errorf("%s (%q) after %d attempts; want %s (%q) after %d", out, reason, len(all), c.want, c.reason, c.n)
				}
				if d := time.Since(start); d != c.took {
					t.Errorf("took %s, want %s", d, c.took)
				}
			})
		})
	}
}

// A function that finished its work although its context had ended is done.
func TestAFunctionThatReturnsNilIsDone(t *testing.T) {
	f := run.Func(func(ctx context.Context, _ run.Call) error { <-ctx.Done(); return nil })
	_, out, reason, _ := run.Attempts(t.Context(), f, run.Call{}, run.Limits{Timeout: time.Millisecond}, time.Now)
	if out != run.Succeeded || reason != "" {
		t.Errorf("%s (%q)", out, reason)
	}
}

func TestAPanicIsAFailure(t *testing.T) {
	r := run.Func(func(context.Context, run.Call) error { panic("oh") }).Attempt(t.Context(), run.Call{})
	if r.Outcome != run.Failed || r.Err == nil || r.Err.Error() != "panic: oh" {
		t.Errorf("%+v", r)
	}
	var out strings.Builder
	run.Func(func(context.Context, run.Call) error { panic("oh") }).Attempt(t.Context(), run.Call{Output: &out})
	if !strings.Contains(out.String(), "panic: oh") || !strings.Contains(out.String(), "target_test.go") {
		t.Errorf("the output has no stack:\n%s", &out)
	}
}

// Whoever carries out a fire must get its end, or the lease would be renewed for ever.
func TestAFunctionThatEndsItsGoroutineHasFailed(t *testing.T) {
	r := run.Func(func(context.Context, run.Call) error { runtime.Goexit(); return nil }).Attempt(t.Context(), run.Call{})
	if r.Outcome != run.Failed || !errors.Is(r.Err, run.ErrExited) {
		t.Errorf("%+v", r)
	}
}

func TestOutcomesAreAClosedSet(t *testing.T) {
	for _, o := range []run.Outcome{run.Succeeded, run.Failed, run.TimedOut, run.Replaced, run.Canceled, run.Lost, run.Crashed} {
		if !o.Valid() || !o.Ran() {
			t.Errorf("%s", o)
		}
	}
	for _, o := range []run.Outcome{run.Skipped, run.Missed, run.Paused, run.Unavailable} {
		if !o.Valid() || o.Ran() {
			t.Errorf("%s", o)
		}
	}
	if run.Outcome("").Valid() || run.Outcome("done").Valid() {
		t.Error("others are valid")
	}
}

// Work that was stopped though nobody cancelled it was stopped for its lease: the guardian heard of no renewal.
func TestWorkThatItsGuardianStoppedIsLost(t *testing.T) {
	polite := stopped{run.Result{Outcome: run.Succeeded, Stopped: true, Err: errors.New("stopped; then it exited with status 0")}}
	_, out, reason, _ := run.Attempts(t.Context(), polite, run.Call{}, run.Limits{}, time.Now)
	if out != run.Lost || reason == "" {
		t.Errorf("%s, %q; want lost, and why", out, reason)
	}
}

type stopped struct{ run.Result }

func (s stopped) Attempt(context.Context, run.Call) run.Result { return s.Result }
