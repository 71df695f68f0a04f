package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// subQueue is a queue and a kind, or their numbers.
type subQueue[T any] struct{ queue, kind T }

// Queues counts the tasks of all sub-queues, part by part.
func (t admin) Queues(ctx context.Context) ([]driver.SubQueue, error) {
	queues, err := t.queues(ctx, "")
	if err != nil {
		return nil, err
	}
	subs, unknown := map[subQueue[int64]]*driver.SubQueue{}, map[int64]bool{}
	if err := t.count(ctx, queues, func(at subQueue[int64], state, n int, oldest int64) {
		l := subs[at]
		if l == nil {
			l = &driver.SubQueue{Depth: map[task.State]int{}}
			subs[at], unknown[at.queue], unknown[at.kind] = l, true, true
		}
		l.Depth[states[state]] += n
		if since := instant(oldest); oldest != 0 && (l.Oldest.IsZero() || since.Before(l.Oldest)) {
			l.Oldest = since
		}
	}); err != nil {
		return nil, err
	}
	if err := t.names.learn(ctx, t.db, unknown); err != nil {
		return nil, err
	}
	pauses, err := t.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range pauses {
		if at := (subQueue[int64]{t.names.queue(p.Queue), t.names.kind(p.Kind)}); p.Queue != "" && p.Kind != "" && subs[at] == nil {
			subs[at] = &driver.SubQueue{Depth: map[task.State]int{}}
		}
	}
	out := make([]driver.SubQueue, 0, len(subs))
	for at, l := range subs {
		l.Queue, l.Kind = t.names.text(at.queue), t.names.text(at.kind)
		out = append(out, *l)
	}
	slices.SortFunc(out, func(x, y driver.SubQueue) int {
		return cmp.Or(strings.Compare(x.Queue, y.Queue), strings.Compare(x.Kind, y.Kind))
	})
	return out, nil
}

// Workers reads the workers whose lease is live.
func (t admin) Workers(ctx context.Context) ([]driver.Process, error) {
	var live []busy
	if err := t.db.run(ctx, "read workers", do(sqlWorkers()[2], t.ns).each(busyRows(&live))); err != nil {
		return nil, err
	}
	return column(live, func(b busy) driver.Process { return b.Process }), nil
}

// taskRow is a task as it is read.
type taskRow struct {
	driver.Task
	queue, kind int64
	lim         pgtype.UUID
}

// read reads as many tasks as fit into one answer, in bounded steps: none looks at more rows than it may, however
// many tasks of others lie between.
func (t admin) read(ctx context.Context, f driver.Filter) ([]taskRow, error) {
	queues, err := t.queues(ctx, f.Queue)
	if err != nil || len(queues) == 0 {
		return nil, err
	}
	first, last := int64(f.After)+1, f.End()-1
	var ids []int64
	if last-first >= looked {
		if ids, err = t.few(ctx, queues, f); err != nil {
			return nil, err
		}
	}
	var found []taskRow
	for unknown := map[int64]bool{}; first <= last && len(found) < f.Rows(); {
		from, to := first, last
		if ids == nil {
			if from, to, err = t.window(ctx, f, first, last); err != nil {
				return nil, err
			}
		}
		if err := t.db.run(ctx, "read tasks", t.reading(f, queues, ids, from, to, f.Rows()-len(found)).each(func(rows pgx.Rows) error {
			r, err := scanTask(rows)
			unknown[r.queue], unknown[r.kind] = true, true
			found = append(found, r)
			return err
		})); err != nil {
			return nil, err
		}
		if err := t.names.learn(ctx, t.db, unknown); err != nil {
			return nil, err
		}
		if f.Newest {
			last = from - 1
		} else {
			first = to + 1
		}
	}
	for i := range found {
		found[i].Queue, found[i].Kind = t.names.text(found[i].queue), t.names.text(found[i].kind)
	}
	return found, nil
}

// window is the part of the ids from first to last that the next step reads.
func (t admin) window(ctx context.Context, f driver.Filter, first, last int64) (from, to int64, err error) {
	statement, far := sqlTasks()[21], &last
	if f.Newest {
		statement, far = sqlTasks()[25], &first
	}
	err = t.db.run(ctx, "read tasks", do(statement, first, last, looked/2).each(number1(far)))
	return first, last, err
}

// lists are the statements of a list, of all ids or of some, in ascending and in descending order.
var lists = struct{ all, some, newest, newestSome func() string }{
	ordered(1, ""), ordered(23, ""), ordered(1, "DESC"), ordered(23, "DESC"),
}

func ordered(n int, order string) func() string {
	return sync.OnceValue(func() string { return strings.ReplaceAll(sqlTasks()[n], "DIRECTION", order) })
}

// reading is one of these steps.
func (t admin) reading(f driver.Filter, queues, ids []int64, from, to int64, rows int) step {
	var kind int64
	if f.Kind != "" {
		kind = t.names.kind(f.Kind)
	}
	args := []any{queues, kind, numbers(f.States), f.Tag, f.Unique, f.Limit, from, to, rows, micros(f.Since)}
	all, some := lists.all, lists.some
	if f.Newest {
		all, some = lists.newest, lists.newestSome
	}
	if ids != nil {
		return do(some(), append(args, ids)...)
	}
	return do(all(), args...)
}

func scanTask(rows pgx.Rows) (r taskRow, err error) {
	var (
		w                                                      workerRow
		id, key, enqueued, due, token, fetched, ended, expires int64
		state                                                  int
		args, options                                          string
	)
	err = rows.Scan(w.targets(&id, &key, &r.queue, &r.kind, &enqueued, &due, &token, &fetched, &ended, &expires,
		&r.Attempts, &r.Granted, &r.Crashes, &r.Snoozes, &state, &r.Suspect, &args, &options, &r.Stop, &r.Reason, &r.lim)...)
	if err != nil {
		return r, err
	}
	damage := ""
	if err := r.UnmarshalOptions([]byte(options)); err != nil {
		damage = "its options cannot be read: " + err.Error()
	}
	r.ID, r.State, r.Token, r.Args = task.ID(id), states[state], lease.Token(token), json.RawMessage(args)
	r.Priority, r.Front = fromSortKey(key)
	r.Enqueued, r.RunAt, r.Started, r.Ended, r.ExpiresAt = instant(enqueued), instant(due), instant(fetched), instant(ended), instant(expires)
	if r.State == "" {
		damage = fmt.Sprintf("its state is %d", state)
	}
	if damage != "" && !r.State.Final() {
		r.State, r.Reason = task.Damaged, string(task.Damaged)+": "+damage
	}
	r.Worker, err = w.worker()
	return r, err
}

// Tasks reads the tasks that fit a filter.
func (t admin) Tasks(ctx context.Context, f driver.Filter) ([]driver.Task, error) {
	found, err := t.read(ctx, f)
	return column(found, func(r taskRow) driver.Task { return r.Task }), err
}

// Task reads one task, with its attempts and, if it has a limit, the limit's slots.
func (t admin) Task(ctx context.Context, id task.ID) (driver.Task, driver.Slots, bool, error) {
	if id <= 0 {
		return driver.Task{}, driver.Slots{}, false, ctx.Err()
	}
	found, err := t.read(ctx, driver.Filter{After: id - 1, Before: id + 1})
	if err != nil || len(found) == 0 {
		return driver.Task{}, driver.Slots{}, false, err
	}
	r := found[0]
	if r.History, err = t.attempts(ctx, id); err != nil {
		return driver.Task{}, driver.Slots{}, false, err
	}
	var held driver.Slots
	if r.lim.Valid && r.Limit != nil {
		held, err = t.slots(ctx, r)
	}
	return r.Task, held, err == nil, err
}

func (t admin) attempts(ctx context.Context, id task.ID) (all []task.Attempt, err error) {
	err = t.db.run(ctx, "read attempts", do(sqlTasks()[2], int64(id)).each(func(rows pgx.Rows) error {
		var a task.Attempt
		var started, ended int64
		err := rows.Scan(&a.N, &a.Outcome, &started, &ended, &a.Host, &a.Error)
		a.Started, a.Ended = instant(started), instant(ended)
		all = append(all, a)
		return err
	}))
	return all, err
}

func (t admin) slots(ctx context.Context, of taskRow) (driver.Slots, error) {
	s := driver.Slots{Key: of.Limit.Key, Max: of.Limit.Slots()}
	var kinds []int64
	unknown := map[int64]bool{}
	err := t.db.run(ctx, "read slots", do(sqlTasks()[3], of.lim).each(func(rows pgx.Rows) error {
		return rows.Scan(&s.Key, &s.Max, &s.Waiting)
	}), do(sqlTasks()[4], of.lim).each(func(rows pgx.Rows) error {
		var (
			w               workerRow
			h               driver.Holding
			id, kind, since int64
		)
		err := rows.Scan(w.targets(&id, &kind, &since)...)
		if err == nil {
			h.Worker, err = w.worker()
		}
		h.ID, h.Since, unknown[kind] = task.ID(id), instant(since), true
		kinds, s.Running = append(kinds, kind), append(s.Running, h)
		return err
	}))
	if err == nil {
		err = t.names.learn(ctx, t.db, unknown)
	}
	for i, k := range kinds {
		s.Running[i].Kind = t.names.text(k)
	}
	return s, err
}

// Pause waits for the fetches that are under way, writes the pause, and records it.
func (t admin) Pause(ctx context.Context, p driver.Pause) error {
	kind, reason := p.Event()
	return t.db.run(ctx, "pause", do(sqlTasks()[18], t.ns),
		do(sqlTasks()[5], t.ns, p.Queue, p.Kind, t.named(false, p.Queue), t.named(true, p.Kind), micros(p.Until), p.By, p.Why),
		do(sqlTasks()[6], t.ns, kind, reason))
}

// named is the number of a name; nil if it is empty.
func (t admin) named(kind bool, text string) *int64 {
	if text == "" {
		return nil
	}
	n := t.names.number(name{kind, text})
	return &n
}

// Resume ends a pause, and tells all workers to look.
func (t admin) Resume(ctx context.Context, q, kind, by string) (ok bool, err error) {
	event, reason := driver.ResumeEvent(q, kind, by)
	err = t.db.run(ctx, "resume", do(sqlTasks()[7], t.ns, q, kind, event, reason).each(func(pgx.Rows) error {
		ok = true
		return nil
	}))
	if err == nil && ok {
		err = t.tellAll(ctx)
	}
	return ok, err
}

// tellAll wakes the watchers of every queue of the namespace.
func (t admin) tellAll(ctx context.Context) error {
	var all []int64
	err := t.db.run(ctx, "read names", do(sqlTasks()[14], t.ns).each(func(rows pgx.Rows) error {
		var id int64
		var kind bool
		err := rows.Scan(&id, &kind, nil)
		if !kind {
			all = append(all, id)
		}
		return err
	}))
	t.watch.tell(all)
	return err
}

func (t admin) Pauses(ctx context.Context) (all []driver.Pause, err error) {
	err = t.db.run(ctx, "read pauses", do(sqlTasks()[8], t.ns).each(func(rows pgx.Rows) error {
		var p driver.Pause
		var since, until int64
		err := rows.Scan(&p.Queue, &p.Kind, &since, &until, &p.By, &p.Why)
		p.Since, p.Until = instant(since), instant(until)
		all = append(all, p)
		return err
	}))
	return all, err
}

func (t admin) Rates(ctx context.Context) (map[string]driver.RateStatus, error) {
	all := map[string]driver.RateStatus{}
	err := t.db.run(ctx, "read rates", do(sqlTasks()[17], t.ns).each(func(rows pgx.Rows) error {
		var kind string
		var every, next int64
		err := rows.Scan(&kind, &every, &next)
		all[kind] = driver.RateStatus{Each: time.Duration(every) * time.Microsecond, Next: instant(next)}
		return err
	}))
	return all, err
}

var acts = map[int]driver.OpAnswer{1: driver.Done, 2: driver.Asking, 3: driver.NotThere, 4: driver.Unfit, 5: driver.Taken, 6: driver.Busy, 7: driver.Changed}

// Operate carries out an operation in one batch: see queue_operate.
func (t admin) Operate(ctx context.Context, a driver.OpRequest) ([]driver.OpResult, error) {
	event, words := a.Event(nil)
	words = strings.TrimPrefix(words, "0 tasks: ")
	var to int64
	var steps []step
	if a.Operation == driver.OpMove {
		to = t.names.queue(a.Queue)
		steps = append(steps, t.names.store([]name{{false, a.Queue}}))
	}
	var priority *int32
	var due, from *int64
	if a.From != "" {
		v := t.names.queue(a.From)
		from = &v
	}
	if p := a.Edit.Priority; p != nil {
		v := int32(*p)
		priority = &v
	}
	if at := a.Edit.RunAt; at != nil {
		v := micros(*at)
		due = &v
	}
	all := column(a.IDs, func(id task.ID) int64 { return int64(id) })
	answers, stands := make([]driver.OpResult, len(a.IDs)), map[task.ID]task.State{}
	steps = append(steps, do(sqlTasks()[9], t.ns, string(a.Operation), all, to, priority, due, lockWait.Milliseconds(), event, words, from, numbers(a.States)).each(func(rows pgx.Rows) error {
		var i, answer int
		var other int64
		err := rows.Scan(&i, &answer, &other)
		answers[i-1] = driver.OpResult{ID: a.IDs[i-1], Answer: acts[answer], Other: task.ID(other)}
		return err
	}), do(sqlTasks()[10], t.ns, all).each(func(rows pgx.Rows) error {
		var id int64
		var state int
		err := rows.Scan(&id, &state)
		stands[task.ID(id)] = states[state]
		return err
	}))
	if err := t.db.run(ctx, string(a.Operation), steps...); err != nil {
		return nil, err
	}
	for i, id := range a.IDs {
		answers[i].State = stands[id]
	}
	return answers, nil
}

// SetLimit sets an operator's word on a limit, or with 0 slots takes it back: see queue_say.
func (t admin) SetLimit(ctx context.Context, key task.Hash, slots int, by string) (ok bool, err error) {
	err = t.db.run(ctx, "set a limit", do(sqlTasks()[11], t.hashed(key), pgtype.UUID{Bytes: key, Valid: true}, max(slots, 0), by).each(func(rows pgx.Rows) error { return rows.Scan(&ok) }))
	return ok, err
}

// Limits reads the words that stand.
func (t admin) Limits(ctx context.Context) (words []driver.Word, err error) {
	err = t.db.run(ctx, "read limits", do(sqlTasks()[24], t.ns).each(func(rows pgx.Rows) error {
		var w driver.Word
		var of pgtype.UUID
		var since int64
		err := rows.Scan(&of, &w.Key, &w.Max, &w.Declared, &w.By, &since)
		w.Hash, w.Since = of.Bytes, instant(since)
		words = append(words, w)
		return err
	}))
	return words, err
}

func (t tasks) Count(ctx context.Context, counts []driver.Count) error {
	return t.db.run(ctx, "count", t.counting(counts))
}

func (t tasks) counting(counts []driver.Count) step {
	return do(sqlTasks()[12], t.ns,
		column(counts, func(c driver.Count) int64 { return micros(c.Minute.Truncate(time.Minute)) }),
		column(counts, func(c driver.Count) string { return c.Queue }),
		column(counts, func(c driver.Count) string { return c.Kind }),
		column(counts, func(c driver.Count) string { return c.Name }),
		column(counts, func(c driver.Count) int64 { return c.N }))
}

func (t admin) Counts(ctx context.Context, from, to time.Time) (sums []driver.Count, err error) {
	err = t.db.run(ctx, "read counters", do(sqlTasks()[13], t.ns, micros(from), micros(to)).each(func(rows pgx.Rows) error {
		var c driver.Count
		err := rows.Scan(&c.Queue, &c.Kind, &c.Name, &c.N)
		sums = append(sums, c)
		return err
	}))
	return sums, err
}

// Declare replaces the rates of kinds.
func (t tasks) Declare(ctx context.Context, rates map[string]task.Rate) error {
	var gone, set, every, burst, per []int64
	var most []int32
	for kind, r := range rates {
		k := t.names.kind(kind)
		if r.Count <= 0 || r.Per <= 0 {
			gone = append(gone, k)
			continue
		}
		each := max(r.Per.Microseconds()/int64(r.Count), 1)
		set, every, burst = append(set, k), append(every, each), append(burst, each*int64(r.Bursts()))
		per, most = append(per, r.Window().Microseconds()), append(most, int32(r.Count))
	}
	return t.db.run(ctx, "declare rates", do(sqlTasks()[15], t.ns, gone), do(sqlTasks()[16], t.ns, set, every, burst, per, most))
}
