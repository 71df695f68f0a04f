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

// Pause begins or ends a pause of a job, and records who did so and why. The ticks of a pause are never claimed;
// they end as paused, and are never caught up (rule T8). Runs that started before continue.
func (b *Backend) Pause(ctx context.Context, req tick.PauseRequest) (tick.Job, error) {
	p := b.parts()
	known, ok, err := p.registry.registered(ctx, req.Job)
	switch {
	case err != nil:
		return known, err
	case !ok:
		return known, fmt.Errorf("%s: %w in %s", req.Job, ErrUnknownJob, b.Name)
	}
	now, err := b.Keeper.Now(ctx)
	if err != nil {
		return known, err
	}
	if !req.Resume && !known.Pause.Covers(now) {
		// The store remembers one pause, so what an earlier one left open gets its outcome first.
		if err := p.concluder.pause(ctx, known); err != nil {
			return known, err
		}
	}
	after, err := b.Ticks.Pause(ctx, req)
	if err != nil {
		return known, fmt.Errorf("pause %s: %w", req.Job, unavailable(err))
	}
	if after.Pause == known.Pause {
		return after, nil // it was not paused, and is not
	}
	e := history.Event{Kind: "job-paused", Job: req.Job, Reason: PauseText(after.Pause)}
	if req.Resume {
		e.Kind, e.Reason = "job-resumed", fmt.Sprintf("resumed by %s; it was %s", req.By, PauseText(after.Pause))
	}
	p.recorder.event(ctx, e)
	return after, nil
}

// pausedMeanwhile checks, after a wait for the lease, whether the job was paused since its tick was claimed: no run
// begins in a pause (rule T8), not even one that runs a tick again.
func (x *execution) pausedMeanwhile(ctx context.Context, begun time.Time) (Result, bool) {
	if x.Tick.IsZero() && !x.Late || x.b.now().Sub(begun) < x.b.Keeper.Margin().Heartbeat/2 {
		return Result{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, x.b.Keeper.Margin().RPCTimeout)
	defer cancel()
	known, ok, err := x.registry.registered(ctx, string(x.Key))
	if err != nil || !ok || !known.Pause.Covers(x.b.now()) {
		return Result{}, false
	}
	res := Result{Outcome: run.Paused, Reason: PauseText(known.Pause)}
	if x.Late && !known.Pause.Covers(x.Tick) { // it is not the pause's own, and can be run after it
		res.Outcome, res.Reason = run.Missed, "it waited for its turn when the job was "+res.Reason
	}
	return res, true
}

// PauseText returns a pause in words.
func PauseText(p tick.Pause) string {
	s := "paused by " + p.By + " at " + stamp(p.Since)
	if !p.Until.IsZero() {
		s += " until " + stamp(p.Until)
	}
	if p.Why != "" {
		s += ": " + p.Why
	}
	return s
}

// WhyPaused returns who paused a job and why, for a tick that could not be claimed.
func (b *Backend) WhyPaused(ctx context.Context, name string) string {
	known, ok, err := b.parts().registry.registered(ctx, name)
	if err != nil || !ok || known.Pause.Since.IsZero() {
		return "paused"
	}
	return PauseText(known.Pause)
}
