package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Start writes that work begins (rule Q4).
func (t tasks) Start(ctx context.Context, worker lease.Ref, refs []driver.Ref) ([]driver.Status, error) {
	ok := map[int64]bool{}
	err := t.db.run(ctx, "start", do(sqlWork()[1], args(t.ns)(append(ref(worker),
		column(refs, func(r driver.Ref) int64 { return int64(r.ID) }),
		column(refs, func(r driver.Ref) int64 { return int64(r.Token) }))...)...).each(ids(ok)))
	if err != nil {
		return nil, err
	}
	return column(refs, func(r driver.Ref) driver.Status { return status(ok[int64(r.ID)]) }), nil
}

func ids(into map[int64]bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var id int64
		err := rows.Scan(&id)
		into[id] = true
		return err
	}
}

func status(ok bool) driver.Status {
	if ok {
		return driver.OK
	}
	return driver.Gone
}

// Finish ends runs. If another transaction has one of the tasks, the first try fails after 100 ms; the second leaves
// such tasks out and answers Withheld for them, so that nobody waits.
func (t tasks) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	if len(ends) == 0 {
		return nil, ctx.Err()
	}
	f := t.finish(worker, ends, false, false)
	err := t.db.run(ctx, "finish", f.steps...)
	if refused(err, "55P03") { // then those that no other transaction has, and nobody waits
		f = t.finish(worker, ends, false, true)
		err = t.db.run(ctx, "finish", f.steps...)
	}
	if err != nil {
		return nil, err
	}
	return f.statuses, nil
}

// finish ends runs, in rounds in which no task is twice.
type finish struct {
	steps    []step
	statuses []driver.Status
}

// finish plans the rounds. With skip, tasks that another transaction has are left as they are.
func (t tasks) finish(worker lease.Ref, ends []driver.Completion, own, skip bool) *finish {
	f := &finish{statuses: make([]driver.Status, len(ends))}
	seen := map[task.ID]int{}
	var rounds [][]int
	for i, c := range ends {
		f.statuses[i] = driver.Gone
		n := seen[c.ID]
		seen[c.ID]++
		if n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], i)
	}
	for _, round := range rounds {
		slices.SortFunc(round, func(a, b int) int { return cmp.Compare(ends[a].ID, ends[b].ID) })
		at := make(map[int64]int, len(round))
		for _, i := range round {
			at[int64(ends[i].ID)] = i
		}
		columns := append(completions(column(round, func(i int) driver.Completion { return ends[i] })), skip)
		f.steps = append(f.steps, do(sqlWork()[2], args(t.ns, own)(append(ref(worker), columns...)...)...).each(func(rows pgx.Rows) error {
			var id int64
			err := rows.Scan(&id)
			if id < 0 {
				f.statuses[at[-id]] = driver.Withheld
			} else {
				f.statuses[at[id]] = driver.OK
			}
			return err
		}))
	}
	return f
}

// completions are the columns of sql/queue/work.sql [2]. If all runs just succeeded, only the tasks are sent.
func completions(ends []driver.Completion) []any {
	columns := []any{
		column(ends, func(c driver.Completion) int64 { return int64(c.ID) }),
		column(ends, func(c driver.Completion) int64 { return int64(c.Token) }),
	}
	if !slices.ContainsFunc(ends, func(c driver.Completion) bool { return c.Verdict != driver.Success || c.Reason != "" }) {
		return append(columns, []int16(nil), []int64(nil), []string(nil), []string(nil), []int64(nil), []int64(nil), []string(nil))
	}
	return append(columns,
		column(ends, func(c driver.Completion) int16 { return int16(c.Verdict) }),
		column(ends, func(c driver.Completion) int64 { return c.Delay.Microseconds() }),
		column(ends, func(c driver.Completion) string { return storable(c.Reason) }),
		column(ends, func(c driver.Completion) string { return c.Outcome }),
		column(ends, func(c driver.Completion) int64 { return micros(c.Started) }),
		column(ends, func(c driver.Completion) int64 { return micros(c.Ended) }),
		column(ends, func(c driver.Completion) string { return storable(c.Error) }))
}

// storable makes a text that the server accepts: what a handler returns may be any bytes.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Running reads the tasks that a worker has, or only those that are asked to stop.
func (t tasks) Running(ctx context.Context, worker lease.Ref, asked bool) ([]driver.RunningTask, error) {
	var found []driver.RunningTask
	which := sqlWork()[3]
	if asked {
		which = sqlWork()[6]
	}
	err := t.db.run(ctx, "read a worker's tasks", do(which, args(t.ns)(ref(worker)...)...).each(func(rows pgx.Rows) error {
		var a driver.RunningTask
		var id, token int64
		err := rows.Scan(&id, &token, &a.Stop)
		a.ID, a.Token = task.ID(id), lease.Token(token)
		found = append(found, a)
		return err
	}))
	return found, err
}
