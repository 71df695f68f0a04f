package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/tick"
)

// Jobs reads a page of the registry, or jobs by name.
func (k ticks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	var found []tick.Job
	from, to := q.Range()
	read := do(sqlJobs()[0], k.ns, []byte(from), past(to), []byte(q.After), q.Max())
	if len(q.Names) > 0 {
		read = do(sqlJobs()[3], k.ns, column(q.Names, func(name string) []byte { return []byte(name) }))
	}
	err := k.db.run(ctx, "jobs", read.each(jobRows(&found)))
	return found, err
}

func jobRows(into *[]tick.Job) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var (
			j                        tick.Job
			name                     []byte
			since, mark, removed     int64
			pausedSince, pausedUntil int64
		)
		if err := rows.Scan(&name, &j.Definition, &j.Generation, &since, &mark, &removed,
			&pausedSince, &pausedUntil, &j.Pause.By, &j.Pause.Why, &j.Pause.Resumed, &j.Past); err != nil {
			return err
		}
		j.Pause.Since, j.Pause.Until = instant(pausedSince), instant(pausedUntil)
		j.Name, j.Since, j.Mark, j.Removed = string(name), instant(since), instant(mark), instant(removed)
		*into = append(*into, j)
		return nil
	}
}

// SetJobs registers and removes definitions in one batch, and reads them as they then stand (rule T11).
func (k ticks) SetJobs(ctx context.Context, reqs []tick.JobRequest) ([]tick.Job, error) {
	var set, removed []tick.JobRequest
	for _, r := range reqs {
		if r.Remove {
			removed = append(removed, r)
		} else {
			set = append(set, r)
		}
	}
	name := func(r tick.JobRequest) []byte { return []byte(r.Name) }
	since := func(r tick.JobRequest) int64 { return micros(r.Since) }
	of := func(r tick.JobRequest) int64 { return r.Of }
	var found []tick.Job
	err := k.db.run(ctx, "set jobs",
		do(sqlJobs()[1], k.ns, column(set, name), column(set, func(r tick.JobRequest) string { return r.Definition }), column(set, since),
			column(set, func(r tick.JobRequest) string { return r.Past }), column(set, of),
			column(set, func(r tick.JobRequest) int64 { return micros(r.Mark) })),
		do(sqlJobs()[2], k.ns, column(removed, name), column(removed, since), column(removed, of)),
		do(sqlJobs()[3], k.ns, column(reqs, name)).each(jobRows(&found)))
	if err != nil {
		return nil, err
	}
	byName := map[string]tick.Job{}
	for _, j := range found {
		byName[j.Name] = j
	}
	return column(reqs, func(r tick.JobRequest) tick.Job {
		if j, there := byName[r.Name]; there {
			return j
		}
		return tick.Job{Name: r.Name} // there was nothing to remove
	}), nil
}

// Pause begins or ends a pause (rule T8).
func (k ticks) Pause(ctx context.Context, req tick.PauseRequest) (tick.Job, error) {
	req = bounds.Of(req)
	found := []tick.Job{}
	err := k.db.run(ctx, "pause", do(sqlJobs()[4], k.ns, []byte(req.Job), micros(req.Until), req.By, req.Why, req.Resume).each(jobRows(&found)))
	if err != nil || len(found) == 0 {
		return tick.Job{Name: req.Job}, err
	}
	return found[0], nil
}

// Settle locks the job, settles, and reads the clock (rule T4). A row of the second statement says that it settled.
func (k ticks) Settle(ctx context.Context, req tick.SettleRequest) (tick.Answer, error) {
	req = bounds.Of(req)
	a := tick.Answer{Status: tick.Taken}
	now := func(rows pgx.Rows) error {
		var us int64
		err := rows.Scan(&us)
		a.Now = instant(us)
		return err
	}
	rows := req.Rows
	err := k.db.run(ctx, "settle",
		do(sqlSettle()[0], k.ns, []byte(req.Job)),
		do(sqlSettle()[1], k.ns, []byte(req.Job), micros(req.From), micros(req.To),
			column(rows, func(t tick.Tick) int64 { return micros(t.At) }),
			column(rows, func(t tick.Tick) int64 { return micros(t.Through) }),
			column(rows, func(t tick.Tick) int32 { return int32(t.Count) }),
			column(rows, func(t tick.Tick) string { return string(t.Outcome) }),
			column(rows, func(t tick.Tick) string { return t.Reason }),
			column(rows, func(t tick.Tick) bool { return t.Inferred }),
			column(rows, func(t tick.Tick) int64 { return micros(t.Ended) }), req.Generation).
			each(func(rows pgx.Rows) error { a.Status = tick.Won; return now(rows) }),
		do(sqlSettle()[2]).each(now))
	if err != nil {
		return tick.Answer{}, err
	}
	return a, nil
}

// Unsettle locks the job and the rows, and takes outcomes back (rule L12).
func (k ticks) Unsettle(ctx context.Context, req tick.UnsettleRequest) (tick.Answer, error) {
	a := tick.Answer{Status: tick.Taken}
	now := func(rows pgx.Rows) error {
		var us int64
		err := rows.Scan(&us)
		a.Now = instant(us)
		return err
	}
	job, at := []byte(req.Job), column(req.Rows, func(t tick.Tick) int64 { return micros(t.At) })
	err := k.db.run(ctx, "unsettle",
		do(sqlSettle()[0], k.ns, job),
		do(sqlSettle()[6], k.ns, job, at),
		do(sqlSettle()[5], k.ns, job, micros(req.From), micros(req.To), at,
			column(req.Rows, func(t tick.Tick) int64 { return micros(t.Through) }), tick.MaxBack.Microseconds()).
			each(func(rows pgx.Rows) error { a.Status = tick.Won; return now(rows) }),
		do(sqlSettle()[2]).each(now))
	if err != nil {
		return tick.Answer{}, err
	}
	return a, nil
}

func (k ticks) Split(ctx context.Context, req tick.SplitRequest) (tick.Answer, error) {
	a := tick.Answer{Status: tick.Taken}
	row, job := req.Row, []byte(req.Row.Job)
	err := k.db.run(ctx, "split",
		do(sqlSettle()[3], k.ns, job, micros(row.At)),
		do(sqlSettle()[4], k.ns, job, micros(row.At), micros(row.Through), row.Count,
			column(req.Parts, func(t tick.Tick) int64 { return micros(t.At) }),
			column(req.Parts, func(t tick.Tick) int64 { return micros(t.Through) }),
			column(req.Parts, func(t tick.Tick) int32 { return int32(t.Count) })).
			each(func(pgx.Rows) error { a.Status = tick.Won; return nil }),
		do(sqlHistory()[6], k.ns, job, micros(row.At), micros(row.At)+1, 1).each(func(rows pgx.Rows) (err error) {
			a.Tick, _, err = new(tickRow).scan(rows)
			return err
		}),
		do(sqlSettle()[2]).each(func(rows pgx.Rows) error {
			var us int64
			err := rows.Scan(&us)
			a.Now = instant(us)
			return err
		}))
	if err != nil {
		return tick.Answer{}, err
	}
	return a, nil
}
