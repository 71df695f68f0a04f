package scheduler

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
)

// recordHeldBack records that this process waits for a store that is new or was restarted (rule L9).
func (r *recorder) recordHeldBack(wait time.Duration) {
	r.record(context.Background(), history.Event{Kind: "held-back", // whoever hears of it logs it
		Reason: "the store is new, or not the same as before: it grants nothing until " + stamp(r.b.now().Add(wait).Truncate(time.Second))})
}

// heldBack reports that this process waits for such a store, once for each time: all that wait hear of it.
func (r *recorder) heldBack(wait time.Duration) {
	if r.b.OnHeldBack != nil {
		r.b.OnHeldBack(wait)
		return
	}
	end := r.b.Keeper.Boot() + wait
	if before := r.heldBackUntil.Swap(int64(end)); before != 0 && end-time.Duration(before) < time.Second {
		return
	}
	r.b.log().Warn(lease.HoldBackText(wait), "event", "held-back", "wait", wait.Round(time.Millisecond), "store", r.b.Name)
	r.recordHeldBack(wait)
}
