package mirror_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// A tick that waited for long, and then came to nothing, is copied when it ends: no run of it says that there is news.
func TestATickThatWaitedAndRanNothingIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(memory.Options{})
		h := newHost(t, "a", shared)
		l, err := h.backend.Keeper.Acquire(t.Context(), lease.Want{Key: lease.OnceKey()})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC().Truncate(time.Second)
		def := tick.JobRequest{Name: "app/j", Definition: "{}", Since: at.Add(-time.Hour)}
		if _, err := h.backend.Ticks.SetJobs(t.Context(), []tick.JobRequest{def}); err != nil {
			t.Fatal(err)
		}
		claim := tick.ClaimRequest{Job: "app/j", At: at, Lease: l.Ref()}
		if a, err := h.backend.Ticks.Claim(t.Context(), []tick.ClaimRequest{claim}); err != nil || a[0].Status != tick.Won {
			t.Fatal(a, err)
		}
		for range 2 { // it waits for another run, say
			h.pass()
			time.Sleep(time.Hour)
		}
		end := tick.CloseRequest{Run: run.Record{Job: "app/j", Tick: at, Outcome: run.Skipped, Reason: run.ReasonOverlap}, Claim: l.Ref()}
		if a, err := h.backend.Ticks.Close(t.Context(), []tick.CloseRequest{end}); err != nil || a[0].Status != tick.Won {
			t.Fatal(a, err)
		}
		h.pass()
		got := told(t, h.shared, mirror.On("app/j", h.backend.Self.HostID[:16])).Ticks
		if len(got) != 1 || !got[0].At.Equal(at) || got[0].Outcome != run.Skipped {
			t.Errorf("the shared store tells %+v", got)
		}
		_ = l.Release(t.Context())
	})
}
