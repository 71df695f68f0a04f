//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// Enqueue fulfils driver.Store.
func (q queues) Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	return answer(ctx, q.db, specs, (*txn).enqueue)
}

func (b *txn) enqueue(s task.Spec) (e task.Enqueued, err error) {
	s = lifecycle.Timed(s, b.now)
	if s.Unique == nil {
		return b.admit(s)
	}
	there, err := b.holder(s.Unique.Hash(s.Kind))
	if err != nil {
		return e, err
	}
	if there == nil {
		return b.admit(s)
	}
	switch e.Answer = there.Again(&s); e.Answer {
	case task.New:
		there.Key = nil
		if err := b.save(there); err != nil {
			return e, err
		}
		return b.admit(s)
	case task.Updated:
		err = b.change(there, func() lifecycle.Note { return there.Renew(s, b.now) })
	}
	e.ID, e.State = there.ID, there.State
	return e, err
}

// holder is the task that holds a unique key now; nil if none does.
func (b *txn) holder(h task.Hash) (*taskRow, error) {
	t, err := b.find("task_by_key", h[:])
	if err != nil || t == nil || !t.LostKey(b.now) {
		return t, err
	}
	return nil, b.change(t, func() lifecycle.Note { return t.LoseKey(b.now) })
}

func (b *txn) admit(s task.Spec) (e task.Enqueued, err error) {
	t := &taskRow{Task: lifecycle.New(s, b.now)}
	if t.sub, err = b.subQueue(place{s.Queue, s.Kind}); err != nil {
		return e, err
	}
	if s.Limit != nil {
		l, err := b.declare(&s)
		if err != nil {
			return e, err
		}
		t.limit = l.id
	}
	inLine := t.State == task.Available && t.Queues()
	if inLine {
		t.State = task.Blocked // until its sub-queue nominates it
	}
	if err := b.scan("task_insert", t.columns(), &t.ID); err != nil {
		return e, err
	}
	if inLine {
		if err := b.nominate(t); err != nil {
			return e, err
		}
	}
	return task.Enqueued{Answer: task.New, ID: t.ID, State: t.State}, nil
}

// nominate makes a new task available if its sub-queue has a free slot for it. Behind a long line that is one look.
func (b *txn) nominate(t *taskRow) error {
	l, err := b.limit(t.limit)
	if err != nil || l.free() == 0 {
		return err
	}
	if _, err := b.settleSubQueue(l, t.sub); err != nil {
		return err
	}
	return b.look(t)
}
