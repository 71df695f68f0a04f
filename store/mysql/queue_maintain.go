package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

const (
	countsKept  = 7 * 24 * time.Hour
	workersKept = 30 * 24 * time.Hour // as long as tasks may tell who had them
	limitsKept  = 24 * time.Hour      // after their last use
	// mostLimits is how many limits one call of Maintain looks at.
	mostLimits = 50
)

// Maintain fulfils driver.Store. It goes in steps of some hundred tasks, each of which stands for itself.
func (q queues) Maintain(ctx context.Context, r driver.MaintainRequest) (out driver.Maintained, err error) {
	if r.Max <= 0 {
		r.Max = 1000
	}
	t := maintenance{queues: q, ctx: ctx, left: r.Max}
	for _, part := range []func() error{t.dead, t.look, t.expired, t.due, t.freed, func() error { return t.deleted(r.Keep) }, t.forget, t.unused} {
		if err := part(); err != nil {
			return out, fmt.Errorf("maintain: %w", err)
		}
	}
	t.More = t.left <= 0
	return t.Maintained, nil
}

// maintenance is one call of Maintain.
type maintenance struct {
	queues
	driver.Maintained
	ctx  context.Context
	left int         // how many tasks it may still touch
	old  []task.Hash // limits that nobody has used for long
}

func (t *maintenance) step(do func(*txn) error) error { return t.queues.step(t.ctx, do) }

func (t *maintenance) dead() error {
	var dead []worker
	err := t.step(func(b *txn) error {
		all, err := b.there()
		dead = slices.DeleteFunc(all, func(w worker) bool { return w.live })
		return err
	})
	for _, w := range dead {
		if err == nil && t.left > 0 {
			err = t.markDead(w)
		}
	}
	return err
}

func (t *maintenance) markDead(w worker) error {
	w.Running = 0
	for passed, more := (passing{}), true; more && t.left > 0; {
		var rescued, crashed int
		var err error
		if rescued, crashed, more, err = t.rescue(t.ctx, w.id, min(t.left, chunk), passed); err != nil {
			return err
		}
		n := rescued + crashed
		t.Rescued, t.Crashed, t.left, w.Running = t.Rescued+rescued, t.Crashed+crashed, t.left-n, w.Running+n
	}
	if w.Running > 0 {
		t.Dead = append(t.Dead, w.Process)
	}
	return nil
}

// look settles the limits that transactions of callers have left to others.
func (t *maintenance) look() error {
	p, some := new(packet), wanted{last: math.MaxInt64}
	read := t.addWakes(p, &some)
	if err := t.run(t.ctx, p, read); err != nil || len(some.wakes) == 0 {
		return err
	}
	return t.step(func(b *txn) error { return b.look(some.wakes) })
}

// every does one thing to the tasks that a statement finds, and counts them. Where it changes lines, the tasks may be
// others by then.
func (t *maintenance) every(n *int, lines bool, do func(*txn, *taskRow) error, selection string, args ...any) error {
	passed := passing{}
	for t.left > 0 && passed.some() {
		did, more, asked := 0, false, min(t.left, chunk)+len(passed)
		before := len(passed)
		err := t.step(func(b *txn) error {
			all, err := b.find(selection, append(args, asked)...)
			if err == nil && lines {
				err = b.lockTheirs()
			}
			did, more = 0, len(all) == asked
			for _, x := range b.fresh(all) {
				if err != nil {
					return err
				}
				if !b.locked[x.ID] && !passed[x.ID] {
					err = do(b, x)
					did++
				}
			}
			passed.note(b)
			return err
		})
		*n += did
		t.left -= did
		if err != nil || !more || did == 0 && len(passed) == before {
			return err
		}
	}
	return nil
}

func (t *maintenance) expired() error {
	return t.every(&t.Expired, true, func(b *txn, x *taskRow) error {
		if !x.Over(b.now) {
			return nil
		}
		return b.discard(x, task.ReasonExpired)
	}, "tasks-lapsed", t.ns)
}

func (t *maintenance) due() error {
	p := new(packet)
	read, learn := t.known.subs.addNames(p, t.ns)
	if err := t.run(t.ctx, p, read); err != nil {
		return err
	}
	learn()
	all, none := func(subQueueName) bool { return true }, func(int64) bool { return false }
	var due []subQueueName
	p = new(packet).add("clock")
	var readers []reader
	for _, at := range t.known.subs.turn("due", all, none) {
		p.add("is-due", t.ns, subQueueNumber(at))
		readers = append(readers, func(*sql.Rows) error { due = append(due, at); return nil })
	}
	err := t.run(t.ctx, p, readers...)
	for _, at := range due {
		if err != nil {
			return err
		}
		err = t.every(&t.Due, true, func(b *txn, x *taskRow) error {
			if !x.Due(b.now) {
				return nil
			}
			return b.wait(x)
		}, "tasks-due", t.ns, subQueueNumber(at))
	}
	return err
}

func (t *maintenance) freed() error {
	return t.every(&t.Freed, false, func(b *txn, x *taskRow) error {
		return b.change(x, func() lifecycle.Note { return x.LoseKey(b.now) })
	}, "tasks-windows", t.ns)
}

// deleted is retention. What holds its key in a window is not old (rule Q1).
func (t *maintenance) deleted(keep map[task.State]time.Duration) error {
	for s, d := range keep {
		if !s.Final() {
			continue
		}
		err := t.every(&t.Deleted, false, func(b *txn, x *taskRow) error { b.remove(x); return nil },
			"tasks-old", t.ns, lifecycle.Number(s), d.Microseconds())
		if err != nil {
			return err
		}
	}
	return nil
}

// forget drops old counters, and workers that nobody asks about any more. It also looks at the next limits.
func (t *maintenance) forget() error {
	p := new(packet).add("clock").add("forget-counts", t.ns, countsKept.Microseconds())
	p.add("forget-workers", t.ns, workersKept.Microseconds())
	from, last := []byte{}, []byte{}
	if h := t.known.swept.Load(); h != nil {
		from = h[:]
	}
	looked := 0
	p.add("limits-after", limitsKept.Microseconds(), t.ns, from, mostLimits).add("now")
	err := t.run(t.ctx, p, func(r *sql.Rows) error {
		var old bool
		err := r.Scan(&last, &old)
		if looked++; old {
			t.old = append(t.old, task.Hash(last))
		}
		return err
	}, readInstant(&t.Now)) // only unused comes later, and what it does has no instant
	if err != nil {
		return err
	}
	t.known.swept.Store(nil) // from the beginning
	if looked == mostLimits {
		h := task.Hash(last)
		t.known.swept.Store(&h)
	}
	return nil
}

// unused forgets limits that nobody has used for long, unless an operator's word stands on one (rule Q5). A task that
// names one later makes it anew.
func (t *maintenance) unused() error {
	if len(t.old) == 0 {
		return nil
	}
	return t.step(func(b *txn) error {
		limits, gone := make([]wake, len(t.old)), list{}
		for i, h := range t.old {
			limits[i].hash = h
		}
		err := b.lock(limits, true, func(p *packet) []reader {
			p.add("unused-limits", t.ns, hashList(b.asked), limitsKept.Microseconds())
			return []reader{func(r *sql.Rows) error {
				var h []byte
				err := r.Scan(&h)
				gone = append(gone, h)
				return err
			}}
		})
		if err == nil && len(gone) > 0 {
			b.joins = append(b.joins, func(p *packet) { p.add("forget-limits", t.ns, gone) })
		}
		return err
	})
}

// Count fulfils driver.Store.
func (q queues) Count(ctx context.Context, counts []driver.Count) error {
	if len(counts) == 0 {
		return ctx.Err()
	}
	sums := map[time.Time]*txn{}
	for _, c := range counts {
		minute := c.Minute.Truncate(time.Minute)
		if sums[minute] == nil {
			sums[minute] = &txn{q: q, now: minute, counts: map[counter]int64{}}
		}
		sums[minute].counts[counter{c.Queue, c.Kind, c.Name}] += c.N
	}
	p := new(packet).add("begin")
	for _, b := range sortedTxns(sums) {
		b.addCounts(p, 0)
	}
	p.add("commit")
	for n := 1; ; n++ {
		err := q.run(ctx, p)
		if number(err) != 1213 || n == 10 {
			return err
		}
		if err := pause(ctx, n, false); err != nil {
			return err
		}
	}
}

func sortedTxns(sums map[time.Time]*txn) (all []*txn) {
	for _, b := range sums {
		all = append(all, b)
	}
	slices.SortFunc(all, func(x, y *txn) int { return x.now.Compare(y.now) })
	return all
}

// Counts fulfils driver.Admin.
func (d admin) Counts(ctx context.Context, from, to time.Time) (all []driver.Count, err error) {
	err = d.run(ctx, new(packet).add("counts", d.ns, micros(from), micros(to)), func(r *sql.Rows) error {
		var c driver.Count
		err := r.Scan(&c.Queue, &c.Kind, &c.Name, &c.N)
		all = append(all, c)
		return err
	})
	return all, err
}
