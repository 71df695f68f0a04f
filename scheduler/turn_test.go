package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/run"
)

// With N servers a tick costs one claim, not N, the load is spread, and a server that died costs no
// tick, only a little time.
func TestATickCostsOneClaim(t *testing.T) {
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
				h.ticks.mu.Lock()
				per, sum = append(per, h.ticks.claims), sum+h.ticks.claims
				h.ticks.mu.Unlock()
			}
			return per, sum
		}
		time.Sleep(time.Minute)
		_, before := claims()
		ran := len(w.runs)
		time.Sleep(200 * time.Minute)
		per, after := claims()
		if n := len(w.runs) - ran; n < 199 || after-before > n+n/20 {
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
