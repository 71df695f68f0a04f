package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/queue"
)

func (a desk) Act(ctx context.Context, act queue.Action) ([]queue.Acted, error) {
	return on(ctx, a.board, func(now time.Time) []queue.Acted {
		var done []queue.ID
		answers := each(act.IDs, now, func(id queue.ID, now time.Time) queue.Acted {
			answer := queue.Acted{ID: id, Answer: queue.NotThere}
			t := a.tasks[id]
			if t == nil {
				return answer
			}
			answer.Answer, answer.Other = a.act(t, act, now)
			if answer.Answer == queue.Done || answer.Answer == queue.Asking {
				done = append(done, id)
			}
			if a.tasks[id] != nil {
				answer.State = t.State
			}
			return answer
		})
		if len(done) > 0 {
			kind, reason := act.Event(done)
			a.record(kind, reason, now)
		}
		return answers
	})
}

// act does one thing to one task.
func (d *board) act(t *task, act queue.Action, now time.Time) (answer queue.ActAnswer, other queue.ID) {
	switch {
	case act.Act == queue.ActRetry && (t.State.Final() || t.State == queue.Retryable):
		return d.retry(t, now)
	case act.Act == queue.ActCancel && t.State == queue.Running:
		t.Stop = queue.ReasonOperator
		return queue.Asking, 0
	case act.Act == queue.ActDelete && t.State.Final():
		d.remove(t)
		return queue.Done, 0
	case !t.State.Waiting():
		return queue.Unfit, 0
	}
	switch act.Act {
	case queue.ActCancel:
		d.cancel(t, queue.ReasonOperator, now)
	case queue.ActDiscard:
		d.discard(t, queue.ReasonOperator, now)
	case queue.ActPromote, queue.ActMove, queue.ActEdit:
		d.pull(t)
		t.change(act, now)
		d.wait(t, now)
	default:
		return queue.Unfit, 0
	}
	return queue.Done, 0
}

// change is what promotion, a move and an edit write.
func (t *task) change(act queue.Action, now time.Time) {
	switch act.Act {
	case queue.ActPromote:
		t.Front = true
		if t.RunAt.After(now) {
			t.RunAt = now
		}
	case queue.ActMove:
		t.Queue = act.Queue
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
func (d *board) retry(t *task, now time.Time) (answer queue.ActAnswer, other queue.ID) {
	if t.Unique != nil && t.State.Final() {
		h := t.Unique.Hash(t.Kind)
		if there := d.holder(h, now); there != nil && there != t {
			return queue.Taken, there.ID
		}
		d.keys[h] = t
	}
	d.pull(t)
	t.Granted, t.Crashes, t.Snoozes = t.Attempts, 0, 0
	t.window, t.Ended, t.Reason, t.RunAt, t.displaced = time.Time{}, time.Time{}, "", now, false
	if !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt) {
		t.ExpiresAt = time.Time{} // it has been waited for; somebody wants it nevertheless
	}
	d.wait(t, now)
	return queue.Done, 0
}
