package lease

import (
	"errors"
	"fmt"
	"time"
)

// Errors of a wrong call.
var (
	// ErrBadKey is returned for a key that rule L13 refuses.
	ErrBadKey = errors.New("bad key")
	// ErrMargin is returned for a margin whose arithmetic does not hold (rule L3).
	ErrMargin = errors.New("lease margin does not hold")
)

// Errors of a refused acquire.
var (
	// ErrHeld is wrapped by *HeldError: another holder has the lease.
	ErrHeld = errors.New("lease is held")
	// ErrUnavailable is wrapped when the store does not answer, or answered too late to be trusted. The caller does
	// not have the lease then.
	ErrUnavailable = errors.New("store is unavailable")
)

// Errors at the end of a hold.
var (
	// ErrLost is the cause of the context of work whose lease is lost. Release of such a lease returns it as well.
	ErrLost = errors.New("lease lost")
	// ErrNotReleased is wrapped by the error of Guard.Run when the work ran but its lease could not be released
	// afterwards. The lease expires by itself, after one TTL at most. The error never wraps ErrUnavailable as well,
	// because a caller might then do the work again.
	ErrNotReleased = errors.New("the work ran, but its lease was not released")
	// ErrClosed is returned by Acquire on a closed Keeper. It is also wrapped, together with ErrLost, in the loss of
	// leases that the Keeper held when it was closed.
	ErrClosed = errors.New("the Keeper was closed")
)

// HeldError says who holds the lease that could not be acquired. It wraps ErrHeld.
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
