package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// startedElsewhere leaves a tick of the job that a server has started, which is gone in 15 s.
func (w *world) startedElsewhere(t *testing.T, at time.Time) {
	t.Helper()
	ref := w.otherLease(t, 15*time.Second)
	r := run.Record{ID: run.NewID(), Job: "app/j", Tick: at, Owner: ref.Owner, Token: ref.Token}
	if _, err := w.b.Store().Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "app/j", At: at, Lease: ref, Fill: true}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.b.Store().Ticks.Start(t.Context(), []tick.StartRequest{{Run: r, Claim: ref, Lease: ref}}); err != nil {
		t.Fatal(err)
	}
}

// A server whose leases are renewed and whose sweeps fail leaves the turn to others.
func TestASickServerDoesNotKeepTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) { p.OnCrash, p.Concurrency = job.CrashRerun, job.Allow }
		sick, well := w.host(1, 0), w.host(2, 0)
		mine := func() *scheduler.Job { return newJob(t, "*/10 * * * *", w.long(5*time.Minute), policy) }
		sick.start(t, mine())
		time.Sleep(1100 * time.Millisecond)
		well.start(t, mine())
		time.Sleep(time.Minute)
		sick.ticks.connect(false) // as of a missing privilege, or an index that another version knows
		w.startedElsewhere(t, time.Now().UTC().Truncate(10*time.Minute))
		time.Sleep(5 * time.Minute)
		rows := w.history()
		if rows[0].Reruns != 1 {
			t.Errorf("5 minutes after its server died nobody has taken the run over, though one server is well: %+v", rows[0])
		}
		sick.ticks.connect(true)
		for _, h := range []*host{sick, well} {
			h.cancel()
			h.Hurry()
		}
		<-sick.done
		<-well.done
	})
}

// A server whose sweeps succeed again takes each turn again.
// Holds: T15.
func TestAServerThatWasSickSweepsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, m := newWorld(t), new(meter)
		sick, other := w.metered(1, m), w.host(2, 0)
		sick.start(t, newJob(t, "0 3 * * *", w.target(0), nil))
		another := newJob(t, "0 4 * * *", w.target(0), nil) // so that its sweeps are others
		another.Spec.Name = "another"
		other.start(t, another)
		time.Sleep(time.Minute)
		sick.ticks.connect(false)
		time.Sleep(time.Minute)
		sick.ticks.connect(true)
		time.Sleep(time.Minute)
		m.take()
		time.Sleep(4 * time.Minute)
		if calls, _, _ := m.take(); calls["owed"] < 76 {
			t.Errorf("calls within four minutes, some time after its sweeps failed: %v", calls)
		}
		sick.stop()
		other.stop()
	})
}

// chokes is a store that answers the outcome of one job with an error.
type chokes struct {
	tick.Store
	job string
}

func (s chokes) Close(ctx context.Context, r []tick.CloseRequest) ([]tick.Answer, error) {
	if slices.ContainsFunc(r, func(q tick.CloseRequest) bool { return q.Run.Job == s.job }) {
		return nil, errors.New("a value that the store does not take")
	}
	return s.Store.Close(ctx, r)
}

// One orphan whose outcome the store does not take keeps no tick of another job from being settled.
func TestOneOrphanDoesNotKeepOthersFromBeingSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.backend.Book = tick.NewBook(chokes{h.ticks, "app/bad"}, h.backend.Keeper, h.backend.Self)
		w.leave(t, "app/x", "app/bad") // the second is started
		j := newJob(t, "* * * * *", w.target(0), nil)
		h.start(t, j)
		time.Sleep(3 * time.Minute)
		h.stop()
		h = w.host(2, 0)
		h.backend.Book = tick.NewBook(chokes{h.ticks, "app/bad"}, h.backend.Keeper, h.backend.Self)
		time.Sleep(10 * time.Minute) // missed
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(10 * time.Minute)
		if n := w.outcomes()[run.Missed]; n < 9 {
			t.Errorf("%d ticks are settled as missed, of 10", n)
		}
		jobs, _ := w.b.Store().Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/j"}})
		t.Logf("the mark is %s behind", time.Since(jobs[0].Mark))
		h.stop()
	})
}

// slowPrune takes its time.
type slowPrune struct {
	history.Store
	d time.Duration
}

func (s slowPrune) Prune(ctx context.Context, before time.Time) (int, bool, error) {
	select {
	case <-time.After(s.d):
	case <-ctx.Done():
	}
	return 0, false, ctx.Err()
}

// Servers that were started together may all prune for long: they sweep meanwhile.
func TestSweepsGoOnDuringAPrune(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var all []*host
		for seed := range uint64(3) {
			h := w.host(seed+1, 0)
			h.backend.History = slowPrune{h.backend.History, 55 * time.Second}
			h.start(t, newJob(t, "*/10 * * * *", w.long(5*time.Minute), func(p *job.Policy) {
				p.OnCrash, p.Concurrency = job.CrashRerun, job.Allow
			}))
			all = append(all, h)
			time.Sleep(1100 * time.Millisecond)
		}
		// They began at 00:00:01.5, 02.6 and 03.7: they prune at 01:00:0x.
		at := time.Now().Truncate(time.Hour).Add(time.Hour)
		gone, again := w.crashes(t, all, at, 5*time.Second)
		if took := again.Sub(gone); took > lease.DefaultTTL+2*sweepEvery+time.Second {
			t.Errorf("run again %s after its server vanished", took)
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

// remoteTicks and remoteHistory are a store at the end of a long way.
type remoteTicks struct {
	tick.Store
	d time.Duration
}

func (s remoteTicks) Settle(ctx context.Context, r tick.SettleRequest) (tick.Answer, error) {
	time.Sleep(s.d)
	return s.Store.Settle(ctx, r)
}

type remoteHistory struct {
	history.Store
	d time.Duration
}

func (s remoteHistory) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	time.Sleep(s.d)
	return s.Store.Ticks(ctx, q)
}

// What is to be run again does not wait behind the marks of hundreds of other jobs.
func TestALostRunIsNotBehindTheMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var jobs []*scheduler.Job
		for i := range 300 {
			j := newJob(t, "* * * * *", w.long(0), nil)
			j.Spec.Name = fmt.Sprint("m", i)
			jobs = append(jobs, j)
		}
		policy := func(p *job.Policy) { p.OnCrash = job.CrashRerun }
		a := w.host(1, 0)
		a.start(t, append(slices.Clone(jobs), newJob(t, "*/10 * * * *", w.target(time.Hour), policy))...)
		b := w.host(2, 0)
		b.backend.Ticks, b.backend.History = remoteTicks{b.backend.Ticks, 300 * time.Millisecond}, remoteHistory{b.backend.History, 300 * time.Millisecond}
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Minute).Add(11 * time.Minute)))
		b.start(t, append(slices.Clone(jobs), newJob(t, "*/10 * * * *", w.target(time.Second), policy))...)
		time.Sleep(3*time.Minute + 44*time.Second) // the marks of the last minute are due
		a.cancel()
		a.Hurry()
		<-a.done
		gone := time.Now()
		for time.Since(gone) < 20*time.Minute {
			time.Sleep(time.Second)
			if rows := w.history(); rows[0].Reruns == 1 {
				break
			}
		}
		t.Logf("%s, %s", time.Since(gone), &b.Stats)
		if took := time.Since(gone); took > 30*time.Second {
			t.Errorf("a run that was canceled by a shutdown is run again after %s", took)
		}
		b.cancel()
		b.Hurry()
		<-b.done
	})
}

// A turn that a server took by a clock that was fast, and died with, keeps nobody from sweeping.
func TestATurnOfAFastClockIsNoObstacle(t *testing.T) {
	for i := range 4 {
		watched, known := i&1 != 0, []time.Duration{lease.StepQuiet / 2, 2 * lease.StepQuiet}[i/2] // for how long
		t.Run(fmt.Sprintf("watched %t, clock known for %s", watched, known), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var step atomic.Int64
				w.b = memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(step.Load())) }})
				mine := newJob(t, "* * * * *", w.target(0), nil)
				first := w.host(1, 0)
				first.start(t, mine)
				time.Sleep(known)
				if !watched {
					first.stop()
				}
				r, err := w.b.Store().Leases.List(t.Context(), "", true)
				if err != nil {
					t.Fatal(err)
				}
				step.Store(int64(2 * time.Hour))
				for _, a := range r.Answers {
					if strings.HasSuffix(string(a.Record.Key), "sweep") {
						a, err := w.b.Store().Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: a.Record.Key, TTL: lease.DefaultTTL, Holder: lease.Holder{ID: lease.NewNonce()}}})
						if err != nil || a.Answers[0].Status != lease.OK {
							t.Fatal(a, err)
						}
					}
				}
				step.Store(0)
				var second *host
				if !watched {
					second = w.host(2, 0)
					second.start(t, mine)
				}
				time.Sleep(15 * time.Minute)
				r, _ = w.b.Store().Leases.List(t.Context(), "", true)
				for _, a := range r.Answers {
					if strings.HasSuffix(string(a.Record.Key), "sweep") && time.Since(a.Record.Renewed).Abs() > 5*time.Minute {
						t.Errorf("the last sweep was %s ago", time.Since(a.Record.Renewed))
					}
				}
				if watched {
					first.stop()
				} else {
					second.stop()
				}
			})
		})
	}
}

// What refuses a run once it has the lease frees the lease.
func TestARunThatIsNotDueFreesItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		notDue := errors.New("not due")
		f := scheduler.Fire{Key: "k", Target: w.target(0), Policy: job.DefaultPolicy(true), Due: func(context.Context) error { return notDue }}
		for range 2 {
			if res := h.backend.Fire(t.Context(), f); !errors.Is(res.Err, notDue) {
				t.Errorf("%+v", res)
			}
		}
		if now, r, err := h.backend.Keeper.Read(t.Context(), "k"); err != nil || r.Live(now) {
			t.Errorf("held by %+v, %v", r, err)
		}
	})
}

// fasterElsewhere is a store whose first takeover another server wins, which is gone again at once.
type fasterElsewhere struct {
	tick.Store
	was *atomic.Bool
}

func (s fasterElsewhere) Take(ctx context.Context, r tick.TakeRequest) (tick.Answer, error) {
	if s.was.CompareAndSwap(false, true) {
		return tick.Answer{Status: tick.Taken}, nil
	}
	return s.Store.Take(ctx, r)
}

// A takeover that another server won leaves the tick to this one, should that die as well.
func TestATakeoverThatWasLostIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		var was atomic.Bool
		h.ticks.Store = fasterElsewhere{h.ticks.Store, &was}
		h.start(t, newJob(t, "*/10 * * * *", w.long(time.Second), func(p *job.Policy) { p.OnCrash = job.CrashRerun }))
		time.Sleep(time.Minute)
		w.startedElsewhere(t, time.Now().UTC().Truncate(10*time.Minute))
		time.Sleep(2 * time.Minute)
		if rows := w.history(); !was.Load() || rows[0].Reruns != 1 {
			t.Errorf("a takeover was lost: %v; %+v", was.Load(), rows)
		}
		h.stop()
	})
}
