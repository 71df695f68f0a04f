package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/tick"
)

// ClockBound is how far a host's clock may be off the store's before somebody should look at it.
// Ticks and leases follow the store's clock: what a wrong one spoils are logs, and the times at
// which a host's own cron fires.
const ClockBound = time.Second

// checkClock records when this host's clock goes off the store's, and when it is right again.
func (s *Server) checkClock(ctx context.Context) {
	if s.backend.TimeOfDay == nil {
		return
	}
	now, within, ok := s.backend.Keeper.Estimate()
	if !ok || within > ClockBound/2 {
		return
	}
	offset := s.backend.TimeOfDay().Sub(now)
	off := offset.Abs() > ClockBound
	switch {
	case off && (offset-s.clockOff).Abs() > ClockBound:
		s.clockOff = offset
		s.backend.Event(ctx, history.Event{Kind: "clock-offset", Reason: "this host's clock is " + Offset(offset) + " the store's; ticks and leases follow the store's"})
	case !off && s.clockOff != 0:
		s.clockOff = 0
		s.backend.Event(ctx, history.Event{Kind: "clock-offset", Reason: "this host's clock agrees with the store's again"})
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

// lookAgain bounds every wait for the store's clock: it may have stepped, for a moment or for good.
const lookAgain = time.Second

// again waits before a tick is asked for again that was refused: where the store's clock has not reached it,
// for as long as that takes by that clock; a second at most. It reports false where ctx ended.
func (p *Backend) again(ctx context.Context, at time.Time, refused tick.Status) bool {
	wait := lookAgain
	if refused == tick.Early {
		if left, ok := p.Keeper.Reached(ctx, at, tick.Ahead); ok || left < wait {
			wait = max(left, 10*time.Millisecond)
		}
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// passed is the time by which something is over for good, by the store's clock and for the schedules; before the first
// answer, the zero time.
func (p *Backend) passed() time.Time {
	_ = p.now() // asks, where nothing is known yet
	return p.Keeper.Passed()
}
