package lease

import (
	"fmt"
	"time"
)

// holdBack is a time in which the store grants nothing (rule L9), by the store's clock.
type holdBack struct{ since, until time.Time }

// sawHoldBack remembers that the store refused at an instant to grant anything before another one. The
// hold-back may have begun before anybody here asked: one lasts for the longest TTL, which is no shorter than
// this Keeper's.
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

// HeldBack is the latest time in which the store granted nothing to anybody (rule L9), by its clock and as far as this
// Keeper was refused in it. Zero instants: it never was.
func (k *Keeper) HeldBack() (since, until time.Time) {
	if b := k.back.Load(); b != nil {
		return b.since, b.until
	}
	return time.Time{}, time.Time{}
}

// Extend is the deadline of something that fell due at an instant, without the time since then in which the store held
// grants back: nobody could have begun it. A zero deadline stays zero. All instants are the store's. Extend a deadline
// once only.
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

// HoldBackText is what a log says once to people when a store grants nothing for a while (rule L9).
func HoldBackText(wait time.Duration) string {
	return fmt.Sprintf("new or restarted store: waiting %s in case another server still holds a lease; `dibs init` skips this for a new one",
		wait.Round(100*time.Millisecond))
}
