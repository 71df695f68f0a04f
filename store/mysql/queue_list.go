package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// few is up to how many tasks a list finds by the index of final states. Of more, it walks over all tasks in the
// order of their ids.
const few = looked / 2

// Tasks fulfils driver.Admin. The database cannot select by everything: the rest is judged here, a bounded number of
// rows at a time.
func (d admin) Tasks(ctx context.Context, f driver.Filter) (out []driver.Task, err error) {
	many := f.Rows()
	if f.Tag != "" || f.Unique != "" || f.Limit != "" {
		many = 1000
	}
	ids, ok, err := d.txn(ctx).few(f)
	for more := true; err == nil && more; {
		b := d.txn(ctx)
		var found []*taskRow
		if ok {
			some := ids[:min(len(ids), many)]
			ids = ids[len(some):]
			found, err = b.among(f, some)
			more = len(ids) > 0
		} else {
			found, f, more, err = b.window(f, many)
		}
		if err != nil {
			break
		}
		var workers []int64
		for _, t := range found {
			workers = append(workers, t.worker)
		}
		if err := b.processes(workers...); err != nil {
			return nil, err
		}
		for _, t := range found {
			if !t.Matches(&f) {
				continue
			}
			if t.Worker, err = b.process(t.worker); err != nil {
				return nil, err
			}
			if out = append(out, t.Task.Task); len(out) == f.Rows() {
				return out, nil
			}
		}
	}
	return out, err
}

// few returns the ids of the tasks that the states and the instant of f may select, in the order of f, if they are
// few. So a list of rare states does not read the others. ok is false if they are many, or if f selects by neither.
func (b *txn) few(f driver.Filter) (ids []int64, ok bool, err error) {
	if len(f.States) == 0 && f.Since.IsZero() {
		return nil, false, nil
	}
	since := map[int]int64{} // by done, which is 0 for all that have not ended
	for _, s := range task.States {
		switch {
		case len(f.States) > 0 && !slices.Contains(f.States, s):
		case s.Final():
			since[lifecycle.Number(s)] = micros(f.Since)
		default:
			since[0] = 0
		}
	}
	for done := range lifecycle.States {
		if at, wanted := since[done]; wanted && err == nil && len(ids) <= few {
			err = b.ask(func(p *packet) []reader {
				p.add("few", b.q.ns, done, at, few+1)
				return []reader{func(r *sql.Rows) error {
					var id int64
					err := r.Scan(&id)
					ids = append(ids, id)
					return err
				}}
			})
		}
	}
	if err != nil || len(ids) > few {
		return nil, false, err
	}
	ids = slices.DeleteFunc(ids, func(id int64) bool { return id <= int64(f.After) || id >= f.End() })
	slices.Sort(ids)
	if f.Newest {
		slices.Reverse(ids)
	}
	return slices.Compact(ids), true, nil // one that ended meanwhile may have been met twice
}

// among reads some tasks, in the order of f.
func (b *txn) among(f driver.Filter, ids []int64) (found []*taskRow, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	all := make(list, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	err = b.ask(func(p *packet) []reader {
		p.add("task-columns").add("tasks-by-id", b.q.ns, all)
		return []reader{b.reads(&found)}
	})
	slices.SortFunc(found, func(x, y *taskRow) int { return cmp.Compare(x.ID, y.ID) })
	if f.Newest {
		slices.Reverse(found)
	}
	return found, err
}

// window reads the tasks of the next window that f selects, many at most. It returns f continued past what it read,
// and whether there may be more.
func (b *txn) window(f driver.Filter, many int) (found []*taskRow, next driver.Filter, more bool, err error) {
	numbers := list{-1} // what is no state selects nothing
	for _, s := range f.States {
		if s.Valid() {
			numbers = append(numbers, lifecycle.Number(s))
		}
	}
	w := walk{end: int64(f.After), below: f.End(), newest: f.Newest}
	err = b.ask(func(p *packet) []reader {
		first := w.add(p, b.q.ns)
		p.add("task-columns").add("tasks-window", b.q.ns, []byte(f.Queue), []byte(f.Queue), []byte(f.Kind), []byte(f.Kind),
			len(f.States), numbers, micros(f.Since), w.order(), many)
		return []reader{first, b.reads(&found)}
	})
	switch {
	case err != nil:
		return nil, f, false, err
	case len(found) == many:
		return found, f.Past(found[many-1].ID), true, nil
	}
	return found, f.Past(task.ID(w.end)), w.n == looked, nil
}

// A walk is the part of a namespace that one statement walks over.
type walk struct {
	end    int64 // the last task of it; those of the next one come after it
	below  int64 // the ids end here
	newest bool  // it goes down from there, and end is where it stops
	n      int   // how many tasks it has
}

// add makes the next window the one of the statements that follow.
func (w *walk) add(p *packet, ns []byte) reader {
	p.add("window", ns, w.end, w.below, w.order(), looked)
	return func(r *sql.Rows) error {
		var first, last int64
		err := r.Scan(&first, &last, &w.n)
		if w.end = last; w.newest {
			w.end = first
		}
		return err
	}
}

// order is the direction of a walk.
func (w *walk) order() piece {
	if w.newest {
		return with("descending")
	}
	return with("ascending")
}
