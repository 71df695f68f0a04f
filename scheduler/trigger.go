package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Trigger carries out one tick of a job for a process that another scheduler started: it loads the job's definition
// as a server would, and continues as Single. The end of accept ends the waiting, the end of work what was started.
func (b *Backend) Trigger(accept, work context.Context, j *Job, at time.Time) (Result, tick.Answer, error) {
	if err := j.Check(); err != nil {
		return Result{}, tick.Answer{}, err
	}
	generation, err := b.parts().redefiner.define(accept, j, at)
	if err != nil {
		return Result{}, tick.Answer{}, err
	}
	if err := b.awaitStart(accept, j, at); err != nil {
		return Result{}, tick.Answer{}, err
	}
	f, done := j.fire(at)
	defer done()
	f.Accept = accept
	res, a, err := b.Single(work, tick.Want{Job: j.Spec.Key(), At: at, Generation: generation, StartBy: j.StartBy(at)}, f)
	if err != nil {
		return res, a, err
	}
	if a.Status == tick.Won {
		b.TidyAfter(accept, j, j.Spec.Key())
	}
	_, err = b.release(context.WithoutCancel(work))
	return res, a, err
}

// awaitStart waits for the instant at which a tick should start, including its share of the jitter.
func (b *Backend) awaitStart(ctx context.Context, j *Job, at time.Time) error {
	now, err := b.Keeper.Now(ctx)
	if err != nil {
		return err
	}
	if j.Starts(at).Equal(at) {
		return nil // the claim waits for a tick that is a little ahead
	}
	select {
	case <-time.After(j.Starts(at).Sub(now)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TriggerNow runs a job at once, without a tick: none is claimed or used up, but the lease and its policy are the
// job's. key is the caller's idempotency key; empty: the run's id. cause may be nil.
func (b *Backend) TriggerNow(accept, work context.Context, j *Job, key string, cause *run.Cause) Result {
	f, done := j.fire(time.Time{})
	defer done()
	f.Accept, f.IdempotencyKey, f.Cause = accept, key, cause
	return b.Fire(work, f)
}

// TidyAfter settles what is over of a job that just ran, until ctx ends; the next run does what is left.
func (b *Backend) TidyAfter(ctx context.Context, j *Job, name string) {
	bounded, cancel := context.WithTimeout(ctx, b.Keeper.Margin().TTL)
	defer cancel()
	if err := b.parts().settler.tidy(bounded, j, name); err != nil && ctx.Err() == nil {
		b.log().Warn("past ticks could not be settled; the next run settles them", "job", name, "error", err)
	}
}

func unavailable(err error) error {
	if errors.Is(err, lease.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", lease.ErrUnavailable, err)
}
