package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
)

// checkClock records when this host's clock goes off the store's, and when it is right again.
func (w *sweeper) checkClock(ctx context.Context) {
	offset, ok := fleet.Offset(w.b.Keeper, w.b.TimeOfDay)
	off := offset.Abs() > fleet.ClockBound
	switch {
	case !ok:
	case off && (offset-w.clockOff).Abs() > fleet.ClockBound:
		w.clockOff = offset
		w.recorder.event(ctx, history.Event{Kind: "clock-offset", Reason: "this host's clock is " + offsetWords(offset) + " the store's; ticks and leases follow the store's"})
	case !off && w.clockOff != 0:
		w.clockOff = 0
		w.recorder.event(ctx, history.Event{Kind: "clock-offset", Reason: "this host's clock agrees with the store's again"})
	}
}

// offsetWords is an offset of a host's clock in words.
func offsetWords(d time.Duration) string {
	where := "ahead of"
	if d < 0 {
		where = "behind"
	}
	return fmt.Sprintf("%s %s", d.Abs().Round(100*time.Millisecond), where)
}

// clockStepped records that this process saw the store's clock step (rule L12).
func (r *recorder) clockStepped(step time.Duration) {
	where := "forward"
	if step < 0 {
		where = "back"
	}
	r.event(context.Background(), history.Event{Kind: "clock-step",
		Reason: fmt.Sprintf("the store's clock stepped %s by %s; schedules follow the old line for a minute", where, step.Abs().Round(100*time.Millisecond))})
}
