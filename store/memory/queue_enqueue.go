package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

func (q tasks) Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	return on(ctx, q.queueState, func(now time.Time) []task.Enqueued { return each(specs, now, q.enqueue) })
}

func (d *queueState) enqueue(s task.Spec, now time.Time) task.Enqueued {
	s = lifecycle.Timed(s.Clone(), now)
	if s.Unique == nil {
		return d.admit(s, now)
	}
	there := d.holder(s.Unique.Hash(s.Kind), now)
	if there == nil {
		return d.admit(s, now)
	}
	answer := there.Again(&s)
	switch answer {
	case task.New:
		there.Key = nil
		return d.admit(s, now)
	case task.Updated:
		d.change(there, now, func() lifecycle.Note { return there.Renew(s, now) })
	}
	return task.Enqueued{Answer: answer, ID: there.ID, State: there.State}
}

// holder is the task that holds a unique key now; nil if none does.
func (d *queueState) holder(h task.Hash, now time.Time) *taskRow {
	t := d.keys[h]
	if t == nil || !t.LostKey(now) {
		return t
	}
	d.change(t, now, func() lifecycle.Note { return t.LoseKey(now) })
	return nil
}

func (d *queueState) admit(s task.Spec, now time.Time) task.Enqueued {
	d.last++
	t := &taskRow{Task: lifecycle.New(s, now)}
	t.ID = d.last
	if s.Limit != nil {
		t.limit = d.declare(&s, now)
	}
	d.tasks[t.ID] = t
	d.ids = append(d.ids, t.ID)
	d.index(t)
	d.file(t)
	return task.Enqueued{Answer: task.New, ID: t.ID, State: t.State}
}
