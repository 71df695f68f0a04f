package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// minute is the next whole one.
func minute() time.Time { return time.Now().UTC().Truncate(time.Minute).Add(time.Minute) }

func sleepUntil(at time.Time) { time.Sleep(time.Until(at)) }

// row is the tick at an instant, or at least the one that accounts for it.
func (w *world) row(at time.Time) tick.Tick {
	w.t.Helper()
	for _, r := range w.history() {
		if r.At.Equal(at) || r.At.Before(at) && !r.Through.Before(at) {
			return r
		}
	}
	return tick.Tick{}
}

// A tick that finds the lease of a dead holder, under Forbid, waits for its end, and runs.
// Holds: T5.
func TestATickIsNotSkippedForADeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := w.host(1, 0), w.host(2, 0)
		first := minute()
		one.start(t, newJob(t, "* * * * *", w.target(150*time.Second), nil))
		sleepUntil(first.Add(45 * time.Second)) // it runs the tick of the minute
		two.start(t, newJob(t, "* * * * *", w.target(10*time.Second), nil))
		next := first.Add(time.Minute)
		sleepUntil(next.Add(-3 * time.Second))
		one.cut(true)
		sleepUntil(next.Add(45 * time.Second))
		if r := w.row(next); r.Outcome != run.Succeeded {
			t.Errorf("%s: %s %s", r.At, r.Outcome, r.Reason)
		}
		two.stop()
		one.cut(false)
		one.stop()
	})
}

// claimedByTheDead has a server claim the tick at an instant and die, so that nothing of it was started.
func (w *world) claimedByTheDead(at time.Time) {
	h := w.host(1, 0)
	h.ticks.deaf = "last claim"
	h.start(w.t, newJob(w.t, "*/10 * * * *", w.target(0), nil))
	sleepUntil(at.Add(time.Second))
	h.link.Cut(true)
	w.t.Cleanup(h.stop)
}

// Rule T8: a pause begins no run, also not that of a claim which somebody left behind.
// Holds: T8.
func TestAClaimOfTheDeadIsNotBegunInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := time.Now().UTC().Truncate(10 * time.Minute).Add(10 * time.Minute)
		w.claimedByTheDead(at)
		two, admin := w.host(2, 0), w.host(3, 0)
		admin.pause(t, tick.PauseRequest{By: "ann", Why: "a test"})
		two.start(t, newJob(t, "*/10 * * * *", w.target(0), nil))
		sleepUntil(at.Add(4 * time.Minute)) // it may start for five minutes
		two.stop()
		if n := w.times(at); n != 0 {
			t.Errorf("it was begun %d times in the pause", n)
		}
	})
}

// Rule T2: a claim that somebody left behind is taken over within its starting deadline, and missed after that.
// Holds: T2.
func TestAClaimOfTheDeadIsMissedWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := time.Now().UTC().Truncate(10 * time.Minute).Add(10 * time.Minute)
		w.claimedByTheDead(at)
		sleepUntil(at.Add(5*time.Minute + time.Second))
		two := w.host(2, 0)
		two.start(t, newJob(t, "*/10 * * * *", w.target(0), nil))
		time.Sleep(time.Minute)
		two.stop()
		if r := w.row(at); w.times(at) != 0 || r.Outcome != run.Missed {
			t.Errorf("run %d times: %s %s", w.times(at), r.Outcome, r.Reason)
		}
	})
}

// Rule T4: a tick that can be claimed only when its time to start is over, since the lease for it takes longer,
// is not run.
// Holds: T4.
func TestAClaimThatComesTooLateStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := minute()
		sleepUntil(at.Add(-2500 * time.Millisecond))
		h := w.host(1, 0)
		h.link.Latency = 1500 * time.Millisecond
		h.start(t, newJob(t, "* * * * *", w.target(0), func(p *job.Policy) { p.StartingDeadline = time.Second }))
		sleepUntil(at.Add(90 * time.Second))
		h.stop()
		if n := w.times(at); n != 0 {
			t.Errorf("the tick was run %d times, after its time to start", n)
		}
		if n := w.times(at.Add(time.Minute)); n != 1 {
			t.Errorf("the next one was run %d times", n)
		}
	})
}

// Rule T4: a tick that nobody claimed is not settled as long as a claim may be on its way, which is for a TTL.
// Holds: T4.
func TestSettlingWaitsForClaimsOnTheirWay(t *testing.T) {
	for _, expr := range []string{"* * * * *", "@every 5s"} {
		t.Run(expr, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				dormant := newJob(t, expr, w.target(0), func(p *job.Policy) { p.StartingDeadline = 2 * time.Second })
				dormant.Dormant = true
				h := w.host(1, 0)
				h.start(t, dormant)
				still := 2*time.Second + h.backend.Keeper.Margin().TTL // a claim may be on its way
				missed := 0
				for range 2 * 600 {
					time.Sleep(500 * time.Millisecond)
					rows := w.history()
					for _, r := range rows {
						last := r.At
						if r.Through.After(last) {
							last = r.Through
						}
						if time.Since(last) < still {
							t.Fatalf("after %s it is %s (%s), while a claim of it may still come", time.Since(last), r.State, r.Outcome)
						}
						missed += max(r.Count, 1)
					}
				}
				if missed == 0 {
					t.Error("none is missed in the end")
				}
				h.stop()
			})
		})
	}
}

// slow works until it is told to stop, and then takes its time.
func (w *world) slow(end time.Duration) run.Target {
	quick := w.target(100 * time.Second)
	return targetFunc(func(ctx context.Context, c run.Call) run.Result {
		return quick.Attempt(lingering{ctx, end}, c)
	})
}

type targetFunc func(context.Context, run.Call) run.Result

func (f targetFunc) Attempt(ctx context.Context, c run.Call) run.Result { return f(ctx, c) }

// lingering is a context whose end is seen late.
type lingering struct {
	context.Context
	d time.Duration
}

func (l lingering) Done() <-chan struct{} {
	late := make(chan struct{})
	go func() {
		<-l.Context.Done()
		time.Sleep(l.d)
		close(late)
	}()
	return late
}

// Rule T7: a newcomer under Replace waits for what the holder may take to end: its stop grace beyond a TTL.
// Holds: T7.
func TestReplaceWaitsForTheHoldersGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.host(1, 0), minute()
		h.start(t, newJob(t, "* * * * *", w.slow(25*time.Second), func(p *job.Policy) {
			p.Concurrency, p.StopGrace = job.Replace, 30*time.Second
		}))
		sleepUntil(at.Add(5 * time.Minute))
		h.stop()
		for _, r := range w.history() {
			if r.Outcome == run.Skipped {
				t.Errorf("%s: %s %s", r.At, r.Outcome, r.Reason)
			}
		}
		if n := w.outcomes()[run.Replaced]; n < 3 {
			t.Errorf("outcomes %v; want some replaced", w.outcomes())
		}
	})
}

// A server that is told to end is there until its work is gone, and its outcome recorded.
func TestADrainWaitsForTheEndOfWhatItStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.host(1, 0), minute()
		h.start(t, newJob(t, "* * * * *", w.slow(5*time.Second), nil))
		sleepUntil(at.Add(time.Second))
		h.stop()
		w.mu.Lock()
		working := w.work["app/j"]
		w.mu.Unlock()
		if working != 0 {
			t.Error("it has ended, and its work goes on")
		}
		if r := w.row(at); r.Outcome != run.Canceled {
			t.Errorf("%s %s", r.Outcome, r.Reason)
		}
		time.Sleep(time.Minute)
	})
}

// A store that does not answer at the end is no error: what the server held expires by itself.
func TestAnEndWithoutTheStoreIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.host(1, 0), minute()
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		sleepUntil(at.Add(10 * time.Second))
		h.cut(true)
		if h.stop(); h.err != nil {
			t.Error(h.err)
		}
	})
}

// A server that lost its own lease at the end says so.
func TestAnEndWithoutItsLeaseIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.host(1, 0), minute()
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		sleepUntil(at.Add(10 * time.Second))
		l, err := h.backend.Book.Server(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.b.Store().Leases.Release(t.Context(), []lease.Ref{l.Ref()}); err != nil {
			t.Fatal(err)
		}
		if h.stop(); !errors.Is(h.err, lease.ErrLost) {
			t.Errorf("%v", h.err)
		}
	})
}

// A run that a person canceled is not run again, whatever the policy says of crashes.
// Holds: T3.
func TestWhatWasCanceledIsNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at, h, ran := minute(), w.host(1, 0), 0
		h.start(t, newJob(t, "* * * * *", targetFunc(func(_ context.Context, c run.Call) run.Result {
			if c.Run.Tick.Equal(at) {
				ran++
			}
			return run.Result{Outcome: run.Canceled, Err: errors.New("signal: terminated")}
		}), func(p *job.Policy) { p.OnCrash = job.CrashRerun }))
		sleepUntil(at.Add(50 * time.Second))
		h.stop()
		if r := w.row(at); ran != 1 || r.Reruns != 0 || r.Outcome != run.Canceled {
			t.Errorf("run %d times: %s %s", ran, r.Outcome, r.Reason)
		}
	})
}

// Rule T9: as long as an outcome cannot be recorded its lease stays renewed, so that nobody else starts.
// Holds: T9.
func TestAnUnrecordedOutcomeKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.host(1, 0), time.Now().UTC().Truncate(10*time.Minute).Add(10*time.Minute)
		h.start(t, newJob(t, "*/10 * * * *", w.target(3*time.Second), nil))
		unheard := func(deaf bool) {
			h.ticks.mu.Lock()
			h.ticks.cut = deaf
			h.ticks.mu.Unlock()
		}
		sleepUntil(at.Add(time.Second))
		unheard(true) // its leases are heard
		sleepUntil(at.Add(20 * time.Second))
		_, r, err := w.host(9, 0).backend.Keeper.Read(t.Context(), lease.Key("app/j"))
		if err != nil || !r.Live(time.Now()) {
			t.Errorf("the lease is not held while its outcome is unrecorded: %+v, %v", r, err)
		}
		if kept := h.spool.kept(); len(kept) != 0 {
			t.Errorf("it was spooled: %+v", kept)
		}
		unheard(false)
		time.Sleep(5 * time.Second)
		if r := w.row(at); r.Outcome != run.Succeeded {
			t.Errorf("%s %s", r.Outcome, r.Reason)
		}
		h.stop()
	})
}
