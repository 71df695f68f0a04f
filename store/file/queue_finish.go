//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

// mine is the task that runs under exactly this token of a worker whose lease is live; nil where none does.
func (b *board) mine(worker lease.Ref, r queue.Ref) (t *task, id int64, err error) {
	if id, err = b.workerID(worker); err != nil {
		return nil, 0, err
	}
	live, err := b.live(worker)
	if err != nil {
		return nil, id, err
	}
	t, err = b.get(r.ID)
	if err != nil || t == nil || !live || t.State != queue.Running || t.Token != r.Token || t.worker != id {
		return nil, id, err
	}
	return t, id, nil
}

// Start fulfils queue.Store.
func (q queues) Start(ctx context.Context, worker lease.Ref, refs []queue.Ref) ([]queue.Status, error) {
	return answer(ctx, q.db, refs, func(b *board, r queue.Ref) (queue.Status, error) {
		t, _, err := b.mine(worker, r)
		if err != nil || t == nil {
			return queue.Gone, err
		}
		t.begun = true
		if t.Unique != nil && t.Unique.Until == queue.UntilStarted {
			t.ukey = nil
		}
		return queue.OK, b.save(t)
	})
}

// Finish fulfils queue.Store.
func (q queues) Finish(ctx context.Context, worker lease.Ref, ends []queue.Completion) ([]queue.Status, error) {
	return answer(ctx, q.db, ends, func(b *board, c queue.Completion) (queue.Status, error) { return b.finish(worker, c) })
}

func (b *board) finish(worker lease.Ref, c queue.Completion) (queue.Status, error) {
	t, id, err := b.mine(worker, c.Ref)
	if err != nil {
		return 0, err
	}
	if t == nil {
		if t, err = b.get(c.ID); err == nil && t != nil && t.completed == c.Token && t.worker == id {
			return queue.OK, nil // the answer to the first one was lost
		}
		return queue.Gone, err
	}
	t.completed = c.Token
	if c.Counts() {
		t.Attempts++
	}
	if err := b.rememberEnd(t, c); err != nil {
		return 0, err
	}
	switch c.Verdict {
	case queue.Success:
		err = b.end(t, queue.Succeeded, c.Reason)
	case queue.Fail:
		err = b.end(t, queue.Failed, c.Reason)
	case queue.Cancel:
		err = b.end(t, queue.Canceled, c.Reason)
	case queue.Drop:
		err = b.end(t, queue.Discarded, c.Reason)
	default:
		err = b.again(t, c)
	}
	return queue.OK, err
}

// again lets t wait for its next attempt. One that was asked to stop has none.
func (b *board) again(t *task, c queue.Completion) error {
	if t.Stop != "" {
		return b.cancel(t, t.Stop)
	}
	t.displaced = false
	switch c.Verdict {
	case queue.Retry:
		t.State, t.RunAt = queue.Retryable, micro(b.now.Add(c.Delay))
	case queue.Snooze:
		t.State, t.RunAt = queue.Scheduled, micro(b.now.Add(c.Delay))
		t.Snoozes++
	case queue.Return:
		t.State = queue.Available
	}
	return b.move(t, queue.Running)
}

// rememberEnd adds an attempt that did not succeed to t's history. One that is not counted bears the number of the next that
// will be.
func (b *board) rememberEnd(t *task, c queue.Completion) error {
	if c.Verdict == queue.Success || c.Outcome == "" {
		return nil
	}
	n := t.Attempts
	if !c.Counts() {
		n++
	}
	w, err := b.process(t.worker)
	if err != nil {
		return err
	}
	return b.remember(t, queue.Attempt{N: n, Outcome: c.Outcome, Started: micro(c.Started), Ended: micro(c.Ended), Host: w.Host, Error: c.Error})
}

// Mine fulfils queue.Store.
func (q queues) Mine(ctx context.Context, worker lease.Ref, asked bool) (found []queue.Asked, err error) {
	err = q.db.step(ctx, func(b *board) error {
		found = nil
		id, err := b.workerID(worker)
		if err != nil {
			return err
		}
		all, err := rows(b, func(row scanner) (a queue.Asked, err error) { return a, row.Scan(&a.ID, &a.Token, &a.Stop) }, "running", id, -1)
		for _, a := range all {
			if !asked || a.Stop != "" {
				found = append(found, a)
			}
		}
		return err
	})
	return found, err
}
