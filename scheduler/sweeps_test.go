package scheduler_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
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

// sweeps returns the host of the server whose turn it is; "" if it is nobody's.
func (w *world) sweeps(t *testing.T) string {
	t.Helper()
	r, err := w.b.Store().Leases.List(t.Context(), "app@", false)
	if err != nil || len(r.Answers) > 1 {
		t.Fatal(r, err)
	}
	if len(r.Answers) == 0 {
		return ""
	}
	return r.Answers[0].Record.Holder.Host
}

// The server that sweeps keeps the turn, and asks for it no more. When it stops, another one has it with its next
// sweep.
// Holds: T15.
func TestTheTurnIsKeptUntilTheServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newWorld(t), new(meter)
		first, second := w.metered(1, m), w.host(2, 0)
		daily := func() *scheduler.Job { return newJob(t, "0 3 * * *", w.target(0), nil) }
		first.start(t, daily())
		time.Sleep(1100 * time.Millisecond)
		second.start(t, daily())
		time.Sleep(time.Minute)
		m.take()
		time.Sleep(time.Minute)
		calls, _, _ := m.take()
		if n := calls["acquire"] + calls["release"] + calls["read"]; n > 0 || calls["owed"] < 19 {
			t.Errorf("calls of a server that sweeps, within a minute: %v", calls)
		}
		if got := w.sweeps(t); got != first.backend.Self.Host {
			t.Errorf("%s sweeps", got)
		}
		first.stop()
		if got := w.sweeps(t); got != "" {
			t.Errorf("%s has the turn after the stop", got)
		}
		time.Sleep(2*sweepEvery + 100*time.Millisecond)
		if got := w.sweeps(t); got != second.backend.Self.Host {
			t.Errorf("%s sweeps after the stop", got)
		}
		second.stop()
	})
}

// unlisted are leases that cannot be listed while blind is set, and can be renewed.
type unlisted struct {
	lease.Store
	blind *atomic.Bool
}

func (u unlisted) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	if u.blind.Load() {
		return lease.Reply{}, errors.New("permission denied")
	}
	return u.Store.List(ctx, prefix, all)
}

// A server that cannot begin a sweep leaves the turn to others, though it can renew its lease.
// Holds: T15.
func TestAServerThatCannotSweepLeavesTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first, second, blind := w.host(1, 0), w.host(2, 0), new(atomic.Bool)
		k, err := lease.NewKeeper(lease.Options{Store: unlisted{first.link, blind}, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		first.backend.Keeper = k
		first.backend.Book = tick.NewBook(first.ticks, k, first.backend.Self)
		first.Server = scheduler.NewServer(first.backend, "app")
		first.start(t, newJob(t, "0 3 * * *", w.target(0), nil))
		time.Sleep(1100 * time.Millisecond)
		second.start(t, newJob(t, "0 3 * * *", w.target(0), nil))
		time.Sleep(time.Minute)
		if got := w.sweeps(t); got != first.backend.Self.Host {
			t.Fatalf("%s sweeps", got)
		}
		blind.Store(true)
		time.Sleep(3*sweepEvery + 100*time.Millisecond)
		if got := w.sweeps(t); got != second.backend.Self.Host {
			t.Errorf("%s sweeps", got)
		}
		blind.Store(false)
		first.stop()
		second.stop()
	})
}
