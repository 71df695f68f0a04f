//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// Operate fulfils driver.Admin, in steps that each have their event.
func (d admin) Operate(ctx context.Context, act driver.OpRequest) (answers []driver.OpResult, err error) {
	for len(answers) < len(act.IDs) && err == nil {
		var some []driver.OpResult
		some, err = d.operate(ctx, act.IDs[len(answers):], act)
		answers = append(answers, some...)
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// operate is one step of it, on the first of ids.
func (d admin) operate(ctx context.Context, ids []task.ID, act driver.OpRequest) (answers []driver.OpResult, err error) {
	err = d.db.step(ctx, func(b *txn) error {
		answers = nil
		var done []task.ID
		var tasks, inLine []*taskRow
		for _, id := range ids {
			if b.full(len(tasks)) {
				break
			}
			t, a, err := b.actOn(id, act)
			if err != nil {
				return err
			}
			tasks, answers = append(tasks, t), append(answers, a)
			if a.Answer == driver.Done || a.Answer == driver.Asking {
				done = append(done, id)
			}
			if t != nil && t.inLine() {
				inLine = append(inLine, t)
			}
		}
		if err := b.settleAll(); err != nil {
			return err
		}
		if err := b.look(inLine); err != nil {
			return err
		}
		for i, t := range tasks {
			if t != nil && (act.Operation != driver.OpDelete || answers[i].Answer != driver.Done) {
				answers[i].State = t.State
			}
		}
		if len(done) == 0 {
			return nil
		}
		return b.record(act.Event(done))
	})
	return answers, err
}

// actOn also returns the task, if there is one.
func (b *txn) actOn(id task.ID, act driver.OpRequest) (t *taskRow, a driver.OpResult, err error) {
	a = driver.OpResult{ID: id, Answer: driver.NotThere}
	if t, err = b.get(id); err != nil || t == nil {
		return nil, a, err
	}
	a.Answer, a.Other, err = b.act(t, act)
	return t, a, err
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
		if t.sub, err = b.subQueue(subQueueName{act.Queue, t.Kind}); err != nil {
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
