//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// Operate fulfils driver.Admin.
func (d admin) Operate(ctx context.Context, act driver.OpRequest) (answers []driver.OpResult, err error) {
	err = d.db.step(ctx, func(b *txn) error {
		answers = make([]driver.OpResult, 0, len(act.IDs))
		var done []task.ID
		for _, id := range act.IDs {
			a, err := b.actOn(id, act)
			if err != nil {
				return err
			}
			if a.Answer == driver.Done || a.Answer == driver.Asking {
				done = append(done, id)
			}
			answers = append(answers, a)
		}
		if len(done) == 0 {
			return nil
		}
		return b.record(act.Event(done))
	})
	return answers, err
}

func (b *txn) actOn(id task.ID, act driver.OpRequest) (a driver.OpResult, err error) {
	a = driver.OpResult{ID: id, Answer: driver.NotThere}
	t, err := b.get(id)
	if err != nil || t == nil {
		return a, err
	}
	if a.Answer, a.Other, err = b.act(t, act); err != nil {
		return a, err
	}
	if act.Operation != driver.OpDelete || a.Answer != driver.Done {
		a.State = t.State
	}
	return a, nil
}

// act does one thing to one task.
func (b *txn) act(t *taskRow, act driver.OpRequest) (answer driver.OpAnswer, other task.ID, err error) {
	if answer = t.Refuses(&act); answer != "" {
		return answer, 0, nil
	}
	switch act.Operation {
	case driver.OpDelete:
		return driver.Done, 0, b.remove(t)
	case driver.OpMove:
		if t.sub, err = b.subQueue(place{act.Queue, t.Kind}); err != nil {
			return "", 0, err
		}
	case driver.OpRetry:
		if !t.Reclaims() {
			break
		}
		there, err := b.holder(t.Unique.Hash(t.Kind))
		if err != nil {
			return "", 0, err
		}
		if there != nil && there.ID != t.ID {
			return driver.Taken, there.ID, nil
		}
	}
	err = b.change(t, func() (n lifecycle.Note) {
		answer, n = t.Operate(act, b.now)
		return n
	})
	return answer, 0, err
}
