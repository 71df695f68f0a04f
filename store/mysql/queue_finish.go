package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
)

// held is the task that runs under exactly this token of a worker whose lease is live; nil if there is none.
func (b *txn) held(live bool, id int64, r driver.Ref) (*taskRow, error) {
	t, err := b.get(r.ID)
	if err != nil || t == nil || !live || !t.Runs(r) || t.worker != id {
		return nil, err
	}
	return t, nil
}

// withheld is the answer for a run whose task another transaction has. No caller sees it.
const withheld driver.Status = 0

// each does one thing to runs, in one step. Runs whose tasks other transactions have are left out, waited for in a
// step of their own, and unavailable in the end. The others are done by then, and are answered again when the call is
// repeated.
func (q queues) each(ctx context.Context, refs []driver.Ref, do func(b *txn, some []int) ([]driver.Status, error)) ([]driver.Status, error) {
	answers := make([]driver.Status, len(refs))
	for _, waits := range []bool{false, true} {
		var some []int
		for i, a := range answers {
			if a == withheld {
				some = append(some, i)
			}
		}
		if len(some) == 0 {
			break
		}
		var got []driver.Status
		err := q.step(ctx, func(b *txn) (err error) {
			b.patient = b.patient && waits
			got, err = do(b, some)
			return err
		})
		if err != nil {
			return nil, err
		}
		for n, i := range some {
			answers[i] = got[n]
		}
	}
	if i := slices.Index(answers, withheld); i >= 0 {
		return nil, fmt.Errorf("%w: task %d is locked by another transaction", lease.ErrUnavailable, refs[i].ID)
	}
	return answers, nil
}

// picked are some of items.
func picked[T any](items []T, some []int) []T {
	all := make([]T, len(some))
	for n, i := range some {
		all[n] = items[i]
	}
	return all
}

// runs prepares a step on runs of a worker's tasks, which may free slots.
func (b *txn) runs(worker lease.Ref, refs []driver.Ref, slots map[slot]int) (live bool, err error) {
	ids := make(list, len(refs))
	for i, r := range refs {
		ids[i] = int64(r.ID)
	}
	var found []*taskRow
	read := func(p *packet) []reader {
		p.add("live-worker", b.q.ns, []byte(worker.Key), nonce(worker.Owner), int64(worker.Token))
		p.add("task-columns").add("tasks-by-id", b.q.ns, ids)
		return append([]reader{func(r *sql.Rows) error { return r.Scan(&live) }, b.reads(&found)}, b.addNext(p, slots)...)
	}
	if len(slots) > 0 {
		var limits []wake
		for s := range slots {
			limits = append(limits, wake{hash: s.limit})
		}
		err = b.lock(limits, false, read)
	} else {
		err = b.ask(read)
	}
	if live {
		b.worker = worker
	}
	return live, err
}

// addNext reads the tasks that get the freed slots. The first one of a limit is read with the limit.
func (b *txn) addNext(p *packet, slots map[slot]int) (readers []reader) {
	for s, n := range slots {
		if n > 1 {
			b.members(s.limit)
			readers = append(readers, b.addBlocked(p, part{b.limits[s.limit], s.sub, n}))
		}
	}
	return readers
}

// Start fulfils driver.Store.
func (q queues) Start(ctx context.Context, ref lease.Ref, refs []driver.Ref) (answers []driver.Status, err error) {
	if len(refs) == 0 {
		return nil, ctx.Err()
	}
	id, err := q.workerID(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return q.each(ctx, refs, func(b *txn, some []int) ([]driver.Status, error) {
		live, err := b.runs(ref, picked(refs, some), nil)
		if err != nil {
			return nil, err
		}
		return answer(some, func(i int) (driver.Status, error) { return b.start(live, id, refs[i]) })
	})
}

func (b *txn) start(live bool, id int64, r driver.Ref) (driver.Status, error) {
	t, err := b.held(live, id, r)
	switch {
	case err != nil || t == nil:
		return driver.Gone, err
	case b.busy(t):
		return withheld, nil
	}
	return driver.OK, b.change(t, t.Start)
}

// Finish fulfils driver.Store.
func (q queues) Finish(ctx context.Context, ref lease.Ref, ends []driver.Completion) (answers []driver.Status, err error) {
	if len(ends) == 0 {
		return nil, ctx.Err()
	}
	m, err := q.member(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	for rest := ends; len(rest) > 0; {
		part := rest[:m.part(rest)]
		some, err := q.each(ctx, refsOf(part), func(b *txn, some []int) ([]driver.Status, error) {
			these := picked(part, some)
			return b.finishAll(ref, m.id, these, m.freed(these))
		})
		if err != nil {
			return nil, err
		}
		answers, rest = append(answers, some...), rest[len(part):]
	}
	m.forget(ends) // not before: what fails is repeated as a whole, and in parts again
	return answers, nil
}

func refsOf(ends []driver.Completion) []driver.Ref {
	refs := make([]driver.Ref, len(ends))
	for i, c := range ends {
		refs[i] = c.Ref
	}
	return refs
}

// finishAll ends tasks. It knows the slots of tasks that were given by this process.
func (b *txn) finishAll(ref lease.Ref, id int64, ends []driver.Completion, slots map[slot]int) ([]driver.Status, error) {
	live, err := b.runs(ref, refsOf(ends), slots)
	if err != nil {
		return nil, err
	}
	if err := b.lockTheirs(); err != nil {
		return nil, err
	}
	return answer(ends, func(c driver.Completion) (driver.Status, error) { return b.finish(live, id, c) })
}

func (b *txn) finish(live bool, id int64, c driver.Completion) (driver.Status, error) {
	t, err := b.held(live, id, c.Ref)
	if err != nil {
		return 0, err
	}
	if t == nil {
		if t, err = b.get(c.ID); err == nil && t != nil && t.Repeats(c, t.worker == id) {
			return driver.OK, nil
		}
		return driver.Gone, err
	}
	if b.busy(t) {
		return withheld, nil
	}
	return driver.OK, b.change(t, func() lifecycle.Note { return t.Finish(c, b.now) })
}

// Running fulfils driver.Store.
func (q queues) Running(ctx context.Context, ref lease.Ref, asked bool) (found []driver.RunningTask, err error) {
	id, err := q.workerID(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("mine: %w", err)
	}
	err = q.run(ctx, new(packet).add("mine", q.ns, id, flag(asked)), func(r *sql.Rows) error {
		var a driver.RunningTask
		err := r.Scan(&a.ID, &a.Token, &a.Stop)
		found = append(found, a)
		return err
	})
	return found, err
}
