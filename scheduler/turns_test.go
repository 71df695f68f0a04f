package scheduler_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// A server that loses the turn of a catch-up begins no more of it: another server goes on with the rest, one at a
// time.
// Holds: T8.
func TestACatchUpEndsWithItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var (
			mu  sync.Mutex
			up  time.Time
			ran []time.Time // of what was missed, in order
			// busy of them are at work; beside counts those that were begun beside another one.
			busy, beside int
		)
		target := run.Func(func(_ context.Context, c run.Call) error {
			mu.Lock()
			missed := c.Run.Tick.Before(up)
			if missed {
				ran = append(ran, c.Run.Tick)
				if busy++; busy > 1 {
					beside++
				}
			}
			mu.Unlock()
			time.Sleep(40 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if missed {
				busy--
			}
			return nil
		})
		policy := func(p *job.Policy) {
			p.Concurrency, p.CatchUp, p.CatchUpWindow = job.Allow, job.CatchUpAll, time.Hour
		}
		first := w.host(1, 0)
		first.start(t, newJob(t, "*/2 * * * *", w.target(0), policy))
		time.Sleep(2 * time.Minute)
		first.stop()
		time.Sleep(41*time.Minute + 10*time.Second)
		up = time.Now().Add(-90 * time.Second)
		hosts := []*host{w.host(2, 0), w.host(3, 0)}
		for _, h := range hosts {
			h.start(t, newJob(t, "*/2 * * * *", target, policy))
		}
		time.Sleep(100 * time.Second) // two of them are over, the third is at work
		keeper := hosts[0].backend.Keeper
		_, turn, err := keeper.Read(t.Context(), lease.Key("app/j").CatchUp())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok, err := keeper.Break(t.Context(), turn.Ref(), lease.Broken{By: "ann", Why: "test"}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		time.Sleep(40 * time.Minute)
		for _, h := range hosts {
			h.stop()
		}
		for i := 1; i < len(ran); i++ {
			if !ran[i].After(ran[i-1]) {
				t.Errorf("%s was begun after %s", ran[i], ran[i-1])
			}
		}
		if beside > 1 { // the one that was at work when the turn went goes on
			t.Errorf("%d were begun beside another one", beside)
		}
		if len(ran) < 19 {
			t.Errorf("%d ticks were run; some 20 were missed", len(ran))
		}
	})
}

// A pause that changes nothing is no event, and one that only says something else is.
func TestAPauseThatChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, log := w.logged(1) // history folds what is repeated
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(time.Second)
		for n, c := range []struct {
			req  tick.PauseRequest
			want int
		}{
			{tick.PauseRequest{By: "ann", Why: "moving"}, 1}, {tick.PauseRequest{By: "ann", Why: "moving"}, 1},
			{tick.PauseRequest{By: "ann", Why: "still moving"}, 2}, {tick.PauseRequest{By: "bob", Why: "still moving"}, 3},
		} {
			time.Sleep(time.Second)
			h.pause(t, c.req)
			synctest.Wait()
			if got := strings.Count(log.String(), "event=job-paused"); got != c.want {
				t.Errorf("after pause %d there are %d events, want %d", n+1, got, c.want)
			}
		}
		h.stop()
	})
}

// Rule T4: a single fire settles no tick whose claim may be on its way, which is for a TTL after its time to start.
// Holds: T4.
func TestASingleFireWaitsForClaimsOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		every10s := func() *scheduler.Job {
			return newJob(t, "*/10 * * * * *", w.target(0), func(p *job.Policy) { p.StartingDeadline = time.Second })
		}
		j, dormant := every10s(), every10s()
		dormant.Dormant = true
		h := w.host(1, 0)
		h.start(t, dormant)
		time.Sleep(time.Second)
		h.stop()
		at := time.Now().UTC().Truncate(10 * time.Second).Add(10 * time.Second)
		for n, state := range []run.Outcome{"", run.Missed} { // of the first tick, at those that follow it
			next := at.Add(time.Duration(n+1) * 10 * time.Second)
			sleepUntil(next.Add(100 * time.Millisecond))
			if _, a, err := h.backend.Trigger(t.Context(), t.Context(), j, next); err != nil || a.Status != tick.Won {
				t.Fatal(a.Status, err)
			}
			if r := w.row(at); r.Outcome != state {
				t.Errorf("%s after it is %q, want %q", next.Sub(at), r.Outcome, state)
			}
		}
	})
}
