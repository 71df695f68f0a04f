package dibs

import "github.com/dibs-run/dibs/lease"

// What Do, Trigger and others wrap, so that a program need not import package lease to ask with errors.Is.
var (
	// ErrHeld: somebody else has the lock, and nothing ran here. errors.As finds the *lease.HeldError, which says who.
	ErrHeld = lease.ErrHeld
	// ErrUnavailable: the store does not answer, and nothing ran.
	ErrUnavailable = lease.ErrUnavailable
	// ErrLost: the lease was lost while the work ran. The cause of its context wraps it, too.
	ErrLost = lease.ErrLost
)
