package mirror_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// countedHistory counts what is asked for.
type countedHistory struct {
	history.Store
	asked *int
}

func (c countedHistory) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	*c.asked++
	return c.Store.Ticks(ctx, q)
}

// A pass asks for no job by itself: with many jobs as often as with few. All that fell due at one instant is copied.
func TestAPassAsksForNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 2_500
		shared, asked := memory.New(memory.Options{}), 0
		h := newHost(t, "one", shared)
		l, err := h.backend.Keeper.Acquire(t.Context(), lease.Want{Key: lease.OnceKey()})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Truncate(time.Second).Add(-5 * time.Minute)
		var defs []tick.JobRequest
		var claims []tick.ClaimRequest
		for i := range jobs {
			name := fmt.Sprintf("app/j%d", i)
			defs = append(defs, tick.JobRequest{Name: name, Definition: "{}", Since: at.Add(-time.Hour)})
			for _, at := range []time.Time{at.Add(-time.Second), at} {
				claims = append(claims, tick.ClaimRequest{Job: name, At: at, Lease: l.Ref(), Outcome: run.Skipped, Reason: run.ReasonOverlap})
			}
		}
		if _, err := h.backend.Ticks.SetJobs(t.Context(), defs); err != nil {
			t.Fatal(err)
		}
		if _, err := h.backend.Ticks.Claim(t.Context(), claims); err != nil {
			t.Fatal(err)
		}
		h.pass()
		for i := range jobs {
			rows, err := shared.Store().History.Ticks(t.Context(), history.Query{Job: mirror.On(fmt.Sprintf("app/j%d", i), h.backend.Self.HostID[:16])})
			if err != nil || len(rows) != 2 {
				t.Fatalf("job %d: %d ticks were copied: %v", i, len(rows), err)
			}
		}
		time.Sleep(time.Minute)
		h.backend.History = countedHistory{h.backend.History, &asked}
		h.pass()
		if asked > 2 {
			t.Errorf("%d times ticks were read of %d jobs without news", asked, jobs)
		}
		_ = l.Release(t.Context())
	})
}
