//go:build linux

package file

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// look reads the last committed state, the same for all of do. It waits for no writer, and delays none.
func (d admin) look(ctx context.Context, do func(*txn) error) error {
	p, err := d.db.open(ctx)
	if err != nil {
		return err
	}
	tx, err := p.reader.BeginTx(ctx, nil)
	if err == nil {
		defer func() { _ = tx.Rollback() }()
		b := d.db.txn(ctx, tx, preparing(tx))
		b.looks = true
		err = do(b)
	}
	return d.db.fail("read", err)
}

// Queues fulfils driver.Admin.
func (d admin) Queues(ctx context.Context) (out []driver.SubQueue, err error) {
	err = d.look(ctx, func(b *txn) error {
		subs := map[subQueueName]*driver.SubQueue{}
		at := func(p subQueueName) *driver.SubQueue {
			if subs[p] == nil {
				subs[p] = &driver.SubQueue{Queue: p.queue, Kind: p.kind, Depth: map[task.State]int{}}
			}
			return subs[p]
		}
		if _, err := rows(b, func(row scanner) (any, error) {
			var p subQueueName
			var state, n int
			var oldest int64
			if err := row.Scan(&p.queue, &p.kind, &state, &n, &oldest); err != nil {
				return nil, err
			}
			l, s := at(p), stateOf(state)
			l.Depth[s] = n
			if due := instantOf(oldest); (s == task.Available || s == task.Blocked) && (l.Oldest.IsZero() || due.Before(l.Oldest)) {
				l.Oldest = due
			}
			return nil, nil
		}, "depths"); err != nil {
			return err
		}
		pauses, err := b.pauses()
		for _, p := range pauses {
			if p.Queue != "" && p.Kind != "" {
				at(subQueueName{p.Queue, p.Kind})
			}
		}
		out = make([]driver.SubQueue, 0, len(subs))
		for _, l := range subs {
			out = append(out, *l)
		}
		slices.SortFunc(out, func(x, y driver.SubQueue) int {
			return cmp.Or(strings.Compare(x.Queue, y.Queue), strings.Compare(x.Kind, y.Kind))
		})
		return err
	})
	return out, err
}

// Workers fulfils driver.Admin.
func (d admin) Workers(ctx context.Context) (out []driver.Process, err error) {
	err = d.look(ctx, func(b *txn) error {
		out = nil
		there, err := rows(b, readWorker, "workers_there", 0, 10_000)
		if err != nil {
			return err
		}
		for _, w := range there {
			live, err := b.live(w.Lease)
			if err != nil {
				return err
			}
			if !live {
				continue
			}
			if err := b.scan("running_count", []any{w.id}, &w.Running); err != nil {
				return err
			}
			out = append(out, w.Process)
		}
		slices.SortFunc(out, func(x, y driver.Process) int {
			return cmp.Or(strings.Compare(x.Host, y.Host), cmp.Compare(x.PID, y.PID))
		})
		return nil
	})
	return out, err
}

// Task fulfils driver.Admin.
func (d admin) Task(ctx context.Context, id task.ID) (out driver.Task, held driver.Slots, ok bool, err error) {
	err = d.look(ctx, func(b *txn) error {
		t, err := b.get(id)
		if ok = t != nil; err != nil || !ok {
			return err
		}
		if t.Worker, err = b.process(t.worker); err != nil {
			return err
		}
		t.History, err = rows(b, func(row scanner) (a task.Attempt, err error) {
			var text []byte
			if err = row.Scan(&text); err == nil {
				err = json.Unmarshal(text, &a)
			}
			return a, err
		}, "attempts", int64(id))
		out = t.Task.Task
		if err == nil && t.limit != 0 {
			held, err = b.slots(t)
		}
		return err
	})
	return out, held, ok, err
}

// slots says how far a limit is used.
func (b *txn) slots(t *taskRow) (s driver.Slots, err error) {
	s.Key, s.Max = t.Limit.Key, t.Limit.Slots() // if it was forgotten
	h := t.Limit.Hash(t.Kind)
	l, err := b.known(readLimit(b.row("limit_find", h[:])))
	if errors.Is(err, sql.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.Key, s.Max = l.key, l.Max
	if err := b.scan("blocked", []any{l.id}, &s.Waiting); err != nil {
		return s, err
	}
	type holding struct {
		driver.Holding
		worker int64
	}
	all, err := rows(b, func(row scanner) (h holding, err error) {
		var started int64
		err = row.Scan(&h.ID, &h.Kind, &started, &h.worker)
		h.Since = instantOf(started)
		return h, err
	}, "slots", l.id)
	for _, h := range all {
		if h.Worker, err = b.process(h.worker); err != nil {
			return s, err
		}
		s.Running = append(s.Running, h.Holding)
	}
	return s, err
}

// SetLimit fulfils driver.Admin.
func (d admin) SetLimit(ctx context.Context, key task.Hash, slots int, by string) (ok bool, err error) {
	err = d.db.step(ctx, func(b *txn) (err error) {
		ok, err = d.setLimit(b, key, slots, by)
		return err
	})
	return ok, err
}

// Count fulfils driver.Store.
func (q queues) Count(ctx context.Context, counts []driver.Count) error {
	return q.db.step(ctx, func(b *txn) error { return b.countAll(counts) })
}

func (b *txn) countAll(counts []driver.Count) error {
	for _, c := range counts {
		if err := b.exec("count", micros(c.Minute.Truncate(time.Minute)), c.Queue, c.Kind, c.Name, c.N); err != nil {
			return err
		}
	}
	return nil
}

// Counts fulfils driver.Admin.
func (d admin) Counts(ctx context.Context, from, to time.Time) ([]driver.Count, error) {
	return ask(ctx, d.db, func(row scanner) (c driver.Count, err error) {
		return c, row.Scan(&c.Queue, &c.Kind, &c.Name, &c.N)
	}, statements()["counts"], micros(from), micros(to))
}
