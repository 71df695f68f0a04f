package mysql

import (
	"context"
	"fmt"
	"slices"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// Operate fulfils driver.Admin, in steps of mostActs tasks at most, each with its event.
func (d admin) Operate(ctx context.Context, act driver.OpRequest) (answers []driver.OpResult, err error) {
	if len(act.IDs) == 0 {
		return nil, ctx.Err()
	}
	for ids := range slices.Chunk(act.IDs, mostActs) {
		act.IDs = ids
		some, err := d.operate(ctx, act)
		if err != nil {
			return nil, err
		}
		answers = append(answers, some...)
	}
	return answers, nil
}

// operate is one step of it: it decides about each task, and writes all of them.
func (d admin) operate(ctx context.Context, act driver.OpRequest) (answers []driver.OpResult, err error) {
	if act.Operation == driver.OpMove {
		if err := d.subQueuesFor(ctx, act); err != nil {
			return nil, fmt.Errorf("move: %w", err)
		}
	}
	err = d.step(ctx, func(b *txn) error {
		if err := b.prepareActs(act); err != nil {
			return err
		}
		var done []task.ID
		var tasks []*taskRow
		answers, err = answer(act.IDs, func(id task.ID) (driver.OpResult, error) {
			t, a, err := b.actOn(id, act)
			if a.Answer == driver.Done || a.Answer == driver.Asking {
				done = append(done, id)
			}
			tasks = append(tasks, t)
			return a, err
		})
		if err != nil {
			return err
		}
		if len(done) > 0 {
			b.record(act.Event(done))
		}
		if err := b.carryOut(); err != nil {
			return err
		}
		for i, t := range tasks {
			if t != nil && !t.gone {
				answers[i].State = t.State
			}
		}
		return nil
	})
	return answers, err
}

// subQueuesFor makes the sub-queues that tasks are moved to.
func (d admin) subQueuesFor(ctx context.Context, act driver.OpRequest) error {
	b := &txn{ctx: ctx, q: d.queues}
	b.reset()
	if err := b.load(act.IDs); err != nil {
		return err
	}
	var specs []task.Spec
	for _, t := range b.tasks {
		specs = append(specs, task.Spec{Queue: act.Queue, Kind: t.Kind})
	}
	return d.newSubQueues(ctx, specs)
}

// prepareActs reads what the act needs.
func (b *txn) prepareActs(act driver.OpRequest) error {
	if err := b.load(act.IDs); err != nil {
		return err
	}
	if err := b.lockTheirs(); err != nil || act.Operation != driver.OpRetry {
		return err
	}
	var keys list
	for _, t := range b.tasks {
		if t.Unique != nil {
			h := t.Unique.Hash(t.Kind)
			keys = append(keys, h[:])
		}
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := b.find("tasks-by-key", b.q.ns, keys)
	return err
}

func (b *txn) actOn(id task.ID, act driver.OpRequest) (t *taskRow, a driver.OpResult, err error) {
	a = driver.OpResult{ID: id, Answer: driver.NotThere}
	if t, err = b.get(id); err != nil || t == nil {
		return nil, a, err
	}
	if b.busy(t) {
		a.Answer = driver.Busy
		return t, a, nil
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
		b.remove(t)
		return driver.Done, 0, nil
	case driver.OpMove:
		t.sub = subQueueNumber(subQueueName{act.Queue, t.Kind})
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
