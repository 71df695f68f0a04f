package lease

import (
	"fmt"
	"time"
)

// holdBack is a span of the store's time in which it grants nothing (rule L9).
type holdBack struct{ since, until time.Time }

// sawHoldBack records that the store refused at now to grant anything before until. The hold-back may have begun
// before this process asked. It lasts for the namespace's longest TTL, which is no shorter than this Keeper's.
func (k *Keeper) sawHoldBack(now, until time.Time) {
	for {
		before := k.back.Load()
		seen := holdBack{until.Add(-k.margin.TTL), until}
		if now.Before(seen.since) {
			seen.since = now
		}
		if before != nil && !seen.since.After(before.until) { // the same, or one that follows at once
			if !until.After(before.until) {
				return
			}
			seen.since = before.since
		}
		if k.back.CompareAndSwap(before, &seen) {
			return
		}
	}
}

// HeldBack returns the latest span in which the store granted nothing to anybody (rule L9), in store time and as far
// as this Keeper was refused in it. Both instants are zero if there was none.
func (k *Keeper) HeldBack() (since, until time.Time) {
	if b := k.back.Load(); b != nil {
		return b.since, b.until
	}
	return time.Time{}, time.Time{}
}

// Extend moves a deadline by the time since due in which the store held grants back: nothing could begin then. A
// zero deadline stays zero. All instants are store time. Extend a deadline only once.
func (k *Keeper) Extend(due, deadline time.Time) time.Time {
	since, until := k.HeldBack()
	if deadline.IsZero() || !due.Before(until) || deadline.Before(since) {
		return deadline
	}
	if due.Before(since) {
		due = since
	}
	return until.Add(deadline.Sub(due))
}

// HoldBackText returns the sentence that a log shows when a store grants nothing for a while (rule L9).
func HoldBackText(wait time.Duration) string {
	return fmt.Sprintf("new or restarted store: waiting %s in case another server still holds a lease; `dibs init` skips this for a new one",
		wait.Round(100*time.Millisecond))
}
