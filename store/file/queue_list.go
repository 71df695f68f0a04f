//go:build linux

package file

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

const (
	// listed is how many tasks one statement of a list reads.
	listed = 1000
	// few is up to how many tasks a list finds by the indexes of their states. Of more, it walks over all tasks in
	// the order of their ids.
	few = 5000
)

// Tasks fulfils driver.Admin. The database cannot select by everything: the rest is judged here, a bounded number of
// rows at a time.
func (d admin) Tasks(ctx context.Context, f driver.Filter) (out []driver.Task, err error) {
	many := f.Rows()
	if f.Tag != "" || f.Unique != "" || f.Limit != "" {
		many = listed
	}
	err = d.look(ctx, func(b *txn) error {
		out = nil
		f := f // a look that failed begins anew
		ids, ok, err := b.few(f)
		if err != nil {
			return err
		}
		for more := true; more; {
			where, args := selection(f)
			if ok {
				some := ids[:min(len(ids), many)]
				ids = ids[len(some):]
				where, args = among(where, args, some)
			}
			found, err := query(b.ctx, b.tx, readTask, statements()["task_columns"]+where+order(f), append(args, many)...)
			if err != nil {
				return err
			}
			for i := range found {
				t := &found[i]
				f = f.Past(t.ID)
				if !t.Matches(&f) {
					continue
				}
				if t.Worker, err = b.process(t.worker); err != nil {
					return err
				}
				if out = append(out, t.Task.Task); len(out) == f.Rows() {
					return nil
				}
			}
			more = len(ids) > 0 || !ok && len(found) == many
		}
		return nil
	})
	return out, err
}

// few returns the ids of the tasks that the states and the instant of f select, in the order of f, if they are few.
// So a list of rare states does not read the others. ok is false if they are many, or if f selects by neither.
func (b *txn) few(f driver.Filter) (ids []int64, ok bool, err error) {
	if len(f.States) == 0 && f.Since.IsZero() {
		return nil, false, nil
	}
	met := 0
	read := func(name string, args ...any) {
		var some []int64
		if err == nil && met <= few {
			some, err = rows(b, func(row scanner) (id int64, err error) { return id, row.Scan(&id) }, name, append(args, few+1)...)
		}
		met += len(some)
		for _, id := range some {
			if id > int64(f.After) && id < f.End() {
				ids = append(ids, id)
			}
		}
	}
	all := len(f.States) == 0
	if all { // and the rows whose state is none
		read("few_open", math.MinInt32, lifecycle.Number(task.Succeeded)-1)
		read("few_open", lifecycle.Number(task.Crashed)+1, math.MaxInt32)
	}
	for _, s := range task.States {
		switch n := lifecycle.Number(s); {
		case !all && !slices.Contains(f.States, s):
		case s.Final():
			read("few_ended", n, micros(f.Since))
			if s == task.Succeeded {
				read("few_windows")
			}
		case !all:
			read("few_open", n, n)
		}
	}
	if err != nil || met > few {
		return nil, false, err
	}
	slices.Sort(ids)
	if f.Newest {
		slices.Reverse(ids)
	}
	return slices.Compact(ids), true, nil
}

// among narrows a selection to some ids.
func among(where string, args []any, ids []int64) (string, []any) {
	if len(ids) == 0 {
		return where + " AND false", args
	}
	for _, id := range ids {
		args = append(args, id)
	}
	return where + " AND t.id IN (?" + strings.Repeat(", ?", len(ids)-1) + ")", args
}

// selection is the part of a filter that the database can do.
func selection(f driver.Filter) (where string, args []any) {
	where, args = " WHERE t.id > ? AND t.id < ?", []any{int64(f.After), f.End()}
	if f.Queue != "" {
		where, args = where+" AND l.queue = ?", append(args, f.Queue)
	}
	if f.Kind != "" {
		where, args = where+" AND l.kind = ?", append(args, f.Kind)
	}
	if len(f.States) > 0 {
		where += " AND t.state IN (?" + strings.Repeat(", ?", len(f.States)-1) + ")"
		for _, s := range f.States {
			number := -1 // what is no state selects nothing
			if s.Valid() {
				number = lifecycle.Number(s)
			}
			args = append(args, number)
		}
	}
	if !f.Since.IsZero() {
		where += " AND CASE WHEN t.state BETWEEN 5 AND 9 THEN t.ended ELSE t.enqueued END >= ?"
		args = append(args, micros(f.Since))
	}
	return where, args
}

// order ends the statement of a list; its argument is how many rows it reads.
func order(f driver.Filter) string {
	if f.Newest {
		return " ORDER BY t.id DESC LIMIT ?"
	}
	return " ORDER BY t.id LIMIT ?"
}
