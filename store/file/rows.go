//go:build linux

package file

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed" // the statements
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var (
	//go:embed queries/tick_get.sql
	sqlTickGet string
	//go:embed queries/tick_insert.sql
	sqlTickInsert string
	//go:embed queries/tick_update.sql
	sqlTickUpdate string
	//go:embed queries/run_get.sql
	sqlRunGet string
	//go:embed queries/run_insert.sql
	sqlRunInsert string
	//go:embed queries/run_close.sql
	sqlRunClose string
	//go:embed queries/job_get.sql
	sqlJobGet string
	//go:embed queries/job_put.sql
	sqlJobPut string
)

func readTick(row scanner) (t tick.Tick, err error) {
	var at, last, claimed, started, ended int64
	var owner, claimant string
	if err := row.Scan(&t.Job, &at, &last, &t.Count, &t.State, &t.Lease.Key, &owner, &t.Lease.Token, &claimant,
		&t.RunID, &t.Outcome, &t.Reason, (*truth)(&t.Inferred), &t.Reruns, &claimed, &started, &ended); err != nil {
		return t, err
	}
	t.At, t.Claimed, t.Started, t.Ended = instantOf(at), instantOf(claimed), instantOf(started), instantOf(ended)
	if last != at {
		t.Through = instantOf(last)
	}
	t.Lease.Owner, _ = lease.ParseNonce(owner) // what is none holds nothing
	if json.Unmarshal([]byte(claimant), &t.Claimant) != nil {
		t.Claimant = lease.Holder{Host: damaged}
	}
	return t, nil
}

// damaged is shown instead of what cannot be read, and decides nothing: no row keeps others from being read.
const damaged = "(damaged)"

// truth is a column that is 0 or 1. Any other number is as good as 1: it keeps nobody from reading the row.
type truth bool

// Scan is sql.Scanner's.
func (b *truth) Scan(v any) error {
	switch v := v.(type) {
	case int64:
		*b = v != 0
	case []byte:
		*b = string(v) != "0"
	}
	return nil
}

func tickArgs(t tick.Tick) ([]any, error) {
	claimant, err := json.Marshal(t.Claimant)
	return []any{t.Job, micros(t.At), micros(t.Last()), t.Count, string(t.State),
		string(t.Lease.Key), t.Lease.Owner.String(), int64(t.Lease.Token), string(claimant),
		t.RunID, string(t.Outcome), t.Reason, t.Inferred, t.Reruns,
		micros(t.Claimed), micros(t.Started), micros(t.Ended)}, err
}

func getTick(ctx context.Context, tx *sql.Tx, job string, at int64) (tick.Tick, bool, error) {
	return one(ctx, tx, readTick, sqlTickGet, job, at)
}

func putTick(ctx context.Context, tx *sql.Tx, statement string, t tick.Tick) error {
	args, err := tickArgs(t)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, statement, args...)
	return err
}

// A runRow is a run and the key of the lease under which it was started.
type runRow struct {
	run.Record
	key     lease.Key
	damaged error // the row cannot be understood: only what came before that in it is known
}

func (r runRow) ref() lease.Ref { return lease.Ref{Key: r.key, Owner: r.Owner, Token: r.Token} }

// readRun reads a run. A row that cannot be understood is no error: it must not hide the others.
func readRun(row scanner) (r runRow, _ error) {
	var at, started, ended int64
	var owner, attempts, cause string
	err := row.Scan(&r.ID, &r.Job, &at, &owner, &r.Token, &r.Host, &r.PID, &r.Command,
		&r.Outcome, &r.Reason, (*truth)(&r.Inferred), &started, &ended, &attempts, &r.key, &cause)
	r.Tick, r.Started, r.Ended = instantOf(at), instantOf(started), instantOf(ended)
	if err == nil {
		r.Owner, err = lease.ParseNonce(owner)
	}
	if err == nil {
		err = errors.Join(json.Unmarshal([]byte(attempts), &r.Attempts), json.Unmarshal([]byte(cause), &r.Cause))
	}
	if err != nil {
		r.damaged = fmt.Errorf("%w: %w", errDamaged, err)
	}
	return r, nil
}

func getRun(ctx context.Context, q querier, id string) (runRow, bool, error) {
	r, ok, err := one(ctx, q, readRun, sqlRunGet, id)
	return r, ok, cmp.Or(err, r.damaged)
}

// known is a run; the zero Record if there is none.
func known(ctx context.Context, tx *sql.Tx, id string) (run.Record, error) {
	r, _, err := getRun(ctx, tx, id)
	return r.Record, err
}

// insertRun inserts or does nothing.
func insertRun(ctx context.Context, tx *sql.Tx, r runRow) error {
	args, err := insertArgs(r)
	if err == nil {
		_, err = tx.ExecContext(ctx, sqlRunInsert, args...)
	}
	return err
}

func insertArgs(r runRow) ([]any, error) {
	attempts, err := attemptsText(r.Attempts)
	if err != nil {
		return nil, err
	}
	cause, err := json.Marshal(r.Cause)
	return []any{r.ID, r.Job, micros(r.Tick), r.Owner.String(), int64(r.Token), r.Host, r.PID,
		r.Command, string(r.Outcome), r.Reason, r.Inferred, micros(r.Started), micros(r.Ended), attempts, string(r.key), string(cause)}, err
}

// closeRun writes an outcome if r's own fence allows it: the first one, or the run's own word over what another
// process inferred.
func closeRun(ctx context.Context, tx *sql.Tx, r run.Record) error {
	args, err := closeArgs(r)
	if err == nil {
		_, err = tx.ExecContext(ctx, sqlRunClose, args...)
	}
	return err
}

func closeArgs(r run.Record) ([]any, error) {
	attempts, err := attemptsText(r.Attempts)
	return []any{r.ID, r.Owner.String(), int64(r.Token),
		string(r.Outcome), r.Reason, r.Inferred, micros(r.Ended), attempts}, err
}

func attemptsText(all []run.Attempt) (string, error) {
	kept := make([]run.Attempt, len(all))
	for i, a := range all {
		a.Started, a.Ended = micro(a.Started), micro(a.Ended)
		kept[i] = a
	}
	if len(kept) == 0 {
		kept = nil
	}
	b, err := json.Marshal(kept)
	return string(b), err
}

func readJob(row scanner) (j tick.Job, err error) {
	var since, mark, removed, pausedSince, pausedUntil int64
	err = row.Scan(&j.Name, &j.Definition, &j.Generation, &since, &mark, &removed,
		&pausedSince, &pausedUntil, &j.Pause.By, &j.Pause.Why, (*truth)(&j.Pause.Resumed), &j.Past)
	j.Since, j.Mark, j.Removed = instantOf(since), instantOf(mark), instantOf(removed)
	j.Pause.Since, j.Pause.Until = instantOf(pausedSince), instantOf(pausedUntil)
	return j, err
}

func getJob(ctx context.Context, tx *sql.Tx, name string) (tick.Job, bool, error) {
	return one(ctx, tx, readJob, sqlJobGet, name)
}

func putJob(ctx context.Context, tx *sql.Tx, j tick.Job) error {
	_, err := tx.ExecContext(ctx, sqlJobPut, j.Name, j.Definition, j.Generation, micros(j.Since), micros(j.Mark), micros(j.Removed),
		micros(j.Pause.Since), micros(j.Pause.Until), j.Pause.By, j.Pause.Why, j.Pause.Resumed, j.Past)
	return err
}
