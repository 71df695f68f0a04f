//go:build linux

package file

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"encoding/json"
	"slices"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/tick"
)

var (
	//go:embed queries/jobs.sql
	sqlJobs string
	//go:embed queries/jobs_named.sql
	sqlJobsNamed string
	//go:embed queries/ticks_between.sql
	sqlTicksBetween string
	//go:embed queries/tick_delete.sql
	sqlTickDelete string
)

// Jobs fulfils tick.Store.
func (k *ticks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	if len(q.Names) > 0 {
		return k.named(ctx, slices.Compact(slices.Sorted(slices.Values(q.Names))))
	}
	from, to := q.Range()
	if q.After != "" {
		from = max(from, q.After+"\x00")
	}
	return ask(ctx, k.db, readJob, sqlJobs, from, to, q.Max())
}

func (k *ticks) named(ctx context.Context, names []string) (all []tick.Job, err error) {
	for part := range slices.Chunk(names, maxBatch) {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		some, err := ask(ctx, k.db, readJob, sqlJobsNamed, string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// SetJobs fulfils tick.Store.
func (k *ticks) SetJobs(ctx context.Context, reqs []tick.JobRequest) (jobs []tick.Job, err error) {
	err = writeEach(ctx, k.db, reqs, func(tx *sql.Tx, req tick.JobRequest) error {
		j, found, err := getJob(ctx, tx, req.Name)
		if err != nil {
			return err
		}
		next, changed := req.Apply(j, found, instantNow().time())
		jobs = append(jobs, next)
		if !changed {
			return nil
		}
		return putJob(ctx, tx, next)
	})
	return jobs, err
}

// Pause fulfils tick.Store.
func (k *ticks) Pause(ctx context.Context, req tick.PauseRequest) (tick.Job, error) {
	req = bounds.Of(req)
	var job tick.Job
	err := k.db.write(ctx, func(tx *sql.Tx) error {
		j, found, err := getJob(ctx, tx, req.Job)
		if err != nil || !found || !j.Removed.IsZero() {
			job = tick.Job{Name: req.Job}
			return err
		}
		req.Until = micro(req.Until)
		j.Pause = req.Apply(j.Pause, instantNow().time())
		job = j
		return putJob(ctx, tx, j)
	})
	return job, err
}

// Settle fulfils tick.Store.
func (k *ticks) Settle(ctx context.Context, req tick.SettleRequest) (tick.Answer, error) {
	req = bounds.Of(req)
	return req.InParts(maxBatch, func(part tick.SettleRequest) (tick.Answer, time.Time, error) { return k.settlePart(ctx, part) })
}

// settlePart returns the mark as it then stands.
func (k *ticks) settlePart(ctx context.Context, req tick.SettleRequest) (a tick.Answer, mark time.Time, err error) {
	err = k.db.write(ctx, func(tx *sql.Tx) error {
		a = tick.Answer{Status: tick.Taken, Now: instantNow().time()}
		job, _, err := getJob(ctx, tx, req.Job)
		if err != nil || !req.Fits(job) {
			return err
		}
		above, err := query(ctx, tx, readTick, sqlTicksBetween, req.Job, micros(job.Mark), micros(req.To))
		if err != nil {
			return err
		}
		status, next, rows := tick.JudgeSettle(req, job, above, a.Now)
		a.Status, mark = status, next.Mark
		for _, row := range rows {
			if err := putTick(ctx, tx, sqlTickInsert, row); err != nil {
				return err
			}
		}
		if next.Mark.Equal(job.Mark) {
			return nil
		}
		return putJob(ctx, tx, next)
	})
	return a, mark, err
}

// Unsettle fulfils tick.Store.
func (k *ticks) Unsettle(ctx context.Context, req tick.UnsettleRequest) (a tick.Answer, err error) {
	req.From, req.To = micro(req.From), micro(req.To)
	err = k.db.write(ctx, func(tx *sql.Tx) error {
		a = tick.Answer{Status: tick.Taken, Now: instantNow().time()}
		job, found, err := getJob(ctx, tx, req.Job)
		if err != nil || !found || !req.Allows(job, a.Now) {
			return err
		}
		for _, r := range req.Rows {
			t, there, err := getTick(ctx, tx, req.Job, micros(r.At))
			if err != nil || !there || !req.Takes(t, micro(r.Through), a.Now) {
				return err
			}
		}
		a.Status = tick.Won
		for _, r := range req.Rows {
			if _, err := tx.ExecContext(ctx, sqlTickDelete, req.Job, micros(r.At)); err != nil {
				return err
			}
		}
		return putJob(ctx, tx, job.Back(req.To, a.Now))
	})
	return a, err
}

// Split fulfils tick.Store.
func (k *ticks) Split(ctx context.Context, req tick.SplitRequest) (a tick.Answer, err error) {
	err = k.db.write(ctx, func(tx *sql.Tx) error {
		a = tick.Answer{Status: tick.Taken, Now: instantNow().time()}
		row, _, err := getTick(ctx, tx, req.Row.Job, micros(req.Row.At))
		if err != nil || !req.Splits(row) {
			a.Tick = row
			return err
		}
		a.Status = tick.Won
		for i, p := range req.Parts {
			row.At, row.Through, row.Count = micro(p.At), micro(p.Through), p.Count
			statement := sqlTickInsert
			if i == 0 {
				statement, a.Tick = sqlTickUpdate, row
			}
			if err := putTick(ctx, tx, statement, row); err != nil {
				return err
			}
		}
		return nil
	})
	return a, err
}
