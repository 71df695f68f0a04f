package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/tick"
)

// unsettled are the ticks that history does not tell of yet: over, unclaimed, and above their job's
// mark (rule T4). Neighbours are one row.
func unsettled(ctx context.Context, p *opened, q history.Query) ([]tick.Tick, error) {
	if p.Ticks == nil {
		return nil, nil
	}
	known, err := registeredAs(ctx, p, q.Job)
	if err != nil {
		return nil, fmt.Errorf("the registered jobs: %w", err)
	}
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return nil, err
	}
	var (
		late   []*explain.Definition
		oldest time.Time
		ttl    = p.Keeper.Margin().TTL
	)
	for _, k := range known {
		// What cannot be read as a schedule has no ticks to tell of; it shows in dibs explain.
		if d, err := explain.Define(k); err == nil && d.Overdue(now, ttl) {
			if late = append(late, d); oldest.IsZero() || k.Mark.Before(oldest) {
				oldest = k.Mark
			}
		}
	}
	if len(late) == 0 {
		return nil, nil
	}
	rows, err := rowsAbove(ctx, p, q.Job, oldest)
	if err != nil {
		return nil, err
	}
	var missed []tick.Tick
	for _, d := range late {
		of := rows[d.Name]
		if rows == nil {
			if of, err = rowsOf(ctx, p, d); err != nil {
				return nil, err
			}
		}
		for _, t := range d.Unsettled(of, now, ttl) {
			if inside(t, q) {
				missed = append(missed, t)
			}
		}
	}
	return missed, nil
}

// mostRows is how many rows one answer of a store holds.
const mostRows = 10_000

// rowsAbove are the ticks above a mark by job: of one job, or of all with ""; nil where these are
// more than one answer holds.
func rowsAbove(ctx context.Context, p *opened, name string, mark time.Time) (map[string][]tick.Tick, error) {
	rows, err := p.History.Ticks(ctx, history.Query{Job: name, From: mark.Add(time.Microsecond), Limit: mostRows})
	if err != nil || len(rows) == mostRows {
		return nil, err
	}
	by := map[string][]tick.Tick{}
	for _, t := range rows {
		by[t.Job] = append(by[t.Job], t)
	}
	return by, nil
}

// rowsOf are the latest of a job's ticks above its mark. Where a tick that does not end has held the
// mark for long there are more of them, and only what is newer than these is told.
func rowsOf(ctx context.Context, p *opened, d *explain.Definition) ([]tick.Tick, error) {
	rows, err := p.History.Ticks(ctx, history.Query{Job: d.Name, From: d.Mark.Add(time.Microsecond), Limit: mostRows})
	if err == nil && len(rows) == mostRows {
		d.Settled(rows[mostRows-1].At)
	}
	return rows, err
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
	if name == "" {
		return tick.Registry(ctx, p.Ticks, "")
	}
	return p.Ticks.Jobs(ctx, tick.JobQuery{Names: []string{name}})
}
