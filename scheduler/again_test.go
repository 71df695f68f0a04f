package scheduler_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

func rerun(p *job.Policy) { p.OnCrash = job.CrashRerun }

// Rule T3: a tick whose run crashed is run again once. When that one has crashed as well, it is left at that.
// Holds: T3.
func TestATickIsRunAgainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		untilNext(time.Hour)
		at := time.Now().UTC().Add(time.Hour)
		sleepUntil(at.Add(-time.Minute))
		for seed := range uint64(2) {
			h := w.host(seed+1, 0)
			h.start(t, newJob(t, "0 * * * *", hanging(), rerun))
			sleepUntil(at.Add(time.Duration(seed+1) * 2 * time.Minute))
			if row := w.row(at); row.State != tick.Started || row.Reruns != int(seed) {
				t.Errorf("under server %d: %+v", seed+1, row)
			}
			h.cut(true)
			t.Cleanup(h.stop)
		}
		third := w.host(3, 0)
		third.start(t, newJob(t, "0 * * * *", w.target(time.Second), rerun))
		sleepUntil(at.Add(10 * time.Minute))
		third.stop()
		if row := w.row(at); w.times(at) != 0 || row.Outcome != run.Crashed || row.Reruns != 1 {
			t.Errorf("run again %d times more: %+v", w.times(at), row)
		}
	})
}

// Rule T3: a tick that ran, and whose lease somebody holds when it is to be run again, ended as its run did.
// Holds: T3.
func TestATickThatRanIsNotSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		untilNext(time.Hour)
		at := time.Now().UTC().Add(time.Hour)
		sleepUntil(at.Add(-time.Minute))
		first := w.host(1, 0)
		first.start(t, newJob(t, "0 * * * *", hanging(), rerun))
		sleepUntil(at.Add(time.Second))
		first.cut(true)
		t.Cleanup(first.stop)
		l, err := w.host(9, 0).backend.Keeper.Acquire(t.Context(), lease.Want{Key: "app/j", Wait: -1})
		if err != nil {
			t.Fatal(err)
		}
		second := w.host(2, 0)
		second.start(t, newJob(t, "0 * * * *", w.target(time.Second), rerun))
		sleepUntil(at.Add(5 * time.Minute))
		if row := w.row(at); w.times(at) != 0 || row.Outcome != run.Crashed || !strings.Contains(row.Reason, "not run again") {
			t.Errorf("run %d times: %+v", w.times(at), row)
		}
		second.stop()
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Rule T7: the newest request wins. Who is displaced by it ends at once, and does not wait for the holder's end.
// Holds: T7.
func TestTheNewestRequestDisplacesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.host(1, 0), minute()
		long := w.target(10 * time.Minute)
		slow := targetFunc(func(ctx context.Context, c run.Call) run.Result {
			return long.Attempt(lingering{ctx, 170 * time.Second}, c)
		})
		h.start(t, newJob(t, "* * * * *", slow, func(p *job.Policy) {
			p.Concurrency, p.StopGrace = job.Replace, 10*time.Minute
		}))
		for n := 2; n < 4; n++ { // the first works; each of the others is displaced by the next
			sleepUntil(at.Add(time.Duration(n)*time.Minute + 10*time.Second))
			if r := w.row(at.Add(time.Duration(n-1) * time.Minute)); r.Outcome != run.Skipped || r.Reason != run.ReasonSuperseded {
				t.Errorf("%s: %s %s %s", r.At, r.State, r.Outcome, r.Reason)
			}
		}
		sleepUntil(at.Add(3*time.Minute + 55*time.Second)) // the first has ended
		if r := w.row(at.Add(3 * time.Minute)); r.State != tick.Started {
			t.Errorf("the newest: %+v", r)
		}
		h.stop()
		time.Sleep(5 * time.Minute)
	})
}

// Rule T3: past the catch-up window a tick is not run again.
// Holds: T3.
func TestNoTickIsRunAgainPastItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		untilNext(time.Hour)
		at := time.Now().UTC().Add(time.Hour)
		sleepUntil(at.Add(-time.Minute))
		policy := func(p *job.Policy) { p.OnCrash, p.CatchUpWindow = job.CrashRerun, 5*time.Minute }
		first := w.host(1, 0)
		first.start(t, newJob(t, "0 * * * *", hanging(), policy))
		sleepUntil(at.Add(time.Second))
		first.cut(true)
		t.Cleanup(first.stop)
		sleepUntil(at.Add(6 * time.Minute))
		second := w.host(2, 0)
		second.start(t, newJob(t, "0 * * * *", w.target(time.Second), policy))
		sleepUntil(at.Add(10 * time.Minute))
		second.stop()
		if row := w.row(at); w.times(at) != 0 || row.Outcome != run.Crashed || row.Reruns != 0 {
			t.Errorf("run %d times: %+v", w.times(at), row)
		}
	})
}

// Rule T7: only a holder that declared Replace may be replaced. Beside another one a tick is skipped, as under Forbid.
// Holds: T7.
func TestNobodyIsReplacedWhoMayNotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := minute()
		l, err := w.host(9, 0).backend.Keeper.Acquire(t.Context(), lease.Want{Key: "app/j"})
		if err != nil {
			t.Fatal(err)
		}
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(time.Second), func(p *job.Policy) {
			p.Concurrency, p.StopGrace = job.Replace, 10*time.Minute
		}))
		sleepUntil(at.Add(50 * time.Second))
		if row := w.row(at); row.Outcome != run.Skipped || row.Reason != run.ReasonOverlap {
			t.Errorf("%+v", row)
		}
		h.stop()
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
