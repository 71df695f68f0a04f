//go:build linux

package file

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed" // the statements
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var (
	//go:embed queries/ticks.sql
	sqlTicks string
	//go:embed queries/ticks_of.sql
	sqlTicksOf string
	//go:embed queries/ticks_latest.sql
	sqlTicksLatest string
	//go:embed queries/runs.sql
	sqlRuns string
	//go:embed queries/runs_of.sql
	sqlRunsOf string
	//go:embed queries/events.sql
	sqlEvents string
	//go:embed queries/events_of.sql
	sqlEventsOf string
	//go:embed queries/events_of_run.sql
	sqlEventsOfRun string
	//go:embed queries/event_insert.sql
	sqlEventInsert string
	//go:embed queries/tick_put.sql
	sqlTickPut string
	//go:embed queries/output_put.sql
	sqlOutputPut string
	//go:embed queries/output_get.sql
	sqlOutputGet string
	//go:embed queries/prune_events.sql
	sqlPruneEvents string
	//go:embed queries/prune_outputs_of.sql
	sqlPruneOutputsOf string
)

// histories fulfils history.Store.
type histories struct{ db *db }

// Append fulfils history.Store.
func (h *histories) Append(ctx context.Context, events []history.Event) error {
	events = bounds.Of(events)
	return writeEach(ctx, h.db, events, func(tx *sql.Tx, e history.Event) error { return insertEvent(ctx, tx, e) })
}

func insertEvent(ctx context.Context, tx *sql.Tx, e history.Event) error {
	if e.At.IsZero() {
		e.At = instantNow().time()
	}
	_, err := tx.ExecContext(ctx, sqlEventInsert, micros(e.At), e.Kind, e.Key, e.Job, micros(e.Tick), e.RunID, e.Host, e.Reason, rowOf(e.ID))
	return err
}

// rowOf is the row of an event that came with an id: a number below zero, which the numbers of the
// directory's own events never are. Nil leaves the number to the table.
func rowOf(id string) any {
	if id == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(id))
	return -int64(binary.BigEndian.Uint64(sum[:8])>>1) - 1
}

// Events fulfils history.Store.
func (h *histories) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	if err := h.db.catchUp(ctx); err != nil { // which may have found damage to tell of
		return nil, err
	}
	text, args := sqlEvents, []any{from(q), to(q), q.Max()}
	switch {
	case q.RunID != "":
		text, args = sqlEventsOfRun, append(args, q.RunID, q.Job)
	case q.Job != "":
		text, args = sqlEventsOf, append(args, q.Job)
	}
	return ask(ctx, h.db, readEvent, text, args...)
}

func readEvent(row scanner) (e history.Event, err error) {
	var id, at, tick int64
	err = row.Scan(&id, &at, &e.Kind, &e.Key, &e.Job, &tick, &e.RunID, &e.Host, &e.Reason)
	e.ID, e.At, e.Tick = strconv.FormatInt(id, 10), instantOf(at), instantOf(tick)
	return e, err
}

// ask reads the last committed state.
func ask[T any](ctx context.Context, s *db, read func(scanner) (T, error), text string, args ...any) ([]T, error) {
	p, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	all, err := query(ctx, p.reader, read, text, args...)
	return all, s.fail("read", err)
}

// from and to are the bounds of a query, open ones included.
func from(q history.Query) int64 {
	if q.From.IsZero() {
		return math.MinInt64
	}
	return ceil(q.From)
}

func to(q history.Query) int64 {
	if q.To.IsZero() {
		return math.MaxInt64
	}
	return ceil(q.To)
}

// ceil is the first whole microsecond not before t: below and above a bound are meant exactly.
func ceil(t time.Time) int64 {
	us := t.UnixMicro()
	if t.After(time.UnixMicro(us)) {
		us++
	}
	return us
}

// Output fulfils history.Store.
func (h *histories) Output(ctx context.Context, runID string, output []byte) error {
	return h.db.write(ctx, func(tx *sql.Tx) error {
		if output == nil {
			output = []byte{}
		}
		_, err := tx.ExecContext(ctx, sqlOutputPut, runID, output)
		return err
	})
}

// ReadOutput fulfils history.Store.
func (h *histories) ReadOutput(ctx context.Context, runID string) ([]byte, error) {
	p, err := h.db.open(ctx)
	if err != nil {
		return nil, err
	}
	read := func(row scanner) (b []byte, err error) { return b, row.Scan(&b) }
	b, _, err := one(ctx, p.reader, read, sqlOutputGet, runID, history.MaxOutput)
	return b, h.db.fail("read", err)
}

// Ticks fulfils history.Store.
func (h *histories) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	text, args := sqlTicks, []any{from(q), to(q), q.Max(), q.RunID}
	if q.Job != "" {
		text, args = sqlTicksOf, append(args, q.Job)
	}
	return h.ticks(ctx, text, args...)
}

func (h *histories) ticks(ctx context.Context, text string, args ...any) ([]tick.Tick, error) {
	rows, err := ask(ctx, h.db, readTick, text, args...)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].Live, err = h.db.leases.alive(rows[i].Lease); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Runs fulfils history.Store.
func (h *histories) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	if err := h.db.catchUp(ctx); err != nil {
		return nil, err
	}
	return h.runs(ctx, q)
}

func (h *histories) runs(ctx context.Context, q history.Query) (found []run.Record, err error) {
	text, args := sqlRuns, []any{from(q), to(q), q.Max()}
	switch {
	case q.RunID != "":
		text, args = sqlRunGet, []any{q.RunID}
	case q.Job != "":
		text, args = sqlRunsOf, append(args, q.Job)
	}
	rows, err := ask(ctx, h.db, readRun, text, args...)
	found = make([]run.Record, 0, len(rows))
	for _, r := range rows {
		if r.damaged != nil {
			r.Reason = fmt.Sprintf("this record cannot be understood: %v", r.damaged)
			_ = h.db.leases.unreadable.stepOver("run "+r.ID, r.damaged)
		}
		if at := micros(r.Started); r.damaged != nil || (q.Job == "" || q.Job == r.Job) && at >= from(q) && at < to(q) {
			found = append(found, r.Record)
		}
	}
	return found, err
}

// Latest fulfils history.Store.
func (h *histories) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	found := make([][]run.Record, len(jobs))
	err := h.db.catchUp(ctx)
	for i, job := range jobs {
		if err == nil {
			found[i], err = h.runs(ctx, history.Query{Job: job, Limit: n})
		}
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// LatestTicks fulfils history.Store.
func (h *histories) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	found := make([][]tick.Tick, len(jobs))
	for i, job := range jobs {
		var err error
		if found[i], err = h.ticks(ctx, sqlTicksLatest, job, n); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// AppendRuns fulfils history.Store.
func (h *histories) AppendRuns(ctx context.Context, runs []run.Record) error {
	runs = bounds.Of(runs)
	return writeEach(ctx, h.db, runs, func(tx *sql.Tx, r run.Record) error { return insertRun(ctx, tx, runRow{Record: r}) })
}

// AppendTicks fulfils history.Store.
func (h *histories) AppendTicks(ctx context.Context, ticks []tick.Tick) error {
	ticks = bounds.Of(ticks)
	return writeEach(ctx, h.db, ticks, func(tx *sql.Tx, t tick.Tick) error {
		t.Lease = lease.Ref{}
		return putTick(ctx, tx, sqlTickPut, t)
	})
}

// PruneOutputs fulfils history.Store.
func (h *histories) PruneOutputs(ctx context.Context, job string, keep int) (n int, err error) {
	err = h.db.write(ctx, func(tx *sql.Tx) (err error) {
		n, err = changed(tx.ExecContext(ctx, sqlPruneOutputsOf, job, history.Step, keep))
		return err
	})
	return n, err
}

// changed is how many rows a statement changed.
func changed(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}
