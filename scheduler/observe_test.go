package scheduler_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// counted are the ends that a fleet's observers are told of, by outcome.
type counted struct {
	mu     sync.Mutex
	ends   map[run.Outcome]int
	starts int
	bad    []observe.Event
}

func (c *counted) observe(e observe.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.On {
	case observe.Started:
		c.starts++
	case observe.Ended, observe.Skipped:
		c.ends[run.Outcome(e.Outcome)] += e.N()
	}
	ran := run.Outcome(e.Outcome).Ran() || e.On == observe.Started
	if e.Of != observe.Cron || e.Name != "app/j" || e.Tick.IsZero() || ran != (e.ID != "") || (e.On == observe.Skipped) == ran ||
		e.Wait < 0 || e.On == observe.Ended && e.Outcome == string(run.Succeeded) && e.Took <= 0 {
		c.bad = append(c.bad, e)
	}
}

// Whatever is cut off and when, the observers of a fleet together count each end of a tick once, and nothing else:
// runs, skips, misses, pauses, and what nobody could claim.
// Holds: promise 24.
func TestObserversCountEachEndOnce(t *testing.T) {
	t.Parallel()
	for seed := range testsize.Seeds(20) {
		synctest.Test(t, func(t *testing.T) {
			w, c := newWorld(t), &counted{ends: map[run.Outcome]int{}}
			rng := rand.New(rand.NewPCG(seed, 11))
			var hosts []*host
			for i := range uint64(3) {
				h := w.host(i+1, 0)
				h.backend.Observe = c.observe
				hosts = append(hosts, h)
				h.start(t, newJob(t, "@every 10s", w.target(time.Duration(1+rng.Int64N(int64(12*time.Second)))), nil))
			}
			for range 40 {
				time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Second))))
				switch rng.IntN(8) {
				case 0:
					_, _ = hosts[0].backend.Pause(t.Context(), tick.PauseRequest{Job: "app/j", By: "ann", Why: "a test", Resume: rng.IntN(2) == 0})
				default:
					hosts[rng.IntN(3)].cut(rng.IntN(2) == 0)
				}
			}
			for _, h := range hosts {
				h.cut(false)
			}
			hosts[0].pause(t, tick.PauseRequest{By: "ann", Resume: true})
			time.Sleep(5 * time.Minute)
			for _, h := range hosts {
				h.stop()
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			want, surplus, wrong := w.outcomes(), 0, len(c.bad) > 0
			for o, n := range c.ends { // the late report of a run that was taken for crashed amends history only
				surplus, wrong = surplus+n, wrong || o != run.Crashed && n > want[o]
			}
			for o, n := range want {
				if o != "" { // else it was under way at the end
					surplus -= n
				}
			}
			if surplus != 0 || wrong {
				t.Errorf("seed %d: counted %v, and history has %v; not as they should be: %+v", seed, c.ends, want, c.bad)
			}
		})
	}
}

// A start tells how long after its instant the tick began, an end how long the run took. One that is concluded of a
// dead process has no duration.
func TestObserversAreToldHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var all []observe.Event
		h := w.host(1, 0)
		h.backend.Observe = func(e observe.Event) { mu.Lock(); all = append(all, e); mu.Unlock() }
		h.start(t, newJob(t, "* * * * *", run.Func(func(context.Context, run.Call) error {
			time.Sleep(7 * time.Second)
			return errors.New("no luck")
		}), func(p *job.Policy) { p.Jitter = 0 }))
		time.Sleep(90 * time.Second)
		h.stop()
		mu.Lock()
		defer mu.Unlock()
		if len(all) != 2 || all[0].On != observe.Started || all[0].Wait > time.Second || all[1].Outcome != "failed" ||
			all[1].Took.Round(time.Second) != 7*time.Second || all[1].ID != all[0].ID || all[1].Reason == "" {
			t.Errorf("%+v", all)
		}
	})
}

// lateAnswers is a store whose answers to ends take a while.
type lateAnswers struct{ tick.Store }

func (s lateAnswers) Close(ctx context.Context, r []tick.CloseRequest) ([]tick.Answer, error) {
	a, err := s.Store.Close(ctx, r)
	time.Sleep(100 * time.Millisecond)
	return a, err
}

// Runs of a fleet without a fault lose no lease, whenever they end and their leases are renewed, and each tick that is
// caught up on says so.
func TestObserversOfAHealthyFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, rng := newWorld(t), rand.New(rand.NewPCG(1, 1))
		var mu sync.Mutex
		lost, again, first := 0, 0, 0
		h := w.host(1, 0)
		watch := func(e observe.Event) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case e.On == observe.Lost:
				lost++
			case e.On == observe.Started && e.Of == observe.Cron && e.Again:
				again++
			case e.On == observe.Started && e.Of == observe.Cron:
				first++
			}
		}
		k, err := lease.NewKeeper(lease.Options{Store: h.link, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}, Observe: watch})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		h.backend.Keeper, h.backend.Book, h.backend.Observe = k, tick.NewBook(lateAnswers{h.ticks}, k, h.backend.Self), watch
		h.start(t, newJob(t, "@every 10s", run.Func(func(context.Context, run.Call) error {
			time.Sleep(time.Duration(rng.Int64N(int64(9 * time.Second))))
			return nil
		}), func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpAll, time.Hour }))
		time.Sleep(3 * time.Hour)
		mu.Lock()
		if lost > 0 || first < 1000 || again > 0 {
			t.Errorf("%d leases were lost in %d runs; %d ran again", lost, first, again)
		}
		mu.Unlock()
		h.cut(true)
		time.Sleep(40 * time.Second)
		h.cut(false)
		time.Sleep(2 * time.Minute)
		h.stop()
		mu.Lock()
		defer mu.Unlock()
		if again < 2 {
			t.Errorf("%d ticks were caught up on", again)
		}
	})
}

// What the store left out of a settling, since a tick before it was not finished, is told when it is settled.
func TestObserversOfTicksAboveOneThatIsNotFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c := newWorld(t), &counted{ends: map[run.Outcome]int{}}
		start := func(seed uint64) *host {
			h := w.host(seed, 0)
			h.backend.Observe = c.observe
			h.start(t, newJob(t, "* * * * *", w.target(time.Second), nil))
			return h
		}
		h := start(1)
		time.Sleep(90 * time.Second)
		h.stop()
		at := time.Now().Truncate(time.Minute).Add(4 * time.Minute).UTC() // of eight that are missed
		time.Sleep(8*time.Minute + 50*time.Second)
		other := w.host(3, 0)
		l, err := other.backend.Book.Server(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.b.Store().Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "app/j", At: at, Lease: l.Ref(), Fill: true}}); err != nil {
			t.Fatal(err)
		}
		h = start(2)
		time.Sleep(3 * time.Minute)
		if n := w.outcomes()[run.Missed]; n == 0 || n > 4 || c.ends[run.Missed] != n {
			t.Errorf("below the one that is claimed %d are missed, and %d were told", n, c.ends[run.Missed])
		}
		other.cut(true)
		time.Sleep(10 * time.Minute)
		h.stop()
		if want := w.outcomes(); want[run.Missed] < 8 || c.ends[run.Missed] != want[run.Missed] {
			t.Errorf("told %v, and history has %v", c.ends, want)
		}
	})
}
