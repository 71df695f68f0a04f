package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
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

// A server that vanishes is missed no longer than a TTL and two sweeps, whenever it does, and whether or not it
// was the one that swept.
// Holds: T15.
func TestSweepsAreTakenOver(t *testing.T) {
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
