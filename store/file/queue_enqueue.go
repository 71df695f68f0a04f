//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// Enqueue fulfils driver.Store.
func (q queues) Enqueue(ctx context.Context, specs []task.Spec) (answers []task.Enqueued, err error) {
	err = q.db.step(ctx, func(b *txn) error {
		answers, err = b.enqueueAll(specs)
		return err
	})
	return answers, err
}

// enqueueAll answers one after the other. A task in line for a limit is as the end of the step leaves it.
func (b *txn) enqueueAll(specs []task.Spec) ([]task.Enqueued, error) {
	answers, of, inLine := make([]task.Enqueued, len(specs)), make([]*taskRow, len(specs)), []*taskRow(nil)
	for i, s := range specs {
		a, t, err := b.enqueue(s)
		if err != nil {
			return nil, err
		}
		answers[i] = task.Enqueued{Answer: a, ID: t.ID, State: t.State}
		if of[i] = t; t.inLine() {
			inLine = append(inLine, t)
		}
	}
	if err := b.settleAll(); err != nil {
		return nil, err
	}
	if b.flips == 0 { // each is as it was put there
		return answers, nil
	}
	if err := b.look(inLine); err != nil {
		return nil, err
	}
	for i, t := range of {
		if t.inLine() { // else a later one of these has made it something else
			answers[i].State = t.State
		}
	}
	return answers, nil
}

// enqueue also returns the task, new or not.
func (b *txn) enqueue(s task.Spec) (task.Admission, *taskRow, error) {
	s = lifecycle.Timed(s, b.now)
	if s.Unique == nil {
		return b.admit(s)
	}
	there, err := b.holder(s.Unique.Hash(s.Kind))
	if err != nil {
		return "", nil, err
	}
	if there == nil {
		return b.admit(s)
	}
	a := there.Again(&s)
	switch a {
	case task.New:
		there.Key = nil
		if err := b.save(there); err != nil {
			return "", nil, err
		}
		return b.admit(s)
	case task.Updated:
		there.respelt = true
		err = b.change(there, func() lifecycle.Note { return there.Renew(s, b.now) })
	}
	return a, there, err
}

// holder is the task that holds a unique key now; nil if none does.
func (b *txn) holder(h task.Hash) (*taskRow, error) {
	t, err := b.find("task_by_key", h[:])
	if err != nil || t == nil || t.aside {
		return nil, err
	}
	if !t.LostKey(b.now) {
		return t, nil
	}
	return nil, b.change(t, func() lifecycle.Note { return t.LoseKey(b.now) })
}

func (b *txn) admit(s task.Spec) (a task.Admission, t *taskRow, err error) {
	t = &taskRow{Task: lifecycle.New(s, b.now)}
	if t.sub, err = b.subQueue(subQueueName{s.Queue, s.Kind}); err != nil {
		return a, nil, err
	}
	if s.Limit != nil {
		l, err := b.declare(&s)
		if err != nil {
			return a, nil, err
		}
		t.limit = l.id
		if err := b.stand(t, l); err != nil {
			return a, nil, err
		}
	}
	return task.New, t, b.scan("task_insert", append(t.columns(), t.spelling()...), &t.ID)
}

// stand puts a new task in line for a slot. If one is free and nobody else is in line, it is available at once; else
// it is blocked until its line is brought in order, which changes nothing where no slot is free.
func (b *txn) stand(t *taskRow, l *limit) error {
	if !t.inLine() {
		return nil
	}
	t.State = task.Blocked
	if l.free() == 0 || l.dirty[t.sub] {
		return nil
	}
	var others bool
	if err := b.scan("line_any", []any{l.id, t.sub}, &others); err != nil {
		return err
	}
	if others {
		l.disturb(t.sub)
	} else {
		t.State = task.Available
	}
	return nil
}
