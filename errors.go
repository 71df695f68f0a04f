package dibs

import "github.com/dibs-run/dibs/lease"

// Do, Trigger and other calls return errors that wrap these. They are repeated here so that a program need not
// import package lease to test for them with errors.Is.
var (
	// ErrHeld means that another process has the lock, and nothing ran here. errors.As finds the *lease.HeldError,
	// which names the holder.
	ErrHeld = lease.ErrHeld
	// ErrUnavailable means that the store does not answer, and nothing ran.
	ErrUnavailable = lease.ErrUnavailable
	// ErrLost means that the lease was lost while the work ran. The cause of the work's context wraps it, too.
	ErrLost = lease.ErrLost
)
