package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"
)

// deaf is how long after its timeout a handler is reported as having ignored it.
const deaf = 10 * time.Second

// An attempt is one call of a handler. All of the caller's code runs here and nowhere else: the handler, its
// Backoff, and the methods of the error that it returned. Whatever that code does, the slot continues, and the task
// reaches an end.
type attempt struct {
	ended
	run    Run
	begun  time.Time
	ctx    context.Context
	cancel context.CancelCauseFunc
	back   bool // the handler returned, or panicked
	taken  int  // the brake's mark
}

// begin makes the context of an attempt. Timeout, stop, shutdown and loss of the lease end it; the timeout is its
// deadline.
func (s *session) begin(it *item, a *attempt) {
	a.ctx, a.cancel = context.WithCancelCause(s.work)
	it.mu.Lock()
	it.cancel = a.cancel
	stopped, lost := it.stop != "", it.lost
	it.mu.Unlock()
	switch {
	case lost:
		a.cancel(errForgotten)
	case stopped:
		a.cancel(ErrStopped)
	}
	a.begun, a.taken = time.Now(), s.w.brake.Taken()
}

// do calls the handler and reads its error. If the handler ends its goroutine, do does not return either; what is
// known of the attempt was set before.
func (s *session) do(it *item, a *attempt) {
	a.says = opinion{text: ErrExited.Error(), err: ErrExited}
	ctx := a.ctx
	if timeout := cmp.Or(it.Timeout, a.handler.Timeout); timeout > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, timeout, ErrTimedOut)
		defer cancel()
		ctx, a.ctx = bounded, bounded
		if timeout < math.MaxInt64-deaf { // else it never ends
			late := time.AfterFunc(timeout+deaf, func() { s.ignores(it, timeout) })
			defer late.Stop()
		}
	}
	defer a.returned() // before its context is given up
	err := call(ctx, a.handler, &a.run)
	a.returned()
	a.says = read(err)
	if a.says.err != nil && a.says.handled == nil && it.Backoff == nil && a.handler.Backoff != nil {
		a.pause, a.paused = a.backoff()
	}
}

// returned records that the handler has ended, and why its context had ended by then.
func (a *attempt) returned() {
	if a.back {
		return
	}
	a.back, a.took = true, time.Since(a.begun)
	if a.ctx.Err() != nil {
		a.cause = context.Cause(a.ctx)
	}
}

// ignores logs that a handler continues although its time is over: only the handler itself can end it.
func (s *session) ignores(it *item, timeout time.Duration) {
	s.w.log.Warn("a task's handler has not returned although its time is over", "event", "task-deaf", "kind", it.Kind,
		"queue", it.Queue, "timeout", timeout, "task", it.ID)
}

// call runs the task; a panic becomes an error with its stack.
func call(ctx context.Context, h Handler, r *Run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{textOf(p), debug.Stack()}
		}
	}()
	return h.Do(ctx, r)
}

// panicked is the error of a handler that panicked.
type panicked struct {
	what  string
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %s\n%s", p.what, p.stack) }

// backoff asks the handler for its pause; ok is false if it panics.
func (a *attempt) backoff() (d time.Duration, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			d, ok = 0, false
			a.says.text += "\nand the handler's Backoff panicked, so the default stands: " + textOf(p)
		}
	}()
	return max(a.handler.Backoff(a.attempt, a.says.err), 0), true
}

// opinion is the meaning of a handler's error.
type opinion struct {
	err     error // nil: success
	text    string
	handled *handled // nil: an ordinary failure
}

// read interprets a handler's error. The error is the caller's code: a typed nil, for example, panics when asked for
// its text.
func read(err error) (o opinion) {
	if err == nil {
		return o
	}
	o.err = err
	defer func() {
		if p := recover(); p != nil {
			o.handled = nil
			o.text = fmt.Sprintf("the handler returned an error of type %T that panics when it is read: %s", err, textOf(p))
		}
	}()
	o.text = err.Error()
	errors.As(err, &o.handled)
	return o
}

// textOf returns v as text for people, whatever its methods do.
func textOf(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T that cannot be printed", v)
		}
	}()
	return fmt.Sprint(v)
}
