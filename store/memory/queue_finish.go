package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

// mine is the task that runs under exactly this token of a worker whose lease is live; nil where none does.
func (d *board) mine(worker lease.Ref, r queue.Ref, now time.Time) *task {
	t := d.tasks[r.ID]
	if t == nil || t.State != queue.Running || t.Token != r.Token || t.Worker.Lease != worker || !d.b.live(worker, now) {
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
			t.begun = true
			if u := t.Unique; u != nil && u.Until == queue.UntilStarted && q.keys[u.Hash(t.Kind)] == t {
				delete(q.keys, u.Hash(t.Kind))
			}
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
		if t = d.tasks[c.ID]; t != nil && t.completed == c.Token && t.by == worker {
			return queue.OK // the answer to the first one was lost
		}
		return queue.Gone
	}
	t.completed, t.by = c.Token, worker
	if c.Counts() {
		t.Attempts++
	}
	t.remember(c)
	switch c.Verdict {
	case queue.Success:
		d.end(t, queue.Succeeded, c.Reason, now)
	case queue.Fail:
		d.end(t, queue.Failed, c.Reason, now)
	case queue.Cancel:
		d.end(t, queue.Canceled, c.Reason, now)
	case queue.Drop:
		d.end(t, queue.Discarded, c.Reason, now)
	default:
		d.again(t, c, now)
	}
	return queue.OK
}

// again lets t wait for its next attempt. One that was asked to stop has none.
func (d *board) again(t *task, c queue.Completion, now time.Time) {
	if t.Stop != "" {
		d.cancel(t, t.Stop, now)
		return
	}
	d.pull(t)
	t.displaced = false
	switch c.Verdict {
	case queue.Retry:
		t.State, t.RunAt = queue.Retryable, micro(now.Add(c.Delay))
	case queue.Snooze:
		t.State, t.RunAt = queue.Scheduled, micro(now.Add(c.Delay))
		t.Snoozes++
	case queue.Return:
		t.State = queue.Available
	}
	d.file(t)
}

// remember adds an attempt that did not succeed to t's history. One that is not counted bears the number of the next
// that will be.
func (t *task) remember(c queue.Completion) {
	if c.Verdict == queue.Success || c.Outcome == "" {
		return
	}
	n := t.Attempts
	if !c.Counts() {
		n++
	}
	t.History = append(t.History, queue.Attempt{N: n, Outcome: c.Outcome, Started: micro(c.Started), Ended: micro(c.Ended),
		Host: t.Worker.Host, Error: c.Error})
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
