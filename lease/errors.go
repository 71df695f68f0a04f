package lease

import (
	"errors"
	"fmt"
	"time"
)

// When a call is wrong:
var (
	// ErrBadKey is returned for a key that rule L13 refuses.
	ErrBadKey = errors.New("bad key")
	// ErrMargin is returned for a margin whose arithmetic does not hold (rule L3).
	ErrMargin = errors.New("lease margin does not hold")
)

// When an acquire is refused:
var (
	// ErrHeld is wrapped by *HeldError: another holder has the lease.
	ErrHeld = errors.New("lease is held")
	// ErrUnavailable is wrapped when the store does not answer, or answered too late to be believed. The caller does
	// not have the lease then.
	ErrUnavailable = errors.New("store is unavailable")
)

// When a hold has ended:
var (
	// ErrLost is the cause of the context of work whose lease is lost, and is returned by
	// Release of such a lease.
	ErrLost = errors.New("lease lost")
	// ErrNotReleased is wrapped by the error of Guard.Run when the work ran and its lease could not be released
	// afterwards. The lease lapses by itself, after one TTL at most. The error never wraps ErrUnavailable as well,
	// since a caller might do the work again for that.
	ErrNotReleased = errors.New("the work ran, but its lease was not released")
	// ErrClosed is returned by Acquire of a closed Keeper. It is also wrapped, together with ErrLost, by the loss of
	// leases that the Keeper held when it was closed.
	ErrClosed = errors.New("the Keeper was closed")
)

// HeldError says who holds the lease that could not be had. It wraps ErrHeld.
type HeldError struct {
	Record Record
	Now    time.Time // the store's time of the answer
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lease %q is held by %s for %s, expires in %s unless renewed",
		e.Record.Key, e.Record.Holder, max(0, e.Now.Sub(e.Record.Acquired)).Round(time.Millisecond), // a clock may have been set back
		e.Record.Expires.Sub(e.Now).Round(time.Millisecond))
}

// Unwrap makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Unwrap() error { return ErrHeld }
