package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ErrUnknownJob is returned for a job that is not registered at a backend.
var ErrUnknownJob = errors.New("no such job is registered")

// Pause begins or ends a pause of a job, and records by whom and why. The ticks of a pause are
// never claimed; they end as paused, and nothing catches up on them (rule T8). What was started
// before goes on.
func (p *Backend) Pause(ctx context.Context, req tick.PauseRequest) (tick.Job, error) {
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

// concludePause gives the ticks of a pause that has ended their outcome. Where the job catches up, only
// those: what was missed before the pause may still be run.
func (p *Backend) concludePause(ctx context.Context, known tick.Job) error {
	until := known.Pause.Until
	if known.Pause.Since.IsZero() || !known.Mark.Before(until) {
		return nil
	}
	for _, d := range p.definitions(ctx, known) {
		if err := p.concludePauseOf(ctx, d, until); err != nil {
			return err
		}
	}
	return nil
}

func (p *Backend) concludePauseOf(ctx context.Context, known tick.Job, until time.Time) error {
	spec, set, err := p.readable(ctx, known)
	if err != nil || spec == nil {
		return err
	}
	if !(&Job{Spec: *spec}).catchesUp() {
		_, err = p.concludeOne(ctx, known, until)
		return err
	}
	for from := known; ; {
		due, rows, err := p.open(ctx, from, set, func(at time.Time) bool { return at.Before(until) })
		if err != nil || len(due) == 0 {
			return err
		}
		for _, at := range tick.Unaccounted(due, rows) {
			if !known.Pause.Covers(at) {
				continue
			}
			w := tick.Want{Job: known.Name, At: at, Outcome: run.Paused, Reason: PausedBy(known.Pause)}
			if _, err := p.Book.Claim(ctx, w); err != nil {
				return err
			}
		}
		from.Mark = due[len(due)-1]
	}
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
func (p *Backend) WhyPaused(ctx context.Context, name string) string {
	known, ok, err := p.registered(ctx, name)
	if err != nil || !ok || known.Pause.Since.IsZero() {
		return "paused"
	}
	return PausedBy(known.Pause)
}
