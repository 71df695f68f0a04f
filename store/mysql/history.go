package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// told is history.Store.
type told struct{ *database }

// Append adds events.
func (h told) Append(ctx context.Context, events []history.Event) error {
	events = bounds.Of(events)
	for chunk := range slices.Chunk(events, most) {
		p := new(packet).add("begin").add("clock")
		for _, e := range chunk {
			at := micros(e.At)
			p.add("append", h.ns, at, at, []byte(cmp.Or(e.ID, run.NewID())), []byte(text(e.Kind)), []byte(e.Key), []byte(e.Job),
				micros(e.Tick), []byte(e.RunID), text(e.Host), text(e.Reason))
		}
		if err := h.run(ctx, p.add("commit")); err != nil {
			return fmt.Errorf("append events: %w", err)
		}
	}
	return nil
}

// window is the bounds of q, in the tables' form.
func window(q history.Query) (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !q.From.IsZero() {
		from = q.From.UnixMicro()
	}
	if !q.To.IsZero() {
		to = q.To.UnixMicro()
	}
	return from, to
}

// query sends one of the two statements that take a Query.
func query[T any](ctx context.Context, h told, name string, q history.Query, scan func(*sql.Rows) (T, error)) ([]T, error) {
	from, to := window(q)
	job, id := []byte(q.Job), []byte(q.RunID)
	return selected(ctx, h, new(packet).add(name, h.ns, job, job, id, id, from, to, q.Max()), name, scan)
}

func selected[T any](ctx context.Context, h told, p *packet, name string, scan func(*sql.Rows) (T, error)) (found []T, err error) {
	err = h.run(ctx, p, func(r *sql.Rows) error {
		item, err := scan(r)
		found = append(found, item)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return found, nil
}

func (h told) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	return query(ctx, h, "events", q, func(r *sql.Rows) (e history.Event, err error) {
		var at, of int64
		err = r.Scan(&e.ID, &at, &e.Kind, &e.Key, &e.Job, &of, &e.RunID, &e.Host, &e.Reason)
		e.At, e.Tick = instant(at), instant(of)
		return e, err
	})
}

// Ticks reads a page of ticks. For one job, reach finds where to begin; for all, ranges that reach into the page are
// read apart.
func (h told) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	from, to := window(q)
	p := new(packet).add("clock")
	if job := []byte(q.Job); q.Job != "" {
		p.add("reach", from, h.ns, job, from).add("tick-history-of", h.ns, job, from, to, q.Max())
		return selected(ctx, h, p, "ticks", scanTick)
	}
	found, err := selected(ctx, h, p.add("tick-history", h.ns, from, to, q.Max()), "ticks", scanTick)
	if left := q.Max() - len(found); err == nil && left > 0 && !q.From.IsZero() {
		var reaching []tick.Tick
		p = new(packet).add("clock").add("ranges-reaching", h.ns, from, from, left)
		reaching, err = selected(ctx, h, p, "ticks", scanTick)
		found = append(found, reaching...)
	}
	slices.SortStableFunc(found, func(x, y tick.Tick) int {
		return cmp.Or(y.At.Compare(x.At), strings.Compare(x.Job, y.Job))
	})
	return found, err
}

func (h told) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	return query(ctx, h, "run-history", q, scanRun)
}

// Latest reads the latest runs of each job.
func (h told) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	from, to := window(history.Query{})
	return latest(ctx, h, jobs, "latest runs", scanRun, func(p *packet, job []byte) {
		p.add("run-history", h.ns, job, job, []byte{}, []byte{}, from, to, n)
	})
}

// LatestTicks reads the latest ticks of each job.
func (h told) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	return latest(ctx, h, jobs, "latest ticks", scanTick, func(p *packet, job []byte) { p.add("latest-ticks", h.ns, job, n) })
}

// latest reads rows of each job by a statement that add adds.
func latest[T any](ctx context.Context, h told, jobs []string, what string, scan func(*sql.Rows) (T, error), add func(*packet, []byte)) ([][]T, error) {
	found := make([][]T, len(jobs))
	for chunk := range slices.Chunk(indices(jobs), mostTicks) {
		p, readers := new(packet).add("clock"), make([]reader, 0, len(chunk))
		for _, i := range chunk {
			add(p, []byte(jobs[i]))
			readers = append(readers, func(r *sql.Rows) error {
				row, err := scan(r)
				found[i] = append(found[i], row)
				return err
			})
		}
		if err := h.run(ctx, p, readers...); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	return found, nil
}

func indices[T any](items []T) []int {
	all := make([]int, len(items))
	for i := range all {
		all[i] = i
	}
	return all
}

func (h told) Output(ctx context.Context, runID string, output []byte) error {
	if output == nil {
		output = []byte{} // kept, and empty
	}
	if err := h.run(ctx, new(packet).add("clock").add("output", h.ns, []byte(runID), output)); err != nil {
		return fmt.Errorf("keep output: %w", err)
	}
	return nil
}

func (h told) ReadOutput(ctx context.Context, runID string) (output []byte, err error) {
	err = h.run(ctx, new(packet).add("read-output", history.MaxOutput, h.ns, []byte(runID)), func(r *sql.Rows) error { return r.Scan(&output) })
	if err != nil {
		return nil, fmt.Errorf("read output: %w", err)
	}
	return output, nil
}

// AppendRuns adds runs that were recorded elsewhere first.
func (h told) AppendRuns(ctx context.Context, runs []run.Record) error {
	runs = bounds.Of(runs)
	for chunk := range slices.Chunk(runs, mostTicks) {
		sorted := slices.Clone(chunk)
		slices.SortStableFunc(sorted, func(x, y run.Record) int { return strings.Compare(x.ID, y.ID) })
		p := new(packet).add("begin")
		for _, r := range sorted {
			p.add("append-run", h.ns, []byte(r.ID), []byte(r.Job), micros(r.Tick), nonce(r.Owner), int64(r.Token), text(r.Host),
				r.PID, text(r.Command), string(r.Outcome), text(r.Reason), flag(r.Inferred), micros(r.Started), micros(r.Ended), attemptsOf(r), causeOf(r))
		}
		if err := h.run(ctx, p.add("commit")); err != nil {
			return fmt.Errorf("append runs: %w", err)
		}
	}
	return nil
}

func (h told) AppendTicks(ctx context.Context, ticks []tick.Tick) error {
	ticks = bounds.Of(ticks)
	for chunk := range slices.Chunk(ticks, mostTicks) {
		sorted := slices.Clone(chunk)
		slices.SortStableFunc(sorted, func(x, y tick.Tick) int { return cmp.Or(strings.Compare(x.Job, y.Job), x.At.Compare(y.At)) })
		p := new(packet).add("begin")
		for _, t := range sorted {
			p.add("append-tick", h.ns, []byte(t.Job), micros(t.At), micros(t.Through), t.Count, string(t.State), toJSON(t.Claimant),
				[]byte(t.RunID), string(t.Outcome), text(t.Reason), flag(t.Inferred), t.Reruns, micros(t.Claimed), micros(t.Started), micros(t.Ended))
		}
		if err := h.run(ctx, p.add("commit")); err != nil {
			return fmt.Errorf("append ticks: %w", err)
		}
	}
	return nil
}
