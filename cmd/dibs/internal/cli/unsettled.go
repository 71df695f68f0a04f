package cli

import (
	"context"
	"slices"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/tick"
)

// unsettled are the ticks that history does not tell of yet: over, unclaimed, and above their job's
// mark (rule T4), of jobs as they are registered. Neighbours are one row.
func unsettled(ctx context.Context, p *opened, q history.Query, known []tick.Job) ([]tick.Tick, error) {
	if len(known) == 0 {
		return nil, nil
	}
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return nil, err
	}
	var jobs []*explain.Definition
	for _, k := range known {
		// What cannot be read as a schedule has no ticks to tell of; it shows in dibs explain.
		if d, err := explain.Define(k); err == nil {
			jobs = append(jobs, d)
		}
	}
	missed, _, err := explain.ReadUnsettled(ctx, p.Backend.Backend, jobs, nil, now, explain.Most{Rows: 50_000, Jobs: len(jobs), Ticks: 100_000})
	return slices.DeleteFunc(missed, func(t tick.Tick) bool { return !inside(t, q) }), err
}

// inside says whether any tick of a row lies in what was asked for.
func inside(t tick.Tick, q history.Query) bool {
	last := t.At
	if !t.Through.IsZero() {
		last = t.Through
	}
	return (q.From.IsZero() || !last.Before(q.From)) && (q.To.IsZero() || t.At.Before(q.To))
}

// registeredAs reads one registered job, or all of them with "".
func registeredAs(ctx context.Context, p *opened, name string) ([]tick.Job, error) {
	if p.Ticks == nil {
		return nil, nil
	}
	if name == "" {
		return tick.Registry(ctx, p.Ticks, "")
	}
	return p.Ticks.Jobs(ctx, tick.JobQuery{Names: []string{name}})
}
