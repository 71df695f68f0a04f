package scheduler_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
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
	for seed := range uint64(20) {
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
