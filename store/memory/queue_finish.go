package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
)

// held is the task that runs under exactly this token of a worker whose lease is live; nil if there is none.
func (d *queueState) held(worker lease.Ref, r driver.Ref, now time.Time) *taskRow {
	t := d.tasks[r.ID]
	if t == nil || !t.Runs(r) || t.Worker.Lease != worker || !d.b.live(worker, now) {
		return nil
	}
	return t
}

func (q tasks) Start(ctx context.Context, worker lease.Ref, refs []driver.Ref) ([]driver.Status, error) {
	return on(ctx, q.queueState, func(now time.Time) []driver.Status {
		return each(refs, now, func(r driver.Ref, now time.Time) driver.Status {
			t := q.held(worker, r, now)
			if t == nil {
				return driver.Gone
			}
			q.change(t, now, t.Start)
			return driver.OK
		})
	})
}

func (q tasks) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	return on(ctx, q.queueState, func(now time.Time) []driver.Status {
		return each(ends, now, func(c driver.Completion, now time.Time) driver.Status { return q.finish(worker, c, now) })
	})
}

func (d *queueState) finish(worker lease.Ref, c driver.Completion, now time.Time) driver.Status {
	t := d.held(worker, c.Ref, now)
	if t == nil {
		if t = d.tasks[c.ID]; t != nil && t.Repeats(c, t.Worker.Lease == worker) {
			return driver.OK
		}
		return driver.Gone
	}
	d.change(t, now, func() lifecycle.Note { return t.Finish(c, now) })
	return driver.OK
}

func (q tasks) Running(ctx context.Context, worker lease.Ref, asked bool) ([]driver.RunningTask, error) {
	return on(ctx, q.queueState, func(time.Time) []driver.RunningTask {
		w := q.workers[worker]
		if w == nil {
			return nil
		}
		var found []driver.RunningTask
		for _, t := range w.running {
			if !asked || t.Stop != "" {
				found = append(found, driver.RunningTask{Ref: driver.Ref{ID: t.ID, Token: t.Token}, Stop: t.Stop})
			}
		}
		slices.SortFunc(found, func(x, y driver.RunningTask) int { return cmp.Compare(x.ID, y.ID) })
		return found
	})
}
