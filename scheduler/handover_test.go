package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/run"
)

// starved is a target that its host cannot start while lacks is not nil.
type starved struct {
	run.Target
	lacks atomic.Pointer[error]
	tries atomic.Int64
}

func newStarved(of run.Target, lacks error) *starved {
	s := &starved{Target: of}
	s.lacks.Store(&lacks)
	return s
}

func (s *starved) Attempt(ctx context.Context, c run.Call) run.Result {
	if lacks := *s.lacks.Load(); lacks != nil {
		s.tries.Add(1)
		return run.Result{Outcome: run.Unavailable, Status: 125, Final: true, Err: fmt.Errorf("run true: %w", lacks)}
	}
	return s.Target.Attempt(ctx, c)
}

// A host that can start nothing, or that lacks a job's program, costs no tick: each goes to the other server. The host
// tries seldom, and takes its share again once it can.
// Holds: promise 10, T2.
func TestWhatAHostCannotStartGoesToAnother(t *testing.T) {
	t.Parallel()
	for _, lacks := range []error{syscall.EMFILE, syscall.ENOENT} {
		t.Run(lacks.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.host(1, 0), w.host(2, 0)
				ill := newStarved(w.target(300*time.Millisecond), lacks)
				var open, handed atomic.Int64 // runs that were told to have begun, and have not ended
				a.backend.Observe = func(e observe.Event) {
					switch {
					case e.On == observe.Started:
						open.Add(1)
					case e.On == observe.Ended:
						open.Add(-1)
					}
					if e.Outcome == observe.HandedOver && e.On == observe.Ended && e.Took == 0 {
						handed.Add(1)
					}
				}
				late := func(p *job.Policy) { p.StartingDeadline = time.Minute }
				a.start(t, newJob(t, "@every 10s", ill, late))
				b.start(t, newJob(t, "@every 10s", w.target(300*time.Millisecond), late))
				time.Sleep(time.Hour)
				if n := ill.tries.Load(); n == 0 || n > 70 { // its share would be 180
					t.Errorf("the host tried %d times in an hour", n)
				}
				ill.lacks.Store(new(error))
				b.stop()
				time.Sleep(10 * time.Minute)
				a.stop()
				if open.Load() != 0 || handed.Load() != ill.tries.Load() {
					t.Errorf("an observer was told of %d starts without an end, and of %d runs handed over, of %d", open.Load(), handed.Load(), ill.tries.Load())
				}
				for _, r := range w.history() {
					if r.Outcome != run.Succeeded || w.times(r.At) != 1 {
						t.Errorf("tick %s: %s, %q, run %d times", r.At, r.Outcome, r.Reason, w.times(r.At))
					}
				}
			})
		})
	}
}

// A tick that no host can start is tried a bounded number of times, and ends with the true reason as a tick that
// nobody ran: within its time to start, and where missed ticks are caught up on, too.
// Holds: promise 10, T2.
func TestATickThatNoHostCanStartEndsWithTheReason(t *testing.T) {
	t.Parallel()
	for catchUp, least := range map[job.CatchUp]int{job.CatchUpSkip: 5, job.CatchUpAll: 10} {
		t.Run(string(catchUp), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				h := w.host(1, 0)
				untilNext(time.Hour)
				at := time.Now().UTC().Add(time.Hour)
				h.start(t, newJob(t, "0 * * * *", newStarved(w.target(0), syscall.EMFILE), func(p *job.Policy) { p.CatchUp = catchUp }))
				sleepUntil(at.Add(50 * time.Minute))
				h.stop()
				row := w.row(at)
				if row.Outcome != run.Unavailable || !strings.Contains(row.Reason, "nothing was executed: run true: too many open files") {
					t.Errorf("it ended %s: %q", row.Outcome, row.Reason)
				}
				if catchUp == job.CatchUpAll && !strings.HasPrefix(row.Reason, "given up: 10 tries: ") {
					t.Errorf("not given up: %q", row.Reason)
				}
				runs, err := w.b.Store().History.Runs(t.Context(), history.Query{Job: "app/j", From: at})
				if err != nil || len(runs) < least || len(runs) > 10 {
					t.Errorf("%d tries, want %d to 10; %v", len(runs), least, err)
				}
				for _, r := range runs {
					if r.Outcome != run.Unavailable {
						t.Errorf("a try ended %s: %q", r.Outcome, r.Reason)
					}
				}
			})
		})
	}
}

// A condition that a host cannot ask is no: the tick goes to a server that can ask it, also if the store is silent for
// a moment just then.
// Holds: T2, T5.
func TestAConditionThatAHostCannotAskGoesToAnother(t *testing.T) {
	for _, silence := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.host(1, 0), w.host(2, 0)
			ill := newJob(t, "* * * * *", w.target(time.Second), nil)
			ill.When = func(context.Context) (bool, error) {
				if silence > 0 {
					a.cut(true)
					time.AfterFunc(silence, func() { a.cut(false) })
				}
				return false, syscall.ENFILE
			}
			a.start(t, ill)
			b.start(t, newJob(t, "* * * * *", w.target(time.Second), nil))
			time.Sleep(20*time.Minute + 50*time.Second)
			a.stop()
			b.stop()
			for _, r := range w.history() {
				if r.Outcome != run.Succeeded {
					t.Errorf("silent for %s: tick %s: %s, %q", silence, r.At, r.Outcome, r.Reason)
				}
			}
		})
	}
}

// If no server can ask for the condition, the tick ends with the reason, in a run that counts as a try, and never as
// one whose server died.
// Holds: T2.
func TestAConditionThatNobodyCanAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hosts := []*host{w.host(1, 0), w.host(2, 0)}
		for _, h := range hosts {
			ill := newJob(t, "* * * * *", w.target(time.Second), nil)
			ill.When = func(context.Context) (bool, error) { return false, syscall.ENFILE }
			h.start(t, ill)
		}
		time.Sleep(20*time.Minute + 50*time.Second)
		for _, h := range hosts {
			h.stop()
		}
		all := w.history()
		for _, r := range all {
			if r.Outcome != run.Unavailable || !strings.Contains(r.Reason, "condition (when)") {
				t.Errorf("tick %s: %s, %q", r.At, r.Outcome, r.Reason)
			}
		}
		if len(all) < 15 {
			t.Errorf("%d ticks", len(all))
		}
	})
}

// A run of which an earlier attempt began did not fail to begin.
func TestALaterAttemptThatCannotBeginIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.host(1, 0), minute()
		var n atomic.Int64
		target := targetFunc(func(context.Context, run.Call) run.Result {
			if n.Add(1) == 1 {
				return run.Result{Outcome: run.Failed, Status: 1, Err: errors.New("exit status 1")}
			}
			return run.Result{Outcome: run.Unavailable, Err: syscall.EMFILE, Final: true}
		})
		h.start(t, newJob(t, "* * * * *", target, func(p *job.Policy) { p.Retries.MaxAttempts = 3 }))
		sleepUntil(at.Add(50 * time.Second))
		h.stop()
		if row := w.row(at); row.Outcome != run.Failed || n.Load() != 2 {
			t.Errorf("%d attempts: %s, %q", n.Load(), row.Outcome, row.Reason)
		}
	})
}
