package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/tick"
)

// ErrUnknownJob is returned for a job that is not registered at a place.
var ErrUnknownJob = errors.New("no such job is registered")

// Pause begins or ends a pause of a job, and records by whom and why. The ticks of a pause are
// never claimed; they end as paused, and nothing catches up on them (rule T8). What was started
// before goes on.
func (p *Place) Pause(ctx context.Context, req tick.PauseRequest) (tick.Job, error) {
	known, ok, err := p.registered(ctx, req.Job)
	switch {
	case err != nil:
		return known, err
	case !ok:
		return known, fmt.Errorf("%s: %w in %s", req.Job, ErrUnknownJob, p.Name)
	}
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return known, err
	}
	if !req.Resume && !known.Pause.Covers(now) {
		// The store remembers one pause: what an earlier one left open gets its outcome first.
		if err := p.concludePause(ctx, known); err != nil {
			return known, err
		}
	}
	after, err := p.Ticks.Pause(ctx, req)
	if err != nil {
		return known, fmt.Errorf("pause %s: %w", req.Job, unavailable(err))
	}
	if after.Pause == known.Pause {
		return after, nil // it was not paused, and is not
	}
	e := history.Event{Kind: "job-paused", Job: req.Job, Reason: PausedBy(after.Pause)}
	if req.Resume {
		e.Kind, e.Reason = "job-resumed", fmt.Sprintf("resumed by %s; it was %s", req.By, PausedBy(after.Pause))
	}
	p.Event(ctx, e)
	return after, nil
}

// concludePause settles the ticks of a pause that has ended.
func (p *Place) concludePause(ctx context.Context, known tick.Job) error {
	if until := known.Pause.Until; !known.Pause.Since.IsZero() && known.Mark.Before(until) {
		return p.conclude(ctx, known, until)
	}
	return nil
}

// PausedBy is a pause in words.
func PausedBy(p tick.Pause) string {
	s := "paused by " + p.By + " at " + stamp(p.Since)
	if !p.Until.IsZero() {
		s += " until " + stamp(p.Until)
	}
	if p.Why != "" {
		s += ": " + p.Why
	}
	return s
}

// WhyPaused says who paused a job and why, for a tick that could not be claimed.
func (p *Place) WhyPaused(ctx context.Context, name string) string {
	known, ok, err := p.registered(ctx, name)
	if err != nil || !ok || known.Pause.Since.IsZero() {
		return "paused"
	}
	return PausedBy(known.Pause)
}
