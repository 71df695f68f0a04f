package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// A tick that has lost the waiting slot does not run when the holder ends: the slot is another's.
// Holds: T7.
func TestALostSlotIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.host(1, 0), minute()
		h.start(t, newJob(t, "* * * * *", w.target(100*time.Second), func(p *job.Policy) { p.Concurrency = job.Wait }))
		waits := at.Add(time.Minute)
		sleepUntil(waits.Add(5 * time.Second))
		k := h.backend.Keeper
		_, backend, err := k.Read(t.Context(), lease.Key("app/j").Next())
		if err != nil || !backend.Live(time.Now()) {
			t.Fatalf("nobody waits: %+v, %v", backend, err)
		}
		if _, _, ok, err := k.Break(t.Context(), backend.Ref(), lease.Broken{By: "test", Why: "a test", Now: true}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		other, err := k.Acquire(t.Context(), lease.Want{Key: lease.Key("app/j").Next()})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Drop()
		sleepUntil(at.Add(115 * time.Second)) // the first has ended
		if row := w.row(waits); w.times(waits) != 0 || row.Outcome != run.Skipped || row.Reason != run.ReasonQueueFull {
			t.Errorf("%+v", row)
		}
		h.stop()
		time.Sleep(5 * time.Minute)
	})
}

// A tick that is due when the lease has just become free does not overtake the one that waits for it.
// Holds: T7.
func TestWhoWaitsIsNotOvertaken(t *testing.T) {
	for before := time.Duration(0); before < 500*time.Millisecond; before += 20 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			h, at := w.host(1, 0), minute()
			other, err := w.host(2, 0).backend.Keeper.Acquire(t.Context(), lease.Want{Key: "app/j"})
			if err != nil {
				t.Fatal(err)
			}
			h.start(t, newJob(t, "* * * * *", w.target(100*time.Second), func(p *job.Policy) { p.Concurrency = job.Wait }))
			sleepUntil(at.Add(time.Minute - before))
			_ = other.Release(context.Background())
			sleepUntil(at.Add(time.Minute + 5*time.Second))
			if w.times(at) != 1 || w.times(at.Add(time.Minute)) != 0 {
				t.Errorf("released %s before a tick: it was started, and the one that waited %d times", before, w.times(at))
			}
			h.stop()
			time.Sleep(5 * time.Minute)
		})
	}
}
