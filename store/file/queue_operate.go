//go:build linux

package file

import (
	"context"
	"slices"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// Operate fulfils driver.Admin, in steps of mostAtOnce tasks at most, each with its event.
func (d admin) Operate(ctx context.Context, act driver.OpRequest) ([]driver.OpResult, error) {
	answers := make([]driver.OpResult, 0, len(act.IDs))
	for part := range slices.Chunk(act.IDs, mostAtOnce) {
		some, err := d.operate(ctx, part, act)
		if err != nil {
			return nil, err
		}
		answers = append(answers, some...)
	}
	return answers, nil
}

// operate is one step of it.
func (d admin) operate(ctx context.Context, ids []task.ID, act driver.OpRequest) (answers []driver.OpResult, err error) {
	err = d.db.step(ctx, func(b *txn) error {
		answers = make([]driver.OpResult, len(ids))
		var done []task.ID
		tasks := make([]*taskRow, len(ids))
		var inLine []*taskRow
		for i, id := range ids {
			var err error
			if tasks[i], answers[i], err = b.actOn(id, act); err != nil {
				return err
			}
			if a := answers[i].Answer; a == driver.Done || a == driver.Asking {
				done = append(done, id)
			}
			if t := tasks[i]; t != nil && t.inLine() {
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
