package mysql

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs/queue"
)

// Act fulfils queue.Admin.
func (d desk) Act(ctx context.Context, act queue.Action) (answers []queue.Acted, err error) {
	if len(act.IDs) == 0 {
		return nil, ctx.Err()
	}
	if act.Act == queue.ActMove {
		if err := d.lanesFor(ctx, act); err != nil {
			return nil, fmt.Errorf("move: %w", err)
		}
	}
	err = d.step(ctx, func(b *board) error {
		if err := b.prepareActs(act); err != nil {
			return err
		}
		var done []queue.ID
		var tasks []*task
		answers, err = answer(act.IDs, func(id queue.ID) (queue.Acted, error) {
			t, a, err := b.actOn(id, act)
			if a.Answer == queue.Done || a.Answer == queue.Asking {
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

// lanesFor makes the lanes that tasks are moved to.
func (d desk) lanesFor(ctx context.Context, act queue.Action) error {
	b := &board{ctx: ctx, q: d.queues}
	b.reset()
	if err := b.load(act.IDs); err != nil {
		return err
	}
	var specs []queue.Spec
	for _, t := range b.tasks {
		specs = append(specs, queue.Spec{Queue: act.Queue, Kind: t.Kind})
	}
	return d.newLanes(ctx, specs)
}

// prepareActs reads what the act needs.
func (b *board) prepareActs(act queue.Action) error {
	if err := b.load(act.IDs); err != nil {
		return err
	}
	if err := b.lockTheirs(); err != nil || act.Act != queue.ActRetry {
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

func (b *board) actOn(id queue.ID, act queue.Action) (t *task, a queue.Acted, err error) {
	a = queue.Acted{ID: id, Answer: queue.NotThere}
	if t, err = b.get(id); err != nil || t == nil {
		return nil, a, err
	}
	if b.busy(t) {
		a.Answer = queue.Busy
		return t, a, nil
	}
	a.Answer, a.Other, err = b.act(t, act)
	return t, a, err
}

// act does one thing to one task.
func (b *board) act(t *task, act queue.Action) (answer queue.ActAnswer, other queue.ID, err error) {
	switch {
	case act.Act == queue.ActRetry && (t.State.Final() || t.State == queue.Retryable):
		return b.retry(t)
	case act.Act == queue.ActCancel && t.State == queue.Running:
		t.Stop = queue.ReasonOperator
		b.save(t)
		return queue.Asking, 0, nil
	case act.Act == queue.ActDelete && t.State.Final():
		b.remove(t)
		return queue.Done, 0, nil
	case !t.State.Waiting():
		return queue.Unfit, 0, nil
	}
	switch act.Act {
	case queue.ActCancel:
		err = b.cancel(t, queue.ReasonOperator)
	case queue.ActDiscard:
		err = b.discard(t, queue.ReasonOperator)
	case queue.ActPromote, queue.ActMove, queue.ActEdit:
		from := t.State
		b.change(t, act)
		err = b.wait(t, from)
	default:
		return queue.Unfit, 0, nil
	}
	return queue.Done, 0, err
}

// change is what promotion, a move and an edit write.
func (b *board) change(t *task, act queue.Action) {
	switch act.Act {
	case queue.ActPromote:
		t.Front = true
		if t.RunAt.After(b.now) {
			t.RunAt = b.now
		}
	case queue.ActMove:
		t.Queue = act.Queue
		t.lane = laneNumber(place{act.Queue, t.Kind})
	case queue.ActEdit:
		if p := act.Edit.Priority; p != nil {
			t.Priority = *p
		}
		if at := act.Edit.RunAt; at != nil {
			t.RunAt = micro(*at)
		}
	}
}

// retry runs a task anew, with one fresh budget (rule Q7). One that ended takes its unique key again, if that is free.
func (b *board) retry(t *task) (answer queue.ActAnswer, other queue.ID, err error) {
	if t.Unique != nil && t.State.Final() {
		h := t.Unique.Hash(t.Kind)
		there, err := b.holder(h)
		if err != nil {
			return "", 0, err
		}
		if there != nil && there.ID != t.ID {
			return queue.Taken, there.ID, nil
		}
		t.ukey = h[:]
		b.keys[h] = t
	}
	from := t.State
	t.Granted, t.Crashes, t.Snoozes = t.Attempts, 0, 0
	t.window, t.Ended, t.Reason, t.RunAt, t.displaced = zero, zero, "", b.now, false
	if !t.ExpiresAt.IsZero() && !b.now.Before(t.ExpiresAt) {
		t.ExpiresAt = zero // it has been waited for; somebody wants it nevertheless
	}
	return queue.Done, 0, b.wait(t, from)
}
