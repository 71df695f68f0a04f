//go:build linux

package file

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/queue"
)

// Act fulfils queue.Admin.
func (d desk) Act(ctx context.Context, act queue.Action) (answers []queue.Acted, err error) {
	err = d.db.step(ctx, func(b *board) error {
		answers = make([]queue.Acted, 0, len(act.IDs))
		var done []queue.ID
		for _, id := range act.IDs {
			a, err := b.actOn(id, act)
			if err != nil {
				return err
			}
			if a.Answer == queue.Done || a.Answer == queue.Asking {
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

func (b *board) actOn(id queue.ID, act queue.Action) (a queue.Acted, err error) {
	a = queue.Acted{ID: id, Answer: queue.NotThere}
	t, err := b.get(id)
	if err != nil || t == nil {
		return a, err
	}
	if a.Answer, a.Other, err = b.act(t, act); err != nil {
		return a, err
	}
	if act.Act != queue.ActDelete || a.Answer != queue.Done {
		a.State = t.State
	}
	return a, nil
}

// act does one thing to one task.
func (b *board) act(t *task, act queue.Action) (answer queue.ActAnswer, other queue.ID, err error) {
	switch {
	case act.Act == queue.ActRetry && (t.State.Final() || t.State == queue.Retryable):
		return b.retry(t)
	case act.Act == queue.ActCancel && t.State == queue.Running:
		t.Stop = queue.ReasonOperator
		return queue.Asking, 0, b.save(t)
	case act.Act == queue.ActDelete && t.State.Final():
		return queue.Done, 0, b.remove(t)
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
		if err = b.change(t, act); err == nil {
			err = b.wait(t, from)
		}
	default:
		return queue.Unfit, 0, nil
	}
	return queue.Done, 0, err
}

// change is what promotion, a move and an edit write.
func (b *board) change(t *task, act queue.Action) (err error) {
	switch act.Act {
	case queue.ActPromote:
		t.Front = true
		if t.RunAt.After(b.now) {
			t.RunAt = b.now
		}
	case queue.ActMove:
		t.Queue = act.Queue
		t.lane, err = b.lane(place{act.Queue, t.Kind})
	case queue.ActEdit:
		if p := act.Edit.Priority; p != nil {
			t.Priority = *p
		}
		if at := act.Edit.RunAt; at != nil {
			t.RunAt = micro(*at)
		}
	}
	return err
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
	}
	from := t.State
	t.Granted, t.Crashes, t.Snoozes = t.Attempts, 0, 0
	t.window, t.Ended, t.Reason, t.RunAt, t.displaced = time.Time{}, time.Time{}, "", b.now, false
	if !t.ExpiresAt.IsZero() && !b.now.Before(t.ExpiresAt) {
		t.ExpiresAt = time.Time{} // it has been waited for; somebody wants it nevertheless
	}
	return queue.Done, 0, b.wait(t, from)
}
