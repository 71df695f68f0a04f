package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// Causes of the end of an attempt's context, besides lease.ErrLost.
var (
	ErrTimedOut = errors.New("timed out")
	ErrReplaced = errors.New("replaced by a newer run")
	ErrShutdown = errors.New("canceled: the server was told to stop")
	ErrCanceled = errors.New("canceled")
)

// A Target does the work of a run. Attempt makes one try. When ctx ends, Attempt stops the work as the cause demands;
// a lost lease allows it until Call.Lease.Loss().Kill. It returns only when the work is gone or can no longer be
// influenced. A Target is safe for concurrent use.
type Target interface {
	Attempt(ctx context.Context, c Call) Result
}

// Call describes the attempt to a Target.
type Call struct {
	Run     Record // ID, Job, Tick, Token
	Attempt int    // from 1
	Lease   *lease.Lease
	// IdempotencyKey is the same for every attempt and every rerun of a tick.
	IdempotencyKey string
	// PreviousSuccess is the tick of the job's latest earlier run that succeeded, or the start of a run without a
	// tick. It is zero if none of the last 100 runs succeeded, or if history did not answer in time; PreviousUnknown
	// is true in the second case. Work outside of a job has neither.
	PreviousSuccess time.Time
	PreviousUnknown bool
	// StopGrace is how long work may take to stop before it is killed, for every cause but a lost lease.
	StopGrace time.Duration
	// Output receives what the work prints; it is never nil. The scheduler's Output never blocks for long: see
	// scheduler.Fire. It may want standard error apart: see Streams.
	Output io.Writer
	// Lock is set on the embedded directory: the open file whose kernel lock is the lease, for a command to inherit.
	// The Target closes it. Call Detach, if not nil, once the command has the file: the lock then lives and dies
	// with the command.
	Lock   *os.File
	Detach func() error
}

// Result is how an attempt ended.
type Result struct {
	// Outcome is Succeeded or Failed. A cause of the context overrules Failed; it overrules Succeeded too if Stopped
	// is set or the lease was lost. Or it is Unavailable: nothing was executed, and that is this host's fault, so that
	// another host may do the work. Nothing overrules that.
	Outcome Outcome
	// Status is a command's exit status (128+n for a signal) or a request's HTTP status.
	Status int
	// Err says what went wrong, for people.
	Err error
	// Stopped means that the work ended only after it was told to stop. Its own report of success then proves
	// nothing: the context's cause is the outcome.
	Stopped bool
	// Final forbids a retry; After is the minimum pause before the next attempt.
	Final bool
	After time.Duration
	// Response is what is kept of a request's answer.
	Response *Response
	// Task is the id of the enqueued task; 0 for none.
	Task int64
	// Recorded, if not nil, is called once the run's outcome is recorded, or the next attempt begins. A Target may
	// keep the lease's lock until then.
	Recorded func()
}

// Func is a Target that calls a Go function. A function that returns nil has succeeded, even if its context ended
// before. A function cannot be killed: see lease.Guard.OnOverrun.
type Func func(ctx context.Context, c Call) error

// ErrExited means that a function ended its goroutine instead of returning, as t.FailNow and runtime.Goexit do.
var ErrExited = errors.New("the function ended its goroutine (runtime.Goexit, or FailNow of a test) instead of returning")

// Attempt calls the function on a goroutine of its own. A panic is a failure, and its stack is printed to c.Output.
func (f Func) Attempt(ctx context.Context, c Call) Result {
	if c.Lock != nil {
		_ = c.Lock.Close() // it is for commands
	}
	ended := make(chan Result, 1)
	go func() {
		r := Result{Outcome: Failed, Err: ErrExited}
		defer func() { ended <- r }()
		defer func() {
			if p := recover(); p != nil {
				r.Err = fmt.Errorf("panic: %v", p)
				if c.Output != nil {
					fmt.Fprintf(c.Output, "panic: %v\n\n%s", p, debug.Stack())
				}
			}
		}()
		if r.Err = f(ctx, c); r.Err == nil {
			r.Outcome = Succeeded
		}
	}()
	return <-ended
}

// Limits bound the attempts of a run.
type Limits struct {
	// Timeout bounds each attempt, Deadline the whole run with its retries; 0: unbounded.
	Timeout, Deadline time.Duration
	// Attempts is how many tries there are at most. Default 1.
	Attempts int
	// Backoff is the pause after attempt n, counted from 1. The lease is held meanwhile, so compute it and return.
	// Nil: no pause.
	Backoff func(n int) time.Duration
}

// Attempts carries out a run: it tries until an attempt succeeds, is final, or the limits or ctx end it. now returns
// the store's time, for the record. Call the function that it returns last once the outcome is recorded
// (Result.Recorded of the last attempt).
func Attempts(ctx context.Context, t Target, c Call, lim Limits, now func() time.Time) ([]Attempt, Outcome, string, func()) {
	if lim.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, lim.Deadline, ErrTimedOut)
		defer cancel()
	}
	var all []Attempt
	out := newPrinted(c.Output)
	c.Output = out
	for n := 1; ; n++ {
		c.Attempt = n
		bytes := out.attempt()
		a, res := once(ctx, t, c, lim.Timeout, now)
		if n > 1 && a.Outcome == Unavailable {
			a.Outcome = Failed // an earlier attempt did begin
		}
		a.Printed = bytes()
		all = append(all, a)
		recorded := res.Recorded
		if recorded == nil {
			recorded = func() {}
		}
		if a.Outcome == Succeeded || res.Final || n >= max(lim.Attempts, 1) || !(a.Outcome == Failed || a.Outcome == TimedOut) || ctx.Err() != nil {
			return all, a.Outcome, reasonOf(ctx, a), recorded
		}
		wait := res.After
		if lim.Backoff != nil {
			wait = max(wait, lim.Backoff(n))
		}
		select {
		case <-ctx.Done():
			return all, outcomeOf(context.Cause(ctx), false), reasonOf(ctx, a), recorded
		case <-time.After(wait):
			recorded()
		}
	}
}

// once makes one attempt under its timeout.
func once(ctx context.Context, t Target, c Call, timeout time.Duration, now func() time.Time) (Attempt, Result) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, ErrTimedOut)
		defer cancel()
	}
	a := Attempt{N: c.Attempt, Started: now().Truncate(time.Microsecond)}
	res := t.Attempt(ctx, c)
	a.Ended, a.Outcome, a.Status, a.Response = now().Truncate(time.Microsecond), res.Outcome, res.Status, res.Response
	a.Task = res.Task
	if res.Outcome != Unavailable && (ctx.Err() != nil || res.Stopped) {
		a.Outcome = outcomeOf(context.Cause(ctx), res.Outcome == Succeeded && !res.Stopped)
	}
	if res.Err != nil {
		a.Error = res.Err.Error()
	}
	return a, res
}

// outcomeOf returns the outcome of work whose context ended with cause, or that its guardian stopped without one
// (nil). Work that was done before it was told to stop has succeeded.
func outcomeOf(cause error, done bool) Outcome {
	switch {
	case cause == nil, errors.Is(cause, lease.ErrLost): // nil: its guardian heard of no renewal in time
		return Lost
	case done:
		return Succeeded
	case errors.Is(cause, ErrTimedOut):
		return TimedOut
	case errors.Is(cause, ErrReplaced):
		return Replaced
	}
	return Canceled
}

func reasonOf(ctx context.Context, a Attempt) string {
	switch cause := context.Cause(ctx); {
	case a.Outcome == Succeeded:
		return ""
	case a.Outcome == Unavailable:
		return a.Error
	case errors.Is(cause, ErrShutdown):
		return ReasonShutdown
	case cause != nil:
		return cause.Error()
	}
	return a.Error
}
