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
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// crashes has the server that runs the job's tick at an instant vanish d after that, and says when the tick was
// run again.
func (w *world) crashes(t *testing.T, all []*host, at time.Time, d time.Duration) (gone, again time.Time) {
	t.Helper()
	time.Sleep(time.Until(at.Add(d)))
	rows := w.history()
	now := rows[len(rows)-1]
	if !now.At.Equal(at) || now.Reruns != 0 {
		t.Fatalf("%s: %+v", at, now)
	}
	for _, h := range all {
		if h.backend.Self.Host == now.Claimant.Host {
			h.cut(true)
			defer h.cut(false)
		}
	}
	gone = time.Now()
	for time.Since(gone) < 2*time.Minute {
		time.Sleep(100 * time.Millisecond)
		if rows := w.history(); rows[len(rows)-1].Reruns == 1 && rows[len(rows)-1].Claimant.Host != now.Claimant.Host {
			return gone, time.Now()
		}
	}
	t.Fatalf("%s, %s after its start: nobody took it over", at, d)
	return gone, gone
}

// sweepEvery is the time from one sweep to the next.
const sweepEvery = lease.DefaultTTL / 5

// turns counts the turns to sweep, which end by themselves, among the leases that are held.
func turns(held lease.Reply) (n int) {
	for _, a := range held.Answers {
		if strings.HasSuffix(a.Record.Key.String(), "/sweep") {
			n++
		}
	}
	return n
}

// A server that vanishes is missed no longer than a TTL and two sweeps, whenever it does, and whether or not it
// was the one that swept.
// Holds: T15.
func TestSweepsAreTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var all []*host
		for seed := range uint64(3) {
			h := w.host(seed+1, 0)
			h.start(t, newJob(t, "*/10 * * * *", w.long(5*time.Minute), func(p *job.Policy) {
				p.OnCrash, p.Concurrency = job.CrashRerun, job.Allow
			}))
			all = append(all, h)
			time.Sleep(1100 * time.Millisecond) // they sweep at different moments
		}
		at := time.Now().Truncate(10 * time.Minute)
		for n := range 12 {
			at = at.Add(10 * time.Minute)
			gone, again := w.crashes(t, all, at, time.Minute+time.Duration(n)*271*time.Millisecond)
			if took := again.Sub(gone); took > lease.DefaultTTL+2*sweepEvery+time.Second {
				t.Errorf("round %d: run again %s after its server vanished", n, took)
			}
		}
		for _, h := range all {
			h.cancel()
			h.Hurry()
		}
		for _, h := range all {
			<-h.done
		}
	})
}

// long is a target that may run more than once at a time: of a server that is cut off, and of another one.
func (w *world) long(d time.Duration) run.Target {
	return run.Func(func(ctx context.Context, _ run.Call) error {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return nil
	})
}

// Servers that cannot do the same do not sweep for each other: one that is not to run a job, or has another
// definition of it, keeps nobody else from taking over.
func TestWhoCannotTakeOverKeepsNobodyFromIt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*scheduler.Job){
		"dormant": func(j *scheduler.Job) { j.Dormant = true },
		"with another definition": func(j *scheduler.Job) {
			j.Spec.Policy.StopGrace = time.Second // the two that come after it change it back
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				made := func() *scheduler.Job {
					return newJob(t, "*/10 * * * *", w.long(5*time.Minute), func(p *job.Policy) { p.OnCrash, p.Concurrency = job.CrashRerun, job.Allow })
				}
				odd := made()
				change(odd)
				first := w.host(9, 0)
				first.start(t, odd)
				all := []*host{first}
				for seed := range uint64(2) {
					h := w.host(seed+1, 0)
					h.start(t, made())
					all = append(all, h)
				}
				at := time.Now().Truncate(10 * time.Minute)
				for n := range 4 {
					at = at.Add(10 * time.Minute)
					if gone, again := w.crashes(t, all, at, time.Minute+time.Duration(n)*777*time.Millisecond); again.Sub(gone) > lease.DefaultTTL+2*sweepEvery+time.Second {
						t.Errorf("run again %s after its server vanished", again.Sub(gone))
					}
				}
				for _, h := range all {
					h.cancel()
					h.Hurry()
				}
				for _, h := range all {
					<-h.done
				}
			})
		})
	}
}

// A turn to sweep costs one request, and so does the look at whose it is. Another server goes on when one stops.
// Holds: T15.
func TestATurnCostsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m, n := newWorld(t), new(meter), new(meter)
		first, second := w.metered(1, m), w.metered(2, n)
		daily := func() *scheduler.Job { return newJob(t, "0 3 * * *", w.target(0), nil) }
		first.start(t, daily())
		time.Sleep(1100 * time.Millisecond)
		second.start(t, daily())
		time.Sleep(time.Minute) // they begin
		m.take()
		n.take()
		sweeps := 0
		for range 4 {
			time.Sleep(time.Minute)
			for _, m := range []*meter{m, n} {
				calls, _, _ := m.take()
				if calls["acquire"]+calls["read"] > 21 || calls["release"] > 0 {
					t.Errorf("calls within a minute: %v", calls)
				}
				sweeps += calls["owed"]
			}
		}
		if sweeps < 76 || sweeps > 82 {
			t.Errorf("%d sweeps in 4 minutes", sweeps)
		}
		first.stop()
		n.take()
		time.Sleep(time.Minute)
		if calls, _, _ := n.take(); calls["owed"] < 19 {
			t.Errorf("calls of the one that is left: %v", calls)
		}
		second.stop()
	})
}

// The death of a server that sweeps delays nothing that another server left.
// Holds: T15.
func TestTwoDeathsAreMissedLikeOne(t *testing.T) {
	for _, later := range []time.Duration{0, 5 * time.Second, 13 * time.Second} {
		t.Run(later.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				policy := func(p *job.Policy) { p.OnCrash, p.Concurrency = job.CrashRerun, job.Allow }
				both := []*host{w.host(1, 0), w.host(2, 0)}
				for _, h := range both {
					h.start(t, newJob(t, "*/10 * * * *", w.long(time.Minute), policy))
					time.Sleep(1100 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				ref, at := w.otherLease(t, lease.DefaultTTL), time.Now().UTC().Truncate(10*time.Minute)
				ticks, r := w.b.Store().Ticks, run.Record{ID: run.NewID(), Job: "app/j", Tick: at, Owner: ref.Owner, Token: ref.Token}
				if _, err := ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "app/j", At: at, Lease: ref, Fill: true}}); err != nil {
					t.Fatal(err)
				}
				if _, err := ticks.Start(t.Context(), []tick.StartRequest{{Run: r, Claim: ref, Lease: ref}}); err != nil {
					t.Fatal(err)
				}
				gone := time.Now()
				time.Sleep(later)
				both[0].cut(true)
				for time.Since(gone) < 2*time.Minute && w.row(at).Reruns == 0 {
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(gone); took > lease.DefaultTTL+2*sweepEvery {
					t.Errorf("run again after %s", took)
				}
				both[0].cut(false)
				for _, h := range both {
					h.cancel()
					h.Hurry()
				}
				for _, h := range both {
					<-h.done
				}
			})
		})
	}
}

// A server that sweeps learns that the store holds grants back, though its own leases live on: a tick that was claimed
// and not started is not too late for want of that time.
// Holds: L9, T4.
func TestASweepKnowsOfAHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) { p.StartingDeadline = 5 * time.Second }
		h := w.host(1, 0)
		h.start(t, newJob(t, "*/10 * * * *", w.target(time.Second), policy))
		at := time.Now().UTC().Truncate(10 * time.Minute).Add(10 * time.Minute)
		time.Sleep(time.Until(at.Add(-500 * time.Millisecond)))
		ref := w.otherLease(t, lease.DefaultTTL)
		known, err := w.b.Store().Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/j"}})
		if err != nil {
			t.Fatal(err)
		}
		claim := tick.ClaimRequest{Job: "app/j", At: at, Lease: ref, Ahead: 2 * time.Second, Generation: known[0].Generation}
		if a, err := w.b.Store().Ticks.Claim(t.Context(), []tick.ClaimRequest{claim}); err != nil || a[0].Status != tick.Won {
			t.Fatal(a, err)
		}
		time.Sleep(time.Second)
		newer := lease.Epoch(time.Now().Add(time.Hour).UnixMicro()) // as after a failover
		r, err := w.b.Store().Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: lease.OnceKey(),
			Holder: lease.Holder{ID: lease.NewNonce()}, TTL: lease.DefaultTTL, Seen: newer}})
		if err != nil || r.Answers[0].Status != lease.HeldBack {
			t.Fatalf("%+v, %v", r, err)
		}
		time.Sleep(2 * time.Minute)
		if row := w.row(at); row.Outcome != run.Succeeded {
			t.Errorf("%s %q", row.Outcome, row.Reason)
		}
		h.stop()
	})
}
