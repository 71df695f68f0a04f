package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// The marks that queue_fetch leaves on a call.
const (
	fetchLate = 1 << iota
	fetchGone
	fetchMore
	fetchHeard
	fetchFull // more may be given at once, though not in one step
	fetchSated
)

// again is how often a fetch is repeated at once where it met more than it looks at in one step. Each time it looks at
// twice as many.
const again = 8

// Fetch asks queue_fetch, again at once while it met more than it could look at. When it gets less than r.Max, it
// arms the queues, so that the next enqueue notifies this process.
func (t tasks) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	f := fetch{t: t, r: r}
	for n := range again {
		if err := f.ask(ctx, 1<<n); err != nil {
			if len(f.got) > 0 {
				break // what was given is given
			}
			return driver.Fetch{}, err
		}
		if f.marks&fetchSated != 0 {
			f.due = f.now // the next one is larger than what is left of r.Bytes
			break
		}
		if f.marks&fetchFull != 0 && len(f.got) < r.Max {
			continue
		}
		if f.marks&fetchMore == 0 || len(f.got) > 0 {
			break
		}
	}
	if f.marks&fetchMore != 0 && len(f.got) == 0 {
		f.due = f.now // there is more to do at once
	}
	if len(f.got) < r.Max && f.marks&(fetchLate|fetchGone|fetchHeard) == 0 {
		t.watch.arm(f.queues)
	}
	return f.reply(ctx)
}

// fetch is one call of Fetch.
type fetch struct {
	t      tasks
	r      driver.FetchRequest
	queues []int64
	now    time.Time
	due    time.Time
	marks  int
	got    []fetched
	// suspect says that one was given, and bytes how many of arguments.
	suspect bool
	bytes   int
}

// fetched is one task as it is read.
type fetched struct {
	driver.Fetched
	key, queue, kind int64
}

// ask is one call of queue_fetch.
func (f *fetch) ask(ctx context.Context, look int) error {
	f.queues = column(f.r.Queues, f.t.names.queue)
	var kinds []int64
	if len(f.r.Kinds) > 0 {
		kinds = column(f.r.Kinds, f.t.names.kind)
	}
	before := *f
	err := f.t.db.run(ctx, "fetch", do(sqlWork()[0], args(f.t.ns)(append(ref(f.r.Worker),
		micros(f.r.NotAfter), f.queues, kinds, f.r.Max-len(f.got), f.r.Suspects && !f.suspect, f.r.Crashers, look, f.r.Bytes, f.bytes)...)...).each(f.row))
	if err != nil {
		*f = before // what was read before the commit failed was not given
	}
	return err
}

// row takes in one row: a task, or the last row, which is about the call.
func (f *fetch) row(rows pgx.Rows) error {
	var (
		x                                 fetched
		id, token, due, enqueued, expires int64
		args, options                     []byte
	)
	if err := rows.Scan(&id, &token, &x.key, &x.queue, &x.kind, &due, &enqueued, &expires,
		&x.Attempts, &x.Granted, &x.Crashes, &x.Snoozes, &x.Fetched.Suspect, &args, &options); err != nil {
		return err
	}
	if id == 0 {
		f.now, f.due, f.marks = instant(token), instant(due), x.Attempts
		return nil
	}
	if err := x.UnmarshalOptions(options); err != nil {
		x.Damage = "its options cannot be read: " + err.Error()
	}
	x.Ref = driver.Ref{ID: task.ID(id), Token: lease.Token(token)}
	x.Args, x.RunAt, x.Enqueued, x.ExpiresAt = args, instant(due), instant(enqueued), instant(expires)
	x.Priority, _ = fromSortKey(x.key)
	f.got, f.suspect, f.bytes = append(f.got, x), f.suspect || x.Suspect, f.bytes+len(args)
	return nil
}

// reply sorts the tasks, and gives them the names of their queues and kinds.
func (f *fetch) reply(ctx context.Context) (driver.Fetch, error) {
	out := driver.Fetch{Now: f.now, NextDue: f.due, Late: f.marks&fetchLate != 0, Gone: f.marks&fetchGone != 0}
	if len(f.got) == 0 {
		return out, nil
	}
	unknown := map[int64]bool{}
	order := map[int64]int{}
	for i, q := range f.queues {
		order[q] = i
	}
	for _, x := range f.got {
		unknown[x.kind] = true
	}
	if err := f.t.names.learn(ctx, f.t.db, unknown); err != nil {
		return driver.Fetch{}, err
	}
	slices.SortFunc(f.got, func(x, y fetched) int {
		return cmp.Or(cmp.Compare(order[x.queue], order[y.queue]), cmp.Compare(x.key, y.key))
	})
	out.Tasks = column(f.got, func(x fetched) driver.Fetched {
		x.Queue, x.Kind = f.t.names.text(x.queue), f.t.names.text(x.kind)
		return x.Fetched
	})
	return out, nil
}
