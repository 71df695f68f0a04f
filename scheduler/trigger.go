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

// Trigger carries out one tick of a job for a process that somebody else's scheduler started: its
// definition is loaded as a server would load it, and then it goes Single's way. accept ends the
// waiting, work what was started.
func (p *Place) Trigger(accept, work context.Context, j *Job, at time.Time) (Result, tick.Answer, error) {
	if err := j.Check(); err != nil {
		return Result{}, tick.Answer{}, err
	}
	generation, err := p.adopt(accept, j, at)
	if err != nil {
		return Result{}, tick.Answer{}, err
	}
	if err := p.awaitStart(accept, j, at); err != nil {
		return Result{}, tick.Answer{}, err
	}
	f, done := j.fire(at)
	defer done()
	f.Accept = accept
	res, a, err := p.Single(work, tick.Want{Job: j.Spec.Key(), At: at, Generation: generation, StartBy: j.StartBy(at)}, f)
	if err != nil {
		return res, a, err
	}
	if a.Status == tick.Won {
		p.TidyAfter(accept, j, j.Spec.Key())
	}
	return res, a, p.Book.Release(context.WithoutCancel(work))
}

// awaitStart waits for the instant at which a tick is to start, its share of the jitter included.
func (p *Place) awaitStart(ctx context.Context, j *Job, at time.Time) error {
	now, err := p.Keeper.Now(ctx)
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

// TriggerNow runs a job at once, without a tick: none is claimed or used up, but the lease and its
// policy are the job's. key is the caller's idempotency key; empty: the run's id. cause may be nil.
func (p *Place) TriggerNow(accept, work context.Context, j *Job, key string, cause *run.Cause) Result {
	f, done := j.fire(time.Time{})
	defer done()
	f.Accept, f.IdempotencyKey, f.Cause = accept, key, cause
	return p.Fire(work, f)
}

// TidyAfter settles what is over of a job that just ran, until ctx ends; what is left, the next run does.
func (p *Place) TidyAfter(ctx context.Context, j *Job, name string) {
	bounded, cancel := context.WithTimeout(ctx, p.Keeper.Margin().TTL)
	defer cancel()
	if err := p.tidy(bounded, j, name); err != nil && ctx.Err() == nil {
		p.log().Warn("past ticks could not be settled; the next run settles them", "job", name, "error", err)
	}
}

// adopt has the store hold the job's definition, as the latest load (rule T11), and returns its
// generation. Ticks before this one end under the definition that was there; this one is the first
// under the new one.
func (p *Place) adopt(ctx context.Context, j *Job, at time.Time) (generation int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.Keeper.Margin().TTL)
	defer cancel()
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return 0, err
	}
	if at.After(now.Add(tick.Ahead)) { // it would raise the mark over ticks that are still to come
		return 0, fmt.Errorf("%s: the tick %s is in the future", j.Spec.Key(), stamp(at))
	}
	name := j.Spec.Key()
	for range registerTries {
		known, ok, err := p.registered(ctx, name)
		req := tick.JobRequest{Name: name, Definition: DefinitionBeside(&j.Spec, known), Since: at}
		switch {
		case err != nil:
			return 0, unavailable(err)
		case ok && known.Definition == req.Definition:
			return known.Generation, nil
		case ok && IsFunction(known) && j.Spec.Function == nil:
			return 0, fmt.Errorf("%s: %w", name, errFunction(known))
		case ok:
			p.log().Warn("this definition replaces another one of this job in the store; check that every server has the same manifest", "event", "definition-replaced", "job", name)
			if req, err = p.leave(ctx, known, req); err != nil {
				return 0, unavailable(err)
			}
		}
		set, err := p.Ticks.SetJobs(ctx, []tick.JobRequest{req})
		if err != nil {
			return 0, unavailable(fmt.Errorf("register %s: %w", name, err))
		}
		if stands(req, set[0]) {
			return set[0].Generation, nil
		}
	}
	return 0, errContended(name)
}

func unavailable(err error) error {
	if errors.Is(err, lease.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", lease.ErrUnavailable, err)
}
