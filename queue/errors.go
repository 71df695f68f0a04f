package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
)

// Errors of calls that were refused or not answered.
var (
	// ErrUnavailable is wrapped when the store did not answer: the result is unknown.
	ErrUnavailable = lease.ErrUnavailable
	// ErrClosed is returned by a closed Client. Nothing was added.
	ErrClosed = errors.New("the Client was closed")
	// ErrStale is returned when a run of a task no longer belongs to the caller: the task was rescued, or its
	// worker's lease expired. Nothing was written.
	ErrStale = driver.ErrStale
	// ErrUndecided is wrapped when another transaction has a task's unique key, and did not end within the store's
	// lock_wait (rule Q2). The task was not added, and it is unknown which task it would duplicate. A transaction of
	// the caller's remains open; roll it back, and try again later.
	ErrUndecided = errors.New("undecided: another transaction has the unique key, and did not end in time; nothing was enqueued")
	// ErrStuck is returned by Worker.Run when tasks still run after their grace: exit the process. Its lease then
	// expires, and only then do others get the tasks.
	ErrStuck = errors.New("tasks did not stop in time")
)

// Causes of the end of a task's context, besides lease.ErrLost.
var (
	// ErrTimedOut means that the attempt took longer than its timeout.
	ErrTimedOut = errors.New("timed out")
	// ErrStopped means that an operator, or a newer task of its limit, asked it to stop.
	ErrStopped = errors.New("asked to stop")
	// ErrShutdown means that the worker is ending, and its grace is over.
	ErrShutdown = errors.New("the worker is shutting down")
)

// Reasons for a failed attempt that do not come from a handler.
var (
	// ErrExited means that the handler ended its goroutine instead of returning, as t.FailNow and runtime.Goexit do.
	ErrExited = errors.New("the handler ended its goroutine (runtime.Goexit, or FailNow of a test) instead of returning")
	// ErrUncommitted means that Run.Complete was called and the handler returned nil, but the transaction was not
	// committed.
	ErrUncommitted = errors.New("Run.Complete was called, but its transaction was not committed when the handler returned")
)

// A BatchError names the invalid Spec among several. None of them was added.
type BatchError struct {
	Index int
	Err   error
}

func (e *BatchError) Error() string { return fmt.Sprintf("task %d of the batch: %v", e.Index, e.Err) }

// Unwrap returns what is wrong with the Spec.
func (e *BatchError) Unwrap() error { return e.Err }

// A handler's error is a failed attempt, which is tried again after a pause. The following errors change that.

// Final ends the task as failed with err, whatever attempts are left. Final(nil) is nil.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &handled{verdict: driver.Fail, err: err}
}

// RetryAfter is an ordinary failure whose next attempt begins after d, whatever the back-off says; at once if d is
// negative. RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &handled{verdict: driver.Retry, delay: d, err: err}
}

// Postpone is not a failure: the task could not be done yet, and comes back after d, at least 1 s. It uses no
// attempt; MaxSnoozes bounds how often a task can be postponed (rule Q6).
func Postpone(d time.Duration) error {
	return &handled{verdict: driver.Snooze, delay: max(d, time.Second)}
}

// NotStarted hands the task back because its work could not begin, and that is the fault of this process or its host,
// such as a lack of descriptors: another worker may do it. It uses no attempt and counts as a postponement:
// MaxSnoozes bounds it (rule Q6), and then the task fails with err. The worker takes no tasks for a while.
// NotStarted(nil) is nil.
func NotStarted(err error) error {
	if err == nil {
		return nil
	}
	return &handled{verdict: driver.Snooze, delay: time.Second, err: err}
}

// GiveUp ends the task as discarded: it was not done, and never counts as a success (promise 21).
func GiveUp(why string) error { return &handled{verdict: driver.Drop, err: errors.New(why)} }

// handled is a handler's decision about its task.
type handled struct {
	verdict driver.Verdict
	delay   time.Duration
	err     error
}

func (h *handled) Error() string {
	switch {
	case h.verdict == driver.Snooze && h.err == nil:
		return fmt.Sprintf("postponed for %s", h.delay)
	case h.err == nil:
		return "failed"
	}
	return h.err.Error()
}

func (h *handled) Unwrap() error { return h.err }

// notStarted reports whether the work could not begin.
func (h *handled) notStarted() bool { return h != nil && h.verdict == driver.Snooze && h.err != nil }
