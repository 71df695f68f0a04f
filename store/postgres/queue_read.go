package postgres

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/queue/driver"
)

// queues are the numbers of all queues of the namespace, or of one by name, if there is such a queue.
func (t tasks) queues(ctx context.Context, only string) (all []int64, err error) {
	var q int64
	if only != "" {
		q = t.names.queue(only)
	}
	err = t.db.run(ctx, "read queues", do(sqlTasks()[19], t.ns, q).each(into(&all)))
	return all, err
}

func into[T any](all *[]T) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var v T
		err := rows.Scan(&v)
		*all = append(*all, v)
		return err
	}
}

// A part is what one partial index has of the tasks: those of some states, in the order of an index that begins with
// their queue. Running tasks are found by their worker instead.
type part struct {
	count, ids func() string // statements
	states     []int16
	ends       bool // its order begins with the end
}

var parts = []*part{
	newPart("tasks", "t.state = 1", "t.kind", "t.sort_key", 1),
	newPart("tasks", "t.state = 2", "t.kind", "t.sort_key", 2),
	newPart("tasks", "t.state = 3 AND t.sort_key >= 0", "t.kind", "t.sort_key", 3),
	newPart("tasks", "t.state = 4 AND t.sort_key >= 0", "t.kind", "t.sort_key", 4),
	newPart("tasks", "t.state IN (0, 6)", "t.due", "t.id", scheduled, retryable),
	newPart("tasks", "t.state = 10", "t.ended + t.hold", "t.id", succeeded),
	newPart("tasks_ended", "t.state = 10", "t.ended", "t.id", succeeded),
	newPart("tasks_ended", "t.state <> 10 AND t.state = 11", "t.ended", "t.id", 11),
	newPart("tasks_ended", "t.state <> 10 AND t.state = 12", "t.ended", "t.id", 12),
	newPart("tasks_ended", "t.state <> 10 AND t.state = 13", "t.ended", "t.id", 13),
	newPart("tasks_ended", "t.state <> 10 AND t.state = 14", "t.ended", "t.id", 14),
}

func newPart(table, which, first, second string, of ...int16) *part {
	fill := func(n int) func() string {
		return sync.OnceValue(func() string {
			return strings.NewReplacer("TABLE", table, "WHICH", which, "FIRST", first, "SECOND", second).Replace(sqlTasks()[n])
		})
	}
	return &part{fill(0), fill(20), of, first == "t.ended"}
}

// few returns the ids of the tasks of some queues that the states and the instant of f may select, if there are few,
// and nil if there are many. So a look at a small queue, or at rare states, does not read the other tasks.
func (t tasks) few(ctx context.Context, queues []int64, f driver.Filter) (ids []int64, err error) {
	const most = looked / 4
	ids, met, states := []int64{}, 0, numbers(f.States)
	wanted := func(state int16) bool { return states == nil || slices.Contains(states, state) }
	if wanted(running) {
		err = t.running(ctx, most+1, func(id int64, at subQueue[int64]) {
			met++
			if slices.Contains(queues, at.queue) {
				ids = append(ids, id)
			}
		})
	}
	for _, q := range queues {
		for _, s := range parts {
			if err != nil || len(ids) > most || met > most { // those that were not met may be theirs
				return nil, err
			}
			if !slices.ContainsFunc(s.states, wanted) {
				continue
			}
			from := int64(math.MinInt64)
			if s.ends && !f.Since.IsZero() {
				from = micros(f.Since)
			}
			err = t.db.run(ctx, "read tasks", do(s.ids(), q, most+1, from).each(into(&ids)))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), err // one that moved meanwhile may have been met twice
}

// running calls each for every task that runs.
func (t tasks) running(ctx context.Context, most int, each func(id int64, at subQueue[int64])) error {
	return t.db.run(ctx, "read tasks", do(sqlTasks()[22], t.ns, most).each(func(rows pgx.Rows) error {
		var id int64
		var at subQueue[int64]
		err := rows.Scan(&id, &at.queue, &at.kind)
		each(id, at)
		return err
	}))
}

// count counts the tasks of queues by kind and state, step by step. A task that changes its state meanwhile may be
// counted in both, or in neither.
func (t tasks) count(ctx context.Context, queues []int64, each func(at subQueue[int64], state, n int, oldest int64)) error {
	if len(queues) == 0 {
		return nil
	}
	err := t.running(ctx, math.MaxInt32, func(_ int64, at subQueue[int64]) { each(at, running, 1, 0) })
	for _, q := range queues {
		for _, s := range parts {
			if err != nil {
				return err
			}
			err = t.countPart(ctx, q, s, each)
		}
	}
	return err
}

// countPart counts one part, page by page.
func (t tasks) countPart(ctx context.Context, queue int64, s *part, each func(at subQueue[int64], state, n int, oldest int64)) error {
	first, second := int64(math.MinInt64), int64(math.MinInt64)
	for sum := looked; sum == looked; {
		sum = 0
		err := t.db.run(ctx, "read queues", do(s.count(), queue, first, second, looked).each(func(rows pgx.Rows) error {
			at := subQueue[int64]{queue: queue}
			var state, n int
			var oldest int64
			if err := rows.Scan(&at.kind, &state, &n, &oldest, &first, &second); err != nil {
				return err
			}
			sum += n
			each(at, state, n, oldest)
			return nil
		}))
		if err != nil {
			return err
		}
	}
	return nil
}
