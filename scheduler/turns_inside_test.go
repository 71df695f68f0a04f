package scheduler_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// A pause until an hour does not have that hour's tick: whoever concludes the pause leaves it, and it runs.
// Holds: T8.
func TestTheTickAtTheEndOfAPauseIsNotPaused(t *testing.T) {
	for _, catchUp := range []job.CatchUp{job.CatchUpSkip, job.CatchUpLatest, job.CatchUpAll} {
		t.Run(string(catchUp), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				policy := func(p *job.Policy) { p.CatchUp = catchUp }
				first, second, admin := w.host(1, 0), w.host(2, 0), w.host(3, 0)
				first.start(t, newJob(t, "0 * * * *", w.target(0), policy))
				time.Sleep(time.Minute)
				first.stop()
				end := time.Now().UTC().Truncate(time.Hour).Add(3 * time.Hour)
				admin.pause(t, tick.PauseRequest{By: "ann", Until: end})
				sleepUntil(end.Add(30 * time.Second)) // nobody has claimed its tick yet
				admin.pause(t, tick.PauseRequest{By: "ann"})
				time.Sleep(time.Second)
				admin.pause(t, tick.PauseRequest{By: "ann", Resume: true})
				second.start(t, newJob(t, "0 * * * *", w.target(0), policy))
				time.Sleep(time.Minute)
				second.stop()
				if r := w.row(end); r.Outcome != run.Succeeded || w.times(end) != 1 {
					t.Errorf("the tick at its end: %s %s %q, run %d times", r.State, r.Outcome, r.Reason, w.times(end))
				}
				for _, at := range []time.Time{end.Add(-2 * time.Hour), end.Add(-time.Hour)} {
					if r := w.row(at); r.Outcome != run.Paused || w.times(at) != 0 {
						t.Errorf("%s: %s %s, run %d times", at, r.State, r.Outcome, w.times(at))
					}
				}
			})
		})
	}
}

// In a rolling deploy some servers do not know a job yet. They leave its claims to those that do, for as long as a
// tick may start at the most, and end them after that.
// Holds: T2.
func TestWhoDoesNotKnowAJobLeavesItsClaims(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint("known to a third one ", known), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				other := newJob(t, "0 3 * * *", w.target(0), nil)
				other.Spec.Name = "other"
				old := w.host(9, 0)
				old.start(t, other)
				at := time.Now().UTC().Truncate(10 * time.Minute).Add(10 * time.Minute)
				w.claimedByTheDead(at)
				sleepUntil(at.Add(time.Minute))
				if r := w.row(at); r.State != tick.Claimed || r.Live {
					t.Fatalf("a minute after it was due: %s %s, live %v", r.State, r.Outcome, r.Live)
				}
				if known {
					third := w.host(3, 0)
					third.start(t, newJob(t, "*/10 * * * *", w.target(0), nil))
					sleepUntil(at.Add(2 * time.Minute))
					third.stop()
				} else {
					sleepUntil(at.Add(5 * time.Minute))
					if r := w.row(at); r.State != tick.Claimed {
						t.Errorf("while it may still start: %s %s", r.State, r.Outcome)
					}
					sleepUntil(at.Add(6 * time.Minute))
				}
				want := map[bool]run.Outcome{true: run.Succeeded, false: run.Missed}[known]
				if r := w.row(at); r.Outcome != want {
					t.Errorf("in the end: %s %s %q, want %s", r.State, r.Outcome, r.Reason, want)
				}
				old.stop()
			})
		})
	}
}

// However much came after it, what is owed is found: each sweep reads the latest page and one more.
// Holds: promise 26, T3.
func TestEachPageOfWhatIsOwedIsRead(t *testing.T) {
	t.Parallel()
	for _, later := range []int{0, 499, 500, 999, 1000, 1600} {
		t.Run(fmt.Sprint(later), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				policy := func(p *job.Policy) { p.OnCrash = job.CrashRerun }
				a, b := w.host(1, 0), w.host(2, 0)
				at := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
				sleepUntil(at.Add(-time.Minute))
				a.start(t, newJob(t, "0 * * * *", hanging(), policy))
				sleepUntil(at.Add(time.Minute))
				a.cancel()
				a.Hurry()
				<-a.done
				if r := w.row(at); r.Outcome != run.Canceled {
					t.Fatalf("%+v", r)
				}
				if later > 0 {
					w.owe(t, later)
				}
				b.start(t, newJob(t, "0 * * * *", w.target(time.Second), policy))
				time.Sleep(time.Minute)
				if r := w.row(at); r.Outcome != run.Succeeded || w.times(at) != 1 || r.Reruns != 1 {
					t.Errorf("behind %d others: %s, run again %d times", later, r.Outcome, w.times(at))
				}
				b.stop()
			})
		})
	}
}

// Under `latest` a missed tick waits for a later one that has not ended: if that runs, it has made up for the missed
// one; if it comes to nothing, the missed one is run.
// Holds: T8.
func TestLatestWaitsForWhatIsUnderWay(t *testing.T) {
	for _, runs := range []bool{true, false} {
		t.Run(fmt.Sprint("it runs ", runs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				policy := func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpLatest, 6*time.Hour }
				h := w.host(1, 0)
				h.start(t, newJob(t, "0 * * * *", w.target(0), policy))
				time.Sleep(time.Minute)
				h.stop()
				ticks, one := w.b.Store().Ticks, time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
				two := one.Add(time.Hour)
				claim := func(at time.Time, ref lease.Ref, o run.Outcome) {
					t.Helper()
					a, err := ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "app/j", At: at, Lease: ref, Ahead: time.Second, Outcome: o, Reason: "a test"}})
					if err != nil || a[0].Status != tick.Won {
						t.Fatal(a, err)
					}
				}
				sleepUntil(one)
				claim(one, w.otherLease(t, lease.DefaultTTL), run.Unavailable)
				sleepUntil(two)
				ref := w.otherLease(t, lease.DefaultTTL)
				claim(two, ref, "")
				for n := range 30 { // it waits for the lease of its job, say
					if n == 1 {
						h = w.host(2, 0)
						h.start(t, newJob(t, "0 * * * *", w.target(0), policy))
					}
					if _, err := w.b.Store().Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * time.Second)
				}
				if n := w.times(one); n != 0 {
					t.Errorf("beside one that is under way it was run %d times", n)
				}
				r, want := run.Record{Job: "app/j", Tick: two, Outcome: run.Skipped, Reason: run.ReasonOverlap}, 1
				if runs {
					want = 0
					r = run.Record{ID: run.NewID(), Job: "app/j", Tick: two, Owner: ref.Owner, Token: ref.Token}
					if a, err := ticks.Start(t.Context(), []tick.StartRequest{{Run: r, Claim: ref, Lease: ref}}); err != nil || a[0].Status != tick.Won {
						t.Fatal(a, err)
					}
					r.Outcome = run.Succeeded
				}
				if a, err := ticks.Close(t.Context(), []tick.CloseRequest{{Run: r, Claim: ref}}); err != nil || a[0].Status != tick.Won {
					t.Fatal(a, err)
				}
				time.Sleep(5 * time.Minute)
				h.stop()
				if n := w.times(one); n != want {
					t.Errorf("in the end it was run %d times, want %d", n, want)
				}
			})
		})
	}
}

// A claim on the way when its server stops, or a second fire of the same tick, changes nothing: of each tick that
// many ask for at once there is one claim of this server.
// Holds: promise 8.
func TestATickThatIsFiredTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.ticks.claimed = func() { time.Sleep(time.Second) }
		j := newJob(t, "* * * * *", w.target(10*time.Second), nil)
		h.start(t, j)
		at := minute()
		sleepUntil(at.Add(500 * time.Millisecond)) // its claim is under way
		if err := h.Load(t.Context(), []*scheduler.Job{newJob(t, "* * * * *", w.target(10*time.Second), nil)}); err != nil {
			t.Fatal(err)
		}
		sleepUntil(at.Add(30 * time.Second))
		if n := h.ticks.asked(); n != 1 {
			t.Errorf("%d claims were sent for one tick", n)
		}
		h.stop()
		if r := w.row(at); r.Outcome != run.Succeeded || w.times(at) != 1 {
			t.Errorf("%s, run %d times", r.Outcome, w.times(at))
		}
	})
}
