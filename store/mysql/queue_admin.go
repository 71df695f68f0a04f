package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// Queues fulfils driver.Admin.
func (d admin) Queues(ctx context.Context) (out []driver.SubQueue, err error) {
	subs := map[subQueueName]*driver.SubQueue{}
	at := func(p subQueueName) *driver.SubQueue {
		if subs[p] == nil {
			subs[p] = &driver.SubQueue{Queue: p.queue, Kind: p.kind, Depth: map[task.State]int{}}
		}
		return subs[p]
	}
	var pauses []driver.Pause
	var mu sync.Mutex
	read := func(r *sql.Rows) error {
		var p subQueueName
		var state, n int
		var oldest int64
		if err := r.Scan(&p.queue, &p.kind, &state, &n, &oldest); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		l, s := at(p), task.Damaged
		if state >= 0 && state < len(lifecycle.States) {
			s = lifecycle.States[state]
		}
		l.Depth[s] += n
		if due := instant(oldest); (s == task.Available || s == task.Blocked) && (l.Oldest.IsZero() || due.Before(l.Oldest)) {
			l.Oldest = due
		}
		return nil
	}
	if err = d.count(ctx, read); err == nil {
		err = d.run(ctx, new(packet).add("clock").add("pauses", d.ns), readPauses(&pauses))
	}
	if err != nil {
		return nil, err
	}
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
	return out, nil
}

// countersAtOnce is how many connections count tasks for somebody who waits, each in its part of the ids.
const countersAtOnce = 4

// count reads how many tasks there are, window by window.
func (d admin) count(ctx context.Context, read reader) error {
	var low, high int64
	if err := d.run(ctx, new(packet).add("ids", d.ns, d.ns), func(r *sql.Rows) error { return r.Scan(&low, &high) }); err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	for part := (high-low)/countersAtOnce + 1; low <= high; low += part {
		w := walk{end: low - 1, below: min(low+part, high+1), n: looked}
		if w.below > high {
			w.below = math.MaxInt64 // those that are enqueued meanwhile
		}
		all.Go(func() error {
			for w.n == looked {
				p := new(packet)
				first := w.add(p, d.ns)
				if err := d.run(ctx, p.add("depths", d.ns), first, read); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// Workers fulfils driver.Admin.
func (d admin) Workers(ctx context.Context) (out []driver.Process, err error) {
	b := d.txn(ctx)
	there, err := b.there()
	for _, w := range there {
		if w.live {
			out = append(out, w.Process)
		}
	}
	slices.SortFunc(out, func(x, y driver.Process) int {
		return cmp.Or(strings.Compare(x.Host, y.Host), cmp.Compare(x.PID, y.PID))
	})
	return out, err
}

// txn is one to look at.
func (q queues) txn(ctx context.Context) *txn {
	b := &txn{ctx: ctx, q: q, looks: true}
	b.reset()
	return b
}

// Task fulfils driver.Admin.
func (d admin) Task(ctx context.Context, id task.ID) (out driver.Task, held driver.Slots, ok bool, err error) {
	b := d.txn(ctx)
	t, err := b.get(id)
	if ok = t != nil; err != nil || !ok {
		return out, held, ok, err
	}
	if t.Worker, err = b.process(t.worker); err != nil {
		return out, held, ok, err
	}
	err = b.ask(func(p *packet) []reader {
		p.add("attempts", int64(id))
		return []reader{func(r *sql.Rows) error {
			var text []byte
			var a task.Attempt
			err := r.Scan(&text)
			if err == nil && !fromJSON(text, &a) {
				a.Error = damaged
			}
			t.History = append(t.History, a)
			return err
		}}
	})
	if err == nil && t.limit != nil {
		held, err = b.slots(t)
	}
	return t.Task.Task, held, ok, err
}

// slots says how far a limit is used.
func (b *txn) slots(t *taskRow) (s driver.Slots, err error) {
	s.Key, s.Max = t.Limit.Key, t.Limit.Slots() // as long as nobody but a transaction has named it
	var found []*taskRow
	err = b.ask(func(p *packet) []reader {
		p.add("slots", b.q.ns, t.limit[:]).add("task-columns").add("tasks-slots", b.q.ns, t.limit[:])
		return []reader{func(r *sql.Rows) error { return r.Scan(&s.Key, &s.Max) }, b.reads(&found)}
	})
	if err == nil {
		s.Waiting, err = b.countBlocked(*t.limit)
	}
	if err != nil {
		return s, err
	}
	var workers []int64
	for _, x := range found {
		workers = append(workers, x.worker)
	}
	err = b.processes(workers...)
	for _, x := range found {
		if x.State == task.Running {
			s.Running = append(s.Running, driver.Holding{ID: x.ID, Kind: x.Kind, Worker: b.workers[x.worker].told(), Since: x.Started})
		}
	}
	return s, err
}

// countBlocked counts the blocked tasks in all sub-queues of a limit, in steps.
func (b *txn) countBlocked(h task.Hash) (n int, err error) {
	last, rest := waiter{sub: -1}, 0
	for more := true; err == nil && more; {
		more = false
		after := []any{b.q.ns, h[:], last.sub, last.sub, last.ordinal, last.ordinal, int64(last.id)}
		err = b.ask(func(p *packet) []reader {
			p.add("blocked", append(after, looked-1)...).add("blocked-rest", append(after, looked)...)
			return []reader{func(r *sql.Rows) error {
				more = true
				return r.Scan(&last.sub, &last.ordinal, &last.id)
			}, func(r *sql.Rows) error { return r.Scan(&rest) }}
		})
		n += rest
	}
	return n, err
}

// told is a worker without how many tasks it has.
func (w worker) told() driver.Process {
	w.Running = 0
	return w.Process
}
