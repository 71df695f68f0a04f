//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/store/internal/life"
	"github.com/dibs-run/dibs/task"
)

// Enqueue fulfils driver.Store.
func (q queues) Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	return answer(ctx, q.db, specs, (*board).enqueue)
}

func (b *board) enqueue(s task.Spec) (e task.Enqueued, err error) {
	s = life.Timed(s, b.now)
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
		err = b.change(there, func() life.Note { return there.Renew(s, b.now) })
	}
	e.ID, e.State = there.ID, there.State
	return e, err
}

// holder is the task that holds a unique key now; nil if none does.
func (b *board) holder(h task.Hash) (*taskRow, error) {
	t, err := b.find("task_by_key", h[:])
	if err != nil || t == nil || !t.LostKey(b.now) {
		return t, err
	}
	return nil, b.change(t, func() life.Note { return t.LoseKey(b.now) })
}

func (b *board) admit(s task.Spec) (e task.Enqueued, err error) {
	t := &taskRow{Task: life.New(s, b.now)}
	if t.lane, err = b.lane(place{s.Queue, s.Kind}); err != nil {
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
		t.State = task.Blocked // until its lane nominates it
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

// nominate makes a new task available if its lane has a free slot for it. Behind a long line that is one look.
func (b *board) nominate(t *taskRow) error {
	l, err := b.limit(t.limit)
	if err != nil || l.free() == 0 {
		return err
	}
	if _, err := b.settleLane(l, t.lane); err != nil {
		return err
	}
	return b.look(t)
}
