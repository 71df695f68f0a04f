package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
)

// clockBound is how far a host's clock may differ from the store's before somebody should look at it. Ticks and
// leases follow the store's clock: a wrong host clock spoils only logs, and the times at which the host's own cron
// fires.
const clockBound = time.Second

// checkClock records when this host's clock goes off the store's, and when it is right again.
func (w *sweeper) checkClock(ctx context.Context) {
	if w.b.TimeOfDay == nil {
		return
	}
	now, within, ok := w.b.Keeper.Estimate()
	if !ok || within > clockBound/2 {
		return
	}
	offset := w.b.TimeOfDay().Sub(now)
	off := offset.Abs() > clockBound
	switch {
	case off && (offset-w.clockOff).Abs() > clockBound:
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
