package postgres

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// told is the history.Store of one namespace.
type told struct {
	db *db
	ns string
}

// Append adds events: see sql/history.sql.
func (h told) Append(ctx context.Context, events []history.Event) error {
	events = bounds.Of(events)
	return h.db.run(ctx, "append events", do(sqlHistory()[0], h.ns,
		column(events, func(e history.Event) string { return cmp.Or(e.ID, run.NewID()) }),
		column(events, func(e history.Event) int64 { return micros(e.At) }),
		column(events, func(e history.Event) string { return e.Kind }),
		column(events, func(e history.Event) []byte { return []byte(e.Key) }),
		column(events, func(e history.Event) []byte { return []byte(e.Job) }),
		column(events, func(e history.Event) int64 { return micros(e.Tick) }),
		column(events, func(e history.Event) string { return e.RunID }),
		column(events, func(e history.Event) string { return e.Host }),
		column(events, func(e history.Event) string { return e.Reason })))
}

// Events reads a page of events.
func (h told) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	var found []history.Event
	err := h.db.run(ctx, "events", h.selection(q, sqlHistory()[1], sqlHistory()[8], sqlHistory()[9]).
		each(func(rows pgx.Rows) error {
			var (
				e        history.Event
				key, job []byte
				at, tick int64
			)
			err := rows.Scan(&e.ID, &at, &e.Kind, &key, &job, &tick, &e.RunID, &e.Host, &e.Reason)
			e.At, e.Tick, e.Key, e.Job = instant(at), instant(tick), string(key), string(job)
			found = append(found, e)
			return err
		}))
	return found, err
}

// selection chooses the statement for a query's filter: one statement for all filters would keep a plan that fits
// none. ofRun is "" if there is none.
func (h told) selection(q history.Query, ofAll, ofJob, ofRun string) step {
	job, from, to := []byte(q.Job), int64(math.MinInt64), int64(math.MaxInt64)
	if !q.From.IsZero() {
		from = micros(q.From)
	}
	if !q.To.IsZero() {
		to = micros(q.To)
	}
	switch {
	case q.RunID != "" && ofRun != "":
		return do(ofRun, h.ns, q.RunID, job, from, to, q.Max())
	case q.Job != "":
		return do(ofJob, h.ns, job, from, to, q.Max())
	}
	return do(ofAll, h.ns, from, to, q.Max())
}

// Ticks reads a page of ticks.
func (h told) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	var found []tick.Tick
	err := h.db.run(ctx, "ticks", h.selection(q, sqlHistory()[2], sqlHistory()[6], "").each(tickRows(&found)))
	return found, err
}

// Runs reads a page of runs.
func (h told) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	var found []run.Record
	err := h.db.run(ctx, "runs", h.selection(q, sqlHistory()[3], sqlHistory()[10], sqlHistory()[11]).each(runRows(&found)))
	return found, err
}

// Latest reads the latest runs of many jobs, mostJobs at a time.
func (h told) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	found := make([][]run.Record, 0, len(jobs))
	for part := range slices.Chunk(jobs, mostJobs) {
		some := make([][]run.Record, len(part))
		err := h.db.run(ctx, "latest runs", do(sqlHistory()[7], h.ns, column(part, func(s string) []byte { return []byte(s) }), n).
			each(func(rows pgx.Rows) error {
				var i int
				r, err := scanRun(rows, &i)
				if err == nil {
					some[i-1] = append(some[i-1], r)
				}
				return err
			}))
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// LatestTicks reads the latest ticks of many jobs, mostJobs at a time.
func (h told) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	var rows []tick.Tick
	names := slices.Compact(slices.Sorted(slices.Values(jobs)))
	for part := range slices.Chunk(names, mostJobs) {
		err := h.db.run(ctx, "latest ticks", do(sqlHistory()[12], h.ns, column(part, func(s string) []byte { return []byte(s) }), n).each(tickRows(&rows)))
		if err != nil {
			return nil, err
		}
	}
	return tick.PerJob(rows, jobs), nil
}

// mostJobs bounds how many jobs one statement reads the rows of.
const mostJobs = 500

// AppendRuns adds runs that were recorded elsewhere first.
func (h told) AppendRuns(ctx context.Context, runs []run.Record) error {
	runs = bounds.Of(runs)
	return h.db.run(ctx, "append runs", do(sqlHistory()[4], append([]any{h.ns}, runColumns(runs)...)...))
}

// AppendTicks sends each tick once: a statement cannot replace a row twice.
func (h told) AppendTicks(ctx context.Context, ticks []tick.Tick) error {
	ticks = bounds.Of(ticks)
	type id struct {
		job string
		at  int64
	}
	last := map[id]tick.Tick{}
	for _, t := range ticks {
		last[id{t.Job, micros(t.At)}] = t
	}
	ticks = slices.SortedFunc(maps.Values(last), func(a, b tick.Tick) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), a.At.Compare(b.At))
	})
	return h.db.run(ctx, "append ticks", do(sqlHistory()[5], h.ns,
		column(ticks, func(t tick.Tick) []byte { return []byte(t.Job) }),
		column(ticks, func(t tick.Tick) int64 { return micros(t.At) }),
		column(ticks, func(t tick.Tick) int64 { return micros(t.Through) }),
		column(ticks, func(t tick.Tick) int64 { return int64(t.Count) }),
		column(ticks, func(t tick.Tick) string { return string(t.State) }),
		column(ticks, func(t tick.Tick) string { return toJSON(t.Claimant) }),
		column(ticks, func(t tick.Tick) string { return t.RunID }),
		column(ticks, func(t tick.Tick) string { return string(t.Outcome) }),
		column(ticks, func(t tick.Tick) string { return t.Reason }),
		column(ticks, func(t tick.Tick) bool { return t.Inferred }),
		column(ticks, func(t tick.Tick) int64 { return int64(t.Reruns) }),
		column(ticks, func(t tick.Tick) int64 { return micros(t.Claimed) }),
		column(ticks, func(t tick.Tick) int64 { return micros(t.Started) }),
		column(ticks, func(t tick.Tick) int64 { return micros(t.Ended) })))
}

func (h told) Output(ctx context.Context, runID string, output []byte) error {
	return h.db.run(ctx, "keep output", do(sqlOutput()[0], h.ns, runID, append([]byte{}, output...)))
}

func (h told) ReadOutput(ctx context.Context, runID string) ([]byte, error) {
	var output []byte
	err := h.db.run(ctx, "read output", do(sqlOutput()[1], h.ns, runID, history.MaxOutput).
		each(func(rows pgx.Rows) error { return rows.Scan(&output) }))
	return output, err
}

// Prune takes one step of each statement of sql/prune.sql. Lease records are pruned with history, and are not
// counted.
func (h told) Prune(ctx context.Context, before time.Time) (total int, more bool, err error) {
	for i, sql := range sqlPrune() {
		var n int
		err := h.db.run(ctx, "prune", do(sql, h.ns, micros(before), history.Step, pageRows).
			each(func(rows pgx.Rows) error { return rows.Scan(&n) }))
		if err != nil {
			return total, more, err
		}
		more = more || n == history.Step
		if i < len(sqlPrune())-1 { // the last are leases, which are no history
			total += n
		}
	}
	return total, more, nil
}

func (h told) PruneOutputs(ctx context.Context, job string, keep int) (n int, err error) {
	err = h.db.run(ctx, "prune outputs", do(sqlOutput()[2], h.ns, []byte(job), keep, history.Step).
		each(func(rows pgx.Rows) error { return rows.Scan(&n) }))
	return n, err
}

// runColumns are whole runs, in the order of the columns of sql/history.sql.
func runColumns(runs []run.Record) []any {
	return []any{
		column(runs, func(r run.Record) string { return r.ID }),
		column(runs, func(r run.Record) []byte { return []byte(r.Job) }),
		column(runs, func(r run.Record) int64 { return micros(r.Tick) }),
		column(runs, func(r run.Record) string { return owner(r.Owner) }),
		column(runs, func(r run.Record) int64 { return int64(r.Token) }),
		column(runs, func(r run.Record) string { return r.Host }),
		column(runs, func(r run.Record) int64 { return int64(r.PID) }),
		column(runs, func(r run.Record) string { return r.Command }),
		column(runs, func(r run.Record) string { return string(r.Outcome) }),
		column(runs, func(r run.Record) string { return r.Reason }),
		column(runs, func(r run.Record) bool { return r.Inferred }),
		column(runs, func(r run.Record) int64 { return micros(r.Started) }),
		column(runs, func(r run.Record) int64 { return micros(r.Ended) }),
		column(runs, func(r run.Record) string { return attempts(r.Attempts) }),
		column(runs, func(r run.Record) string { return cause(r.Cause) }),
	}
}
