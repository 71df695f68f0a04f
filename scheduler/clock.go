package scheduler

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/tick"
)

// now returns the store's time; before the first answer, the zero time.
func (b *Backend) now() time.Time {
	t, _ := b.Keeper.Now(context.Background())
	return t
}

// passed returns the time by which something is over for good, by the store's clock and for the schedules; before
// the first answer, the zero time.
func (b *Backend) passed() time.Time {
	_ = b.now() // asks, where nothing is known yet
	return b.Keeper.Passed()
}

// recheckAfter bounds every wait for the store's clock: it may have stepped, for a moment or for good.
const recheckAfter = time.Second

// again waits before a refused tick is requested again: if the store's clock has not reached it, as long as that
// takes by that clock; a second at most. It returns false if ctx ended.
func (b *Backend) again(ctx context.Context, at time.Time, refused tick.Status) bool {
	wait := recheckAfter
	if refused == tick.Early {
		if left, ok := b.Keeper.Reached(ctx, at, tick.Ahead); ok || left < wait {
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

// holding reports whether the store grants nothing now, as far as this process knows.
func (b *Backend) holding() bool {
	_, until := b.Keeper.HeldBack()
	return b.now().Before(until)
}

// startBy returns until when a tick of a job may start: its starting deadline, not counting the time in which the
// store held grants back (rule L9).
func (b *Backend) startBy(j *Job, at time.Time) time.Time {
	return b.Keeper.Extend(j.Starts(at), j.StartBy(at))
}
