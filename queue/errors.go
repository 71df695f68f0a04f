package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
)

// When a call is refused or not answered:
var (
	// ErrUnavailable is wrapped when the store did not answer: it is not known whether anything was done.
	ErrUnavailable = lease.ErrUnavailable
	// ErrClosed is returned by a Client that was closed. Nothing was taken in.
	ErrClosed = errors.New("the Client was closed")
	// ErrStale is returned when a run of a task is no longer the caller's: it was rescued, or its
	// worker's lease lapsed. Nothing was written.
	ErrStale = driver.ErrStale
	// ErrUndecided is wrapped when another transaction has a task's unique key, and did not end within the store's
	// lock_wait (rule Q2): the task was not taken in, and which task it would be a duplicate of is not known. A
	// transaction of the caller's goes on; roll it back, and try again later.
	ErrUndecided = errors.New("undecided: another transaction has the unique key, and did not end in time; nothing was enqueued")
	// ErrStuck is returned by Worker.Run when tasks still run after their grace: end the process. Its lease then
	// lapses, and only then are they given to others.
	ErrStuck = errors.New("tasks did not stop in time")
)

// The causes with which the context of a task's work ends, beside lease.ErrLost.
var (
	// ErrTimedOut: the attempt took longer than its timeout.
	ErrTimedOut = errors.New("timed out")
	// ErrStopped: an operator, or a newer task of its limit, asked it to stop.
	ErrStopped = errors.New("asked to stop")
	// ErrShutdown: the worker ends, and its grace is over.
	ErrShutdown = errors.New("the worker is shutting down")
)

// Why an attempt failed, where no handler says so.
var (
	// ErrExited: the handler ended its goroutine instead of returning, as t.FailNow and runtime.Goexit do.
	ErrExited = errors.New("the handler ended its goroutine (runtime.Goexit, or FailNow of a test) instead of returning")
	// ErrUncommitted: Run.Complete was called, the handler returned nil, and the transaction was not committed.
	ErrUncommitted = errors.New("Run.Complete was called, but its transaction was not committed when the handler returned")
)

// A BatchError says which Spec of several is wrong. None of them was taken in.
type BatchError struct {
	Index int
	Err   error
}

func (e *BatchError) Error() string { return fmt.Sprintf("task %d of the batch: %v", e.Index, e.Err) }

// Unwrap is what is wrong with it.
func (e *BatchError) Unwrap() error { return e.Err }

// A handler's error is a failed attempt, which is tried again after a pause. These say otherwise.

// Final makes err the end of the task: failed, whatever attempts are left. Final(nil) is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &handled{verdict: driver.Fail, err: err}
}

// RetryAfter is an ordinary failure whose next attempt begins after d, whatever the back-off says.
// RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &handled{verdict: driver.Retry, delay: d, err: err}
}

// Postpone is no failure: the task was not ready to be done, and comes back after d, 1 s at least. It uses no
// attempt; how often it may do so is bounded by MaxSnoozes (rule Q6).
func Postpone(d time.Duration) error {
	return &handled{verdict: driver.Snooze, delay: max(d, time.Second)}
}

// GiveUp ends the task as discarded: it was not done, and never counts as a success (promise 21).
func GiveUp(why string) error { return &handled{verdict: driver.Drop, err: errors.New(why)} }

// handled is what a handler decided about its task.
type handled struct {
	verdict driver.Verdict
	delay   time.Duration
	err     error
}

func (h *handled) Error() string {
	switch {
	case h.verdict == driver.Snooze:
		return fmt.Sprintf("postponed for %s", h.delay)
	case h.err == nil:
		return "failed"
	}
	return h.err.Error()
}

func (h *handled) Unwrap() error { return h.err }
