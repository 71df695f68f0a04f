package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
)

// Rule T5: a condition is asked once per tick, by its winner, and decides.
// Holds: T5.
func TestAConditionIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var asked atomic.Int64
		var all []*host
		for seed := range uint64(3) {
			j := newJob(t, "* * * * *", w.target(0), nil)
			j.When = func(context.Context) (bool, error) { return asked.Add(1)%2 == 0, nil }
			h := w.host(seed+1, 0)
			h.start(t, j)
			all = append(all, h)
		}
		time.Sleep(20 * time.Minute)
		for _, h := range all {
			h.stop()
		}
		n, skipped := w.outcomes(), 0
		for _, r := range w.history() {
			if r.Outcome == run.Skipped && r.Reason == run.ReasonWhen {
				skipped++
			}
		}
		if asked.Load() < 19 || asked.Load() > 20 || skipped != int(asked.Load()+1)/2 || n[run.Succeeded] != int(asked.Load())/2 || len(n) != 2 {
			t.Errorf("asked %d times, %d skipped for it: outcomes %v", asked.Load(), skipped, n)
		}
	})
}

// A job for other environments is run by their servers; the others see to it that every tick has an
// outcome, and leave what can be caught up on.
func TestADormantJobIsLeftToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpAll, time.Hour }
		dormant := newJob(t, "* * * * *", w.target(0), policy)
		dormant.Dormant = true
		a, b := w.host(1, 0), w.host(2, 0)
		a.start(t, dormant)
		time.Sleep(10 * time.Minute)
		if len(w.ran()) != 0 {
			t.Errorf("%d ticks were run where they must not be", len(w.ran()))
		}
		b.start(t, newJob(t, "* * * * *", w.target(0), policy))
		time.Sleep(10 * time.Minute)
		a.stop()
		b.stop()
		if n := w.outcomes(); n[run.Missed] != 0 || len(w.ran()) < 18 {
			t.Errorf("outcomes %v, %d runs; want 20 run, ten of them caught up on", n, len(w.ran()))
		}
	})
}
