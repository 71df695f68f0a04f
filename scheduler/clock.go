package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
)

// ClockBound is how far a host's clock may be off the store's before somebody should look at it.
// Ticks and leases follow the store's clock: what a wrong one spoils are logs, and the times at
// which a host's own cron fires.
const ClockBound = time.Second

// checkClock records when this host's clock goes off the store's, and when it is right again.
func (s *Server) checkClock(ctx context.Context) {
	if s.place.TimeOfDay == nil {
		return
	}
	now, within, ok := s.place.Keeper.Estimate()
	if !ok || within > ClockBound/2 {
		return
	}
	offset := s.place.TimeOfDay().Sub(now)
	off := offset.Abs() > ClockBound
	switch {
	case off && (offset-s.clockOff).Abs() > ClockBound:
		s.clockOff = offset
		s.place.Event(ctx, history.Event{Kind: "clock-offset", Reason: "this host's clock is " + Offset(offset) + " the store's; ticks and leases follow the store's"})
	case !off && s.clockOff != 0:
		s.clockOff = 0
		s.place.Event(ctx, history.Event{Kind: "clock-offset", Reason: "this host's clock agrees with the store's again"})
	}
}

// Offset is an offset of a host's clock in words.
func Offset(d time.Duration) string {
	where := "ahead of"
	if d < 0 {
		where = "behind"
	}
	return fmt.Sprintf("%s %s", d.Abs().Round(100*time.Millisecond), where)
}
