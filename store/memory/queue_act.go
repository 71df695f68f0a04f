package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/life"
	"github.com/dibs-run/dibs/task"
)

func (a desk) Act(ctx context.Context, act driver.Action) ([]driver.Acted, error) {
	return on(ctx, a.board, func(now time.Time) []driver.Acted {
		var done []task.ID
		answers := each(act.IDs, now, func(id task.ID, now time.Time) driver.Acted {
			answer := driver.Acted{ID: id, Answer: driver.NotThere}
			t := a.tasks[id]
			if t == nil {
				return answer
			}
			answer.Answer, answer.Other = a.act(t, act, now)
			if answer.Answer == driver.Done || answer.Answer == driver.Asking {
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
func (d *board) act(t *taskRow, act driver.Action, now time.Time) (answer driver.ActAnswer, other task.ID) {
	if answer = t.Refuses(&act); answer != "" {
		return answer, 0
	}
	if act.Act == driver.ActDelete {
		d.remove(t)
		return driver.Done, 0
	}
	if act.Act == driver.ActRetry && t.Reclaims() {
		if there := d.holder(t.Unique.Hash(t.Kind), now); there != nil && there != t {
			return driver.Taken, there.ID
		}
	}
	d.change(t, now, func() (n life.Note) {
		answer, n = t.Act(act, now)
		return n
	})
	return answer, 0
}
