package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/internal/life"
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
func (d *board) act(t *taskRow, act queue.Action, now time.Time) (answer queue.ActAnswer, other queue.ID) {
	if answer = t.Refuses(&act); answer != "" {
		return answer, 0
	}
	if act.Act == queue.ActDelete {
		d.remove(t)
		return queue.Done, 0
	}
	if act.Act == queue.ActRetry && t.Reclaims() {
		if there := d.holder(t.Unique.Hash(t.Kind), now); there != nil && there != t {
			return queue.Taken, there.ID
		}
	}
	d.change(t, now, func() (n life.Note) {
		answer, n = t.Act(act, now)
		return n
	})
	return answer, 0
}
