package postgres

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

const (
	// keptCounts is how long counters are kept.
	keptCounts = 7 * 24 * time.Hour
	// repaired is how many limits one call of Maintain checks, and swept how many queues it looks at.
	repaired = 50
	swept    = 500
	// mostPassed is behind how many tasks of a dead worker that other transactions have it looks for the rest.
	mostPassed = 1000
	// mostForgotten is how many dead workers one step forgets. Each takes a place in the server's table of locks.
	mostForgotten = 100
)

// Register records a worker; its lease must be live.
func (t tasks) Register(ctx context.Context, w driver.Process) error {
	live := false
	err := t.db.run(ctx, "join", do(sqlWorkers()[0], args(t.ns)(append(ref(w.Lease),
		w.Host, int64(w.PID), list(w.Queues), list(w.Kinds), int32(w.Slots))...)...).each(func(pgx.Rows) error {
		live = true
		return nil
	}))
	if err == nil && !live {
		return driver.ErrStale
	}
	return err
}

// list is a list that is not null.
func list(s []string) []string { return append([]string{}, s...) }

// Deregister forgets a worker, and rescues what it has.
func (t tasks) Deregister(ctx context.Context, worker lease.Ref) error {
	return t.db.run(ctx, "leave", do(sqlWorkers()[1], args(t.ns)(append(ref(worker), costly)...)...))
}

// workerRow scans the columns of a worker, which are null where there is none.
type workerRow struct {
	key           []byte
	owner, host   *string
	token, pid    *int64
	queues, kinds []string
	slots         *int32
	since         *int64
}

func (w *workerRow) targets(first ...any) []any {
	return append(first, &w.key, &w.owner, &w.token, &w.host, &w.pid, &w.queues, &w.kinds, &w.slots, &w.since)
}

func (w *workerRow) worker() (driver.Process, error) {
	if w.owner == nil {
		return driver.Process{}, nil
	}
	return driver.Process{Lease: lease.Ref{Key: lease.Key(w.key), Owner: nonce(*w.owner), Token: lease.Token(*w.token)}, Host: *w.host, PID: int(*w.pid),
		Queues: w.queues, Kinds: w.kinds, Slots: int(*w.slots), Since: instant(*w.since)}, nil
}

// busy is a worker that has tasks, or may have.
type busy struct {
	driver.Process
	id int32
}

func busyRows(into *[]busy) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var (
			b   busy
			w   workerRow
			n   int64
			err error
		)
		if err = rows.Scan(append(w.targets(&b.id), &n)...); err != nil {
			return err
		}
		b.Process, err = w.worker()
		b.Running = int(n)
		*into = append(*into, b)
		return err
	}
}

func number1[T int | int64](into *T) func(pgx.Rows) error {
	return func(rows pgx.Rows) error { return rows.Scan(into) }
}

// Maintain takes one step after the other, each atomic by itself. Together they would hold the locks of many limits,
// in an order that no other step could keep to.
func (t tasks) Maintain(ctx context.Context, r driver.MaintainRequest) (driver.Maintained, error) {
	d := maintenance{tasks: t, left: r.Max, queues: []int64{}}
	if r.Max <= 0 {
		d.left = bound
	}
	if err := d.turn(ctx); err != nil {
		return d.Maintained, err
	}
	for _, step := range []func(context.Context) error{d.rescue, d.expire, d.makeDue, d.free, d.repair} {
		if err := step(ctx); err != nil {
			return d.Maintained, err
		}
	}
	if err := d.prune(ctx, r.Keep); err != nil {
		return d.Maintained, err
	}
	var now int64
	err := t.db.run(ctx, "maintain",
		do(sqlMaintain()[9], t.ns, keptCounts.Microseconds(), bound), do(sqlMaintain()[10], t.ns, bound), do(sqlMaintain()[11], t.ns, bound, looked),
		do(sqlMaintain()[12]).each(number1(&now)))
	d.Now, d.More = instant(now), d.left <= 0
	return d.Maintained, err
}

// maintenance is one call of Maintain.
type maintenance struct {
	tasks
	driver.Maintained
	queues []int64 // whose turn it is
	left   int     // how many tasks it may still touch
}

// turn picks the next queues of the namespace, swept at most, and goes round.
func (d *maintenance) turn(ctx context.Context) error {
	for {
		after := d.names.swept.Load()
		if after == 0 {
			after = math.MinInt64
		}
		err := d.db.run(ctx, "read queues", do(sqlMaintain()[0], d.ns, after, swept).each(func(rows pgx.Rows) error {
			var q int64
			err := rows.Scan(&q)
			d.queues = append(d.queues, q)
			return err
		}))
		next := int64(0)
		if len(d.queues) == swept {
			next = d.queues[swept-1]
		}
		d.names.swept.Store(next)
		if err != nil || len(d.queues) > 0 || after == math.MinInt64 {
			return err
		}
	}
}

// rescue takes tasks from dead workers, a few at a time (rule Q4).
func (d *maintenance) rescue(ctx context.Context) error {
	var dead []busy
	if err := d.db.run(ctx, "look for dead workers", do(sqlMaintain()[1], d.ns).each(busyRows(&dead))); err != nil || len(dead) == 0 {
		return err
	}
	for some := range slices.Chunk(dead, mostForgotten) { // so that some are, even if the time is up before all of them
		for _, w := range some {
			if err := d.takeFrom(ctx, &w); err != nil {
				return err
			}
			if w.Running > 0 {
				d.Dead = append(d.Dead, w.Process)
			}
		}
		ids := column(some, func(w busy) int32 { return w.id })
		if err := d.db.run(ctx, "forget dead workers", do(sqlMaintain()[3], ids)); err != nil {
			return err
		}
	}
	return nil
}

// takeFrom rescues what a dead worker has, behind what transactions of callers have, and counts it as w.Running.
func (d *maintenance) takeFrom(ctx context.Context, w *busy) error {
	for passed, more := 0, true; more && passed <= mostPassed && d.left > 0; {
		var rescued, crashed, seen int
		most := min(costly, d.left) + passed
		err := d.db.run(ctx, "rescue", do(sqlMaintain()[2], d.ns, w.id, most).each(func(rows pgx.Rows) error { return rows.Scan(&rescued, &crashed, &seen) }))
		if err != nil {
			return err
		}
		n := rescued + crashed
		d.Rescued, d.Crashed, d.left = d.Rescued+rescued, d.Crashed+crashed, d.left-n
		w.Running += n
		passed, more = seen-n, seen == most
	}
	return nil
}

// bounded repeats a step, which returns how many tasks it touched, until it touches none or the budget is used up. It
// touches fewer than it may if transactions of callers have some.
func (d *maintenance) bounded(ctx context.Context, what string, most int, sum *int, s func(most int) step) error {
	for d.left > 0 {
		n, ask := 0, min(most, d.left)
		err := d.db.run(ctx, what, s(ask).each(number1(&n)))
		*sum, d.left = *sum+n, d.left-n
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// expire discards waiting tasks whose expires_at has passed (rule Q6).
func (d *maintenance) expire(ctx context.Context) error {
	return d.bounded(ctx, "expire", costly, &d.Expired, func(most int) step { return do(sqlMaintain()[4], d.ns, d.queues, most) })
}

func (d *maintenance) makeDue(ctx context.Context) error {
	return d.bounded(ctx, "make due tasks available", bound, &d.Due, func(most int) step { return do(sqlMaintain()[5], d.queues, most) })
}

func (d *maintenance) free(ctx context.Context) error {
	return d.bounded(ctx, "end windows", bound, &d.Freed, func(most int) step { return do(sqlMaintain()[6], d.queues, most) })
}

func (d *maintenance) repair(ctx context.Context) error {
	return d.db.run(ctx, "repair limits", do(sqlMaintain()[7], d.ns, repaired).each(number1(&d.Repaired)))
}

// prune deletes ended tasks whose retention is over.
func (d *maintenance) prune(ctx context.Context, keep map[task.State]time.Duration) error {
	var now int64
	if err := d.db.run(ctx, "read the clock", do(sqlMaintain()[12]).each(number1(&now))); err != nil {
		return err
	}
	for _, s := range task.States {
		kept, named := keep[s]
		if !named || !s.Final() {
			continue
		}
		state, before := slices.Max(numbers([]task.State{s})), now-kept.Microseconds()
		if err := d.bounded(ctx, "prune tasks", bound, &d.Deleted, func(most int) step { return do(sqlMaintain()[8], d.queues, state, before, most) }); err != nil {
			return err
		}
	}
	return nil
}
