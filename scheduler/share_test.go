package scheduler_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// laborious is a store that needs a while for each claim, and counts those that it is asked for.
type laborious struct {
	tick.Store
	each  time.Duration
	asked *atomic.Int64
}

func (l laborious) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	l.asked.Add(int64(len(reqs)))
	time.Sleep(time.Duration(len(reqs)) * l.each)
	return l.Store.Claim(ctx, reqs)
}

// Fault: where more ticks were due at one second than a server claims in the pause that it leaves to those
// before it, all of the servers claimed all of the ticks.
func TestABurstCostsOneClaimPerTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 900
		w, asked := newWorld(t), new(atomic.Int64)
		var all []*host
		for seed := range uint64(3) {
			h := w.host(seed+1, 0)
			h.ticks.Store = laborious{Store: h.ticks.Store, each: 5 * time.Millisecond, asked: asked}
			var jobs []*scheduler.Job
			for i := range n {
				j := newJob(t, "0 * * * *", w.target(0), nil)
				j.Spec.Name = fmt.Sprintf("j%d", i)
				jobs = append(jobs, j)
			}
			h.start(t, jobs...)
			all = append(all, h)
		}
		time.Sleep(50 * time.Minute) // they know each other
		asked.Store(0)
		time.Sleep(15 * time.Minute)
		for _, h := range all {
			h.stop()
		}
		if got := asked.Load(); got < n || got > n+n/10 {
			t.Errorf("%d claims for %d ticks", got, n)
		}
		for _, r := range w.history() {
			if r.Outcome != run.Succeeded || r.Reruns > 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}
