//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/internal/life"
)

// mine is the task that runs under exactly this token of a worker whose lease is live; nil if there is none.
func (b *board) mine(worker lease.Ref, r queue.Ref) (t *task, id int64, err error) {
	if id, err = b.workerID(worker); err != nil {
		return nil, 0, err
	}
	live, err := b.live(worker)
	if err != nil {
		return nil, id, err
	}
	t, err = b.get(r.ID)
	if err != nil || t == nil || !live || !t.Runs(r) || t.worker != id {
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
		return queue.OK, b.change(t, t.Start)
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
		if t, err = b.get(c.ID); err == nil && t != nil && t.Repeats(c, t.worker == id) {
			return queue.OK, nil
		}
		return queue.Gone, err
	}
	return queue.OK, b.change(t, func() life.Note { return t.Finish(c, b.now) })
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
