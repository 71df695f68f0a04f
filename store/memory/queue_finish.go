package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/internal/life"
)

// mine is the task that runs under exactly this token of a worker whose lease is live; nil if there is none.
func (d *board) mine(worker lease.Ref, r queue.Ref, now time.Time) *task {
	t := d.tasks[r.ID]
	if t == nil || !t.Runs(r) || t.Worker.Lease != worker || !d.b.live(worker, now) {
		return nil
	}
	return t
}

func (q tasks) Start(ctx context.Context, worker lease.Ref, refs []queue.Ref) ([]queue.Status, error) {
	return on(ctx, q.board, func(now time.Time) []queue.Status {
		return each(refs, now, func(r queue.Ref, now time.Time) queue.Status {
			t := q.mine(worker, r, now)
			if t == nil {
				return queue.Gone
			}
			q.change(t, now, t.Start)
			return queue.OK
		})
	})
}

func (q tasks) Finish(ctx context.Context, worker lease.Ref, ends []queue.Completion) ([]queue.Status, error) {
	return on(ctx, q.board, func(now time.Time) []queue.Status {
		return each(ends, now, func(c queue.Completion, now time.Time) queue.Status { return q.finish(worker, c, now) })
	})
}

func (d *board) finish(worker lease.Ref, c queue.Completion, now time.Time) queue.Status {
	t := d.mine(worker, c.Ref, now)
	if t == nil {
		if t = d.tasks[c.ID]; t != nil && t.Repeats(c, t.Worker.Lease == worker) {
			return queue.OK
		}
		return queue.Gone
	}
	d.change(t, now, func() life.Note { return t.Finish(c, now) })
	return queue.OK
}

func (q tasks) Mine(ctx context.Context, worker lease.Ref, asked bool) ([]queue.Asked, error) {
	return on(ctx, q.board, func(time.Time) []queue.Asked {
		w := q.workers[worker]
		if w == nil {
			return nil
		}
		var found []queue.Asked
		for _, t := range w.running {
			if !asked || t.Stop != "" {
				found = append(found, queue.Asked{Ref: queue.Ref{ID: t.ID, Token: t.Token}, Stop: t.Stop})
			}
		}
		slices.SortFunc(found, func(x, y queue.Asked) int { return cmp.Compare(x.ID, y.ID) })
		return found
	})
}
