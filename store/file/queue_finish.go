//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
)

// held is the task that runs under exactly this token of a worker whose lease is live; nil if there is none.
func (b *txn) held(worker lease.Ref, r driver.Ref) (t *taskRow, id int64, err error) {
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

// Start fulfils driver.Store.
func (q queues) Start(ctx context.Context, worker lease.Ref, refs []driver.Ref) ([]driver.Status, error) {
	return inParts(ctx, q.db, refs, func(b *txn, r driver.Ref) (driver.Status, error) {
		t, _, err := b.held(worker, r)
		if err != nil || t == nil {
			return driver.Gone, err
		}
		return driver.OK, b.change(t, t.Start)
	})
}

// Finish fulfils driver.Store.
func (q queues) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	return inParts(ctx, q.db, ends, func(b *txn, c driver.Completion) (driver.Status, error) { return b.finish(worker, c) })
}

func (b *txn) finish(worker lease.Ref, c driver.Completion) (driver.Status, error) {
	t, id, err := b.held(worker, c.Ref)
	if err != nil {
		return 0, err
	}
	if t == nil {
		if t, err = b.get(c.ID); err == nil && t != nil && t.Repeats(c, t.worker == id) {
			return driver.OK, nil
		}
		return driver.Gone, err
	}
	return driver.OK, b.change(t, func() lifecycle.Note { return t.Finish(c, b.now) })
}

// Running fulfils driver.Store.
func (q queues) Running(ctx context.Context, worker lease.Ref, asked bool) (found []driver.RunningTask, err error) {
	err = q.db.step(ctx, func(b *txn) error {
		found = nil
		id, err := b.workerID(worker)
		if err != nil {
			return err
		}
		all, err := rows(b, func(row scanner) (a driver.RunningTask, err error) { return a, row.Scan(&a.ID, &a.Token, &a.Stop) }, "running", id, -1)
		for _, a := range all {
			if !asked || a.Stop != "" {
				found = append(found, a)
			}
		}
		return err
	})
	return found, err
}
