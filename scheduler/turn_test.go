package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// With N servers a tick costs one claim, not N, the load is spread, and a server that died costs no
// tick, only a little time.
func TestATickCostsOneClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var all []*host
		for seed := range uint64(5) {
			h := w.host(seed+1, 0)
			h.start(t, newJob(t, "* * * * *", w.target(time.Second), nil))
			all = append(all, h)
		}
		claims := func() (per []int, sum int) {
			for _, h := range all {
				per, sum = append(per, h.ticks.asked()), sum+h.ticks.asked()
			}
			return per, sum
		}
		time.Sleep(time.Minute)
		_, before := claims()
		ran := len(w.ran())
		time.Sleep(200 * time.Minute)
		per, after := claims()
		if n := len(w.ran()) - ran; n < 199 || after-before > n+n/20 {
			t.Errorf("%d claims for %d ticks", after-before, n)
		}
		for i, n := range per {
			if n < 20 || n > 65 {
				t.Errorf("server %d claimed %d of 200 ticks: %v", i, n, per)
			}
		}
		all[0].cut(true) // it is gone for the others, and has not stopped
		time.Sleep(30 * time.Minute)
		for _, r := range w.history() {
			if late := r.Started.Sub(r.At); r.Outcome == run.Succeeded && late > 2*time.Second {
				t.Errorf("tick %s was started %s late, by %s", r.At, late, r.Claimant)
			}
			if r.Outcome != run.Succeeded {
				t.Errorf("%+v", r)
			}
		}
		all[0].cut(false)
		for _, h := range all {
			h.stop()
		}
	})
}

// A reload with another definition does not cost the tick that waits for this server's turn.
func TestAReloadWaitsForTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.host(1, 0), w.host(2, 0)
		a.start(t, newJob(t, "* * * * *", w.target(0), nil))
		b.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(5 * time.Minute)
		for n := range 10 {
			at := time.Now().Truncate(time.Minute).Add(2 * time.Minute)
			time.Sleep(time.Until(at.Add(-3 * time.Second)))
			a.cut(true) // its lease lives on for a while: for its share of the ticks b waits a little
			time.Sleep(time.Until(at.Add(20 * time.Millisecond)))
			policy := func(p *job.Policy) { p.StopGrace = time.Duration(n+1) * time.Second }
			if err := b.Load(t.Context(), []*scheduler.Job{newJob(t, "* * * * *", w.target(0), policy)}); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Second)
			a.cut(false)
		}
		b.stop()
		a.cut(false)
		a.stop()
		if n := w.outcomes(); n[run.Missed] != 0 {
			t.Errorf("outcomes %v: reloads cost ticks", n)
		}
	})
}

// A definition that changes while a tick is unfinished leaves no tick above it without an outcome.
// Holds: T11.
func TestAChangeDuringARunForgetsNoTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		allow := func(p *job.Policy) { p.Concurrency = job.Allow }
		h, admin := w.host(1, 0), w.host(3, 0)
		long := run.Func(func(ctx context.Context, c run.Call) error {
			w.mu.Lock()
			w.runs[c.Run.Tick]++
			first := len(w.runs) == 1
			w.mu.Unlock()
			if first {
				time.Sleep(20 * time.Minute)
			}
			return nil
		})
		h.start(t, newJob(t, "* * * * *", long, allow))
		time.Sleep(3 * time.Minute)
		admin.pause(t, tick.PauseRequest{By: "ann", Why: "a deploy"})
		time.Sleep(4 * time.Minute)
		admin.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		changed := newJob(t, "*/2 * * * *", long, allow)
		if err := h.Load(t.Context(), []*scheduler.Job{changed}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		h.stop()
		if n := w.outcomes(); n[run.Paused] != 4 || n[run.Missed] != 0 {
			t.Errorf("outcomes %v; want 4 paused, none missed", n)
		}
	})
}
