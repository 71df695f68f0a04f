// Package enqueue does a run by enqueueing a task: its Target adds one task per run. The unique key of the task is
// the job and its tick, so a tick that is run again does not enqueue a second task.
package enqueue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/task"
)

// Grace is how much longer unique keys are held than ticks may be run again: it covers a run that began at the last
// moment.
const Grace = time.Hour

// A Queue accepts a task; *queue.Client is one.
type Queue interface {
	Enqueue(ctx context.Context, s task.Spec) (task.Enqueued, error)
}

// A Target enqueues one task per run, whatever the number of attempts. The run has succeeded once the task is added,
// or is already there. What happens to the task later does not change the run.
type Target struct {
	Queue Queue
	// Spec is the task to enqueue. The Target sets its Unique, ExpiresAt and RetryUntil.
	Spec task.Spec
	// Expires is how long after it was enqueued the task is discarded if it still waits; 0: never. Retry is how long
	// after it was enqueued another attempt may begin; 0: at any time.
	Expires, Retry time.Duration
	// Again is how long after its tick a run may be run again: the key is held for that long, plus Grace, after the
	// task has succeeded. A task that has ended otherwise frees its key (rule Q1).
	Again time.Duration
	// Now returns the store's time.
	Now func(context.Context) (time.Time, error)
}

// Key returns the unique key of what a run enqueues, one for all kinds: the job and its tick, or the job and the
// run's id if there is no tick.
func Key(c run.Call) string {
	if strings.HasPrefix(c.IdempotencyKey, c.Run.Job+"@") {
		return c.IdempotencyKey
	}
	return c.Run.Job + "@" + c.IdempotencyKey
}

// Check returns what is wrong with the task, before there is a run.
func (t Target) Check() error {
	s := t.spec("app/job@2006-01-02T15:04:05Z")
	return s.Check()
}

func (t Target) spec(key string) task.Spec {
	s := t.Spec.Clone()
	s.Unique = &task.Unique{Key: key, Shared: true, Until: task.UntilFinished, Window: t.Again + Grace}
	return s
}

// bound sets the instants of s that are counted from now.
func (t Target) bound(ctx context.Context, s *task.Spec) error {
	if t.Expires == 0 && t.Retry == 0 {
		return nil
	}
	now, err := t.Now(ctx)
	if t.Expires > 0 {
		s.ExpiresAt = now.Add(t.Expires)
	}
	if t.Retry > 0 {
		s.RetryUntil = now.Add(t.Retry)
	}
	return err
}

// Attempt enqueues the task. If the store did not answer, the task may be there all the same: the next attempt, or
// the tick's next run, then finds it.
func (t Target) Attempt(ctx context.Context, c run.Call) run.Result {
	if err := context.Cause(ctx); err != nil {
		return run.Result{Outcome: run.Failed, Err: err}
	}
	s := t.spec(Key(c))
	if err := t.bound(ctx, &s); err != nil {
		return run.Result{Outcome: run.Failed, Err: fmt.Errorf("the task was not enqueued: %w", err)}
	}
	e, err := t.Queue.Enqueue(ctx, s)
	var wrong *task.SpecError
	switch {
	case errors.As(err, &wrong):
		return run.Result{Outcome: run.Failed, Err: err, Final: true}
	case err != nil:
		return run.Result{Outcome: run.Failed, Err: fmt.Errorf("it is unknown whether the task was enqueued; enqueueing it again is safe: %w", err)}
	}
	switch e.Answer {
	case task.New:
		fmt.Fprintf(c.Output, "enqueued task %d (%s, queue %s): %s\n", e.ID, s.Kind, s.Queue, e.State)
	case task.Duplicate:
		fmt.Fprintf(c.Output, "task %d is this run's already: %s\n", e.ID, e.State)
	default:
		return run.Result{Outcome: run.Failed, Err: fmt.Errorf("the task was not enqueued: the store answered %q", e.Answer)}
	}
	return run.Result{Outcome: run.Succeeded, Task: int64(e.ID)}
}
