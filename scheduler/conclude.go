package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// concluder settles what is left of a definition or a pause that ends (rules T8 and T11).
type concluder struct {
	b        *Backend
	registry *registry
	settler  *settler
	notifier *notifier
}

// conclude is Backend.Conclude.
func (c *concluder) conclude(ctx context.Context, known tick.Job) (removal tick.JobRequest, err error) {
	until, mark := above(c.b.passed(), known.Mark), known.Mark
	for _, d := range c.registry.definitions(ctx, known) {
		d.Mark = mark
		if mark, err = c.one(ctx, d, until); err != nil {
			return removal, err
		}
	}
	return tick.JobRequest{Name: known.Name, Since: above(until, mark), Of: known.Generation, Remove: true}, nil
}

// one concludes one of a job's definitions up to an instant, step by step: in ranges as far as the mark can be
// raised, and one by one above a tick that is not finished yet.
func (c *concluder) one(ctx context.Context, d tick.Job, until time.Time) (mark time.Time, err error) {
	spec, set, err := c.registry.readable(ctx, d)
	if err != nil || spec == nil || !hasOpen(set, d.Mark, until) {
		return d.Mark, err
	}
	before := func(at time.Time) bool { return at.Before(until) }
	for stuck := 0; stuck < 2 && hasOpen(set, d.Mark, until); stuck++ { // one step may be spoilt by a claim beside it
		if _, err := c.settler.settle(ctx, d, set, before); err != nil {
			return d.Mark, err
		}
		now, ok, err := c.registry.registered(ctx, d.Name)
		if err != nil || !ok || now.Generation != d.Generation {
			return d.Mark, err
		}
		if !now.Mark.Equal(d.Mark) {
			d.Mark, stuck = now.Mark, -1
		}
	}
	return d.Mark, c.singly(ctx, d, spec, set, before)
}

// singly gives an outcome to each tick above the mark that has no row.
func (c *concluder) singly(ctx context.Context, known tick.Job, spec *job.Spec, set schedule.Set, before func(time.Time) bool) error {
	w, err := windowsOf(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", known.Name, err)
	}
	for {
		due, rows, err := c.settler.open(ctx, known, set, before)
		if err != nil || len(due) == 0 {
			return err
		}
		if differs, err := c.each(ctx, known, w, tick.Unaccounted(due, rows)); err != nil || differs {
			return err
		}
		known.Mark = due[len(due)-1]
	}
}

// each gives these ticks their outcome. differs means that another definition has taken over: another process was
// faster and has concluded this one.
func (c *concluder) each(ctx context.Context, known tick.Job, w windows, ticks []time.Time) (differs bool, err error) {
	var missed group
	defer func() { c.notifier.notify(missed.Happening) }()
	for _, at := range ticks {
		outcome, reason := w.fate(known.Pause, at)
		a, err := c.b.Book.Claim(ctx, tick.Want{Job: known.Name, At: at, Generation: known.Generation, Outcome: outcome, Reason: reason})
		if err != nil || a.Status == tick.Differs {
			return true, err
		}
		if a.Status == tick.Won {
			c.notifier.observe(run.Record{Job: known.Name, Tick: at, Outcome: outcome, Reason: reason}, observe.Skipped, 1)
		}
		if a.Status == tick.Won && outcome == run.Missed {
			missed.add(known.Name, at, outcome, reason)
		}
	}
	return false, nil
}

// pause gives the ticks of a pause that has ended their outcome. If the job catches up, only those: ticks missed
// before the pause may still be run.
func (c *concluder) pause(ctx context.Context, known tick.Job) error {
	until := known.Pause.Until
	if known.Pause.Since.IsZero() || !known.Mark.Before(until) {
		return nil
	}
	for _, d := range c.registry.definitions(ctx, known) {
		if err := c.pauseOf(ctx, d, until); err != nil {
			return err
		}
	}
	return nil
}

func (c *concluder) pauseOf(ctx context.Context, known tick.Job, until time.Time) error {
	spec, set, err := c.registry.readable(ctx, known)
	if err != nil || spec == nil {
		return err
	}
	if !(&Job{Spec: *spec}).catchesUp() {
		_, err = c.one(ctx, known, until)
		return err
	}
	for from := known; ; {
		due, rows, err := c.settler.open(ctx, from, set, func(at time.Time) bool { return at.Before(until) })
		if err != nil || len(due) == 0 {
			return err
		}
		for _, at := range tick.Unaccounted(due, rows) {
			if !known.Pause.Covers(at) {
				continue
			}
			w := tick.Want{Job: known.Name, At: at, Outcome: run.Paused, Reason: PauseText(known.Pause)}
			a, err := c.b.Book.Claim(ctx, w)
			if err != nil {
				return err
			}
			if a.Status == tick.Won {
				c.notifier.observe(run.Record{Job: w.Job, Tick: at, Outcome: w.Outcome, Reason: w.Reason}, observe.Skipped, 1)
			}
		}
		from.Mark = due[len(due)-1]
	}
}
