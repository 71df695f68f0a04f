package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// otherLease is the lease of a process that nobody renews.
func (w *world) otherLease(t *testing.T, ttl time.Duration) lease.Ref {
	t.Helper()
	r, err := w.b.Store().Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: lease.OnceKey(), TTL: ttl,
		Holder: lease.Holder{ID: lease.NewNonce(), Host: "gone", Command: scheduler.ServerCommand("app")}}})
	if err != nil || r.Answers[0].Status != lease.OK {
		t.Fatal(r, err)
	}
	return r.Answers[0].Record.Ref()
}

func (w *world) eventsOf(t *testing.T, kind string) (found []history.Event) {
	t.Helper()
	all, err := w.b.Store().History.Events(t.Context(), history.Query{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// owe leaves n ticks of other jobs of the app that were claimed and came to nothing.
func (w *world) owe(t *testing.T, n int) {
	t.Helper()
	ref, at := w.otherLease(t, 15*time.Second), time.Now().UTC().Truncate(time.Second)
	var reqs []tick.ClaimRequest
	for i := range n {
		reqs = append(reqs, tick.ClaimRequest{Job: fmt.Sprintf("app/filler%05d", i), At: at, Lease: ref, Outcome: run.Missed, Reason: "filler"})
	}
	if _, err := w.b.Store().Ticks.Claim(t.Context(), reqs); err != nil {
		t.Fatal(err)
	}
}

// Where more is owed than one step reads, each tick is still taken over once: the store would call a second
// takeover under the same lease a repetition of the first.
func TestAnOwedTickIsTakenOverOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy job.Concurrency
		held   bool
	}{{job.Forbid, false}, {job.Replace, false}, {job.Allow, false}, {job.Wait, true}} {
		t.Run(fmt.Sprint(c.policy, " held ", c.held), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				policy := func(p *job.Policy) {
					p.OnCrash, p.Concurrency, p.CatchUpWindow = job.CrashRerun, c.policy, 24*time.Hour
				}
				a := w.host(1, 0)
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour - time.Minute)))
				w.owe(t, 600)
				a.start(t, newJob(t, "0 * * * *", w.target(time.Hour), policy))
				time.Sleep(2 * time.Minute)
				a.cancel()
				a.Hurry()
				<-a.done
				rows := w.history()
				if len(rows) != 1 || rows[0].Outcome != run.Canceled {
					t.Fatalf("%+v", rows)
				}
				if c.held { // a run by hand, say, for half a minute
					x := w.host(7, 0)
					l, err := x.backend.Keeper.Acquire(t.Context(), lease.Want{Key: "app/j", Holder: x.backend.Self})
					if err != nil {
						t.Fatal(err)
					}
					go func() { time.Sleep(30 * time.Second); _ = l.Release(context.Background()) }()
				}
				b := w.host(2, 0)
				b.start(t, newJob(t, "0 * * * *", w.long(20*time.Second), policy))
				time.Sleep(2 * time.Minute)
				if n := len(w.eventsOf(t, "tick-taken-over")); n != 1 {
					t.Errorf("it was taken over %d times", n)
				}
				for _, e := range w.eventsOf(t, "tick-skipped") {
					t.Errorf("skipped: %s", e.Reason)
				}
				if rows := w.history(); len(rows) != 1 || rows[0].Outcome != run.Succeeded {
					t.Errorf("%+v", rows)
				}
				b.stop()
			})
		})
	}
}

// slowOrphans answers late what it read.
type slowOrphans struct {
	tick.Store
	d time.Duration
}

func (s slowOrphans) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	f, err := s.Store.Orphans(ctx, l)
	time.Sleep(s.d)
	return f, err
}

// A claim of a dead server is taken over either by the fire that waits for it or by the sweep, not by both:
// under Wait the second one would find the waiting slot taken by the first, and end the tick.
func TestAClaimIsTakenOverOnce(t *testing.T) {
	for i := range 4 {
		lapse := 14*time.Second + 400*time.Millisecond + time.Duration(i)*100*time.Millisecond
		t.Run(lapse.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				b := w.host(2, 0)
				time.Sleep(250 * time.Millisecond) // the sweep looks between two looks of the fire
				b.backend.Ticks = slowOrphans{b.backend.Ticks, 700 * time.Millisecond}
				b.start(t, newJob(t, "* * * * *", w.long(90*time.Second), func(p *job.Policy) { p.Concurrency = job.Wait }))
				second := time.Now().Truncate(time.Minute).Add(2 * time.Minute).UTC()
				time.Sleep(time.Until(second.Add(-time.Second)))
				ref := w.otherLease(t, lapse)
				a, err := w.b.Store().Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "app/j", At: second, Lease: ref, Ahead: 2 * time.Second}})
				if err != nil || a[0].Status != tick.Won {
					t.Fatal(a, err)
				}
				time.Sleep(50 * time.Second)
				rows := w.history()
				if len(rows) != 2 || rows[1].State != tick.Started {
					t.Errorf("the second tick: %s %s %s", rows[1].State, rows[1].Outcome, rows[1].Reason)
				}
				b.cancel()
				b.Hurry()
				<-b.done
			})
		})
	}
}
