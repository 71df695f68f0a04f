package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

const (
	// keptCounts is how long counters are kept.
	keptCounts = 7 * 24 * time.Hour
	// repaired is how many limits one call of Tend checks.
	repaired = 50
)

func (t tasks) Join(ctx context.Context, w queue.Process) error {
	live := false
	err := t.db.run(ctx, "join", do(sqlWorkers()[0], args(t.ns)(append(ref(w.Lease),
		w.Host, int64(w.PID), list(w.Queues), list(w.Kinds), int32(w.Slots))...)...).each(func(pgx.Rows) error {
		live = true
		return nil
	}))
	if err == nil && !live {
		return queue.ErrStale
	}
	return err
}

// list is a list that is not null.
func list(s []string) []string { return append([]string{}, s...) }

func (t tasks) Leave(ctx context.Context, worker lease.Ref) error {
	return t.db.run(ctx, "leave", do(sqlWorkers()[1], args(t.ns)(ref(worker)...)...))
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

func (w *workerRow) worker() (queue.Process, error) {
	if w.owner == nil {
		return queue.Process{}, nil
	}
	nonce, err := lease.ParseNonce(*w.owner)
	if err != nil {
		return queue.Process{}, damaged("worker", err)
	}
	return queue.Process{Lease: lease.Ref{Key: lease.Key(w.key), Owner: nonce, Token: lease.Token(*w.token)}, Host: *w.host, PID: int(*w.pid),
		Queues: w.queues, Kinds: w.kinds, Slots: int(*w.slots), Since: instant(*w.since)}, nil
}

// busy is a worker that has tasks, or may have.
type busy struct {
	queue.Process
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

// Tend takes one step after the other, each atomic by itself: together they would hold the locks of many limits, in
// an order that no other step could keep to.
func (t tasks) Tend(ctx context.Context, r queue.TendRequest) (queue.Tended, error) {
	d := tending{tasks: t, left: r.Max}
	if r.Max <= 0 {
		d.left = 1000
	}
	for _, step := range []func(context.Context) error{d.rescue, d.expire, d.ripen, d.free, d.repair} {
		if err := step(ctx); err != nil {
			return d.Tended, err
		}
	}
	if err := d.prune(ctx, r.Keep); err != nil {
		return d.Tended, err
	}
	var now int64
	err := t.db.run(ctx, "tend",
		do(sqlTend()[8], t.ns, keptCounts.Microseconds()), do(sqlTend()[9], t.ns), do(sqlTend()[10], t.ns),
		do(sqlTend()[11]).each(number1(&now)))
	d.Now, d.More = instant(now), d.left <= 0
	return d.Tended, err
}

// tending is one call of Tend.
type tending struct {
	tasks
	queue.Tended
	left int // how many tasks it may still touch
}

func (d *tending) rescue(ctx context.Context) error {
	var dead []busy
	if err := d.db.run(ctx, "look for dead workers", do(sqlTend()[0], d.ns).each(busyRows(&dead))); err != nil {
		return err
	}
	for _, w := range dead {
		if d.left <= 0 {
			return nil
		}
		var rescued, crashed int
		err := d.db.run(ctx, "rescue", do(sqlTend()[1], d.ns, w.id, d.left).each(func(rows pgx.Rows) error { return rows.Scan(&rescued, &crashed) }))
		if err != nil {
			return err
		}
		if n := rescued + crashed; n > 0 {
			d.Rescued, d.Crashed, d.left = d.Rescued+rescued, d.Crashed+crashed, d.left-n
			w.Running = n
			d.Dead = append(d.Dead, w.Process)
		}
	}
	return d.db.run(ctx, "forget dead workers", do(sqlTend()[2], d.ns))
}

// bounded carries out a step that returns how many tasks it touched.
func (d *tending) bounded(ctx context.Context, what string, s step, sum *int) error {
	n := 0
	err := d.db.run(ctx, what, s.each(number1(&n)))
	*sum, d.left = *sum+n, d.left-n
	return err
}

func (d *tending) expire(ctx context.Context) error {
	if d.left <= 0 {
		return nil
	}
	return d.bounded(ctx, "expire", do(sqlTend()[3], d.ns, d.left), &d.Expired)
}

func (d *tending) ripen(ctx context.Context) error {
	if d.left <= 0 {
		return nil
	}
	return d.bounded(ctx, "make due tasks available", do(sqlTend()[4], d.ns, d.left), &d.Due)
}

func (d *tending) free(ctx context.Context) error {
	if d.left <= 0 {
		return nil
	}
	return d.bounded(ctx, "end windows", do(sqlTend()[5], d.ns, d.left), &d.Freed)
}

func (d *tending) repair(ctx context.Context) error {
	return d.db.run(ctx, "repair limits", do(sqlTend()[6], d.ns, repaired).each(number1(&d.Repaired)))
}

func (d *tending) prune(ctx context.Context, keep map[queue.State]time.Duration) error {
	var now int64
	if err := d.db.run(ctx, "read the clock", do(sqlTend()[11]).each(number1(&now))); err != nil {
		return err
	}
	for _, s := range queue.States {
		kept, named := keep[s]
		if !named || !s.Final() || d.left <= 0 {
			continue
		}
		before := now - kept.Microseconds()
		if err := d.bounded(ctx, "prune tasks", do(sqlTend()[7], d.ns, slices.Max(numbers([]queue.State{s})), before, d.left), &d.Deleted); err != nil {
			return err
		}
	}
	return nil
}
