package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

func (a admin) Operate(ctx context.Context, act driver.OpRequest) ([]driver.OpResult, error) {
	return on(ctx, a.queueState, func(now time.Time) []driver.OpResult {
		var done []task.ID
		answers := each(act.IDs, now, func(id task.ID, now time.Time) driver.OpResult {
			answer := driver.OpResult{ID: id, Answer: driver.NotThere}
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
func (d *queueState) act(t *taskRow, act driver.OpRequest, now time.Time) (answer driver.OpAnswer, other task.ID) {
	if answer = t.Refuses(&act); answer != "" {
		return answer, 0
	}
	if act.Operation == driver.OpDelete {
		d.remove(t)
		return driver.Done, 0
	}
	if act.Operation == driver.OpRetry && t.Reclaims() {
		if there := d.holder(t.Unique.Hash(t.Kind), now); there != nil && there != t {
			return driver.Taken, there.ID
		}
	}
	d.change(t, now, func() (n lifecycle.Note) {
		answer, n = t.Operate(act, now)
		return n
	})
	return answer, 0
}
