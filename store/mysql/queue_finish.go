package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

// mine is the task that runs under exactly this token of a worker whose lease is live; nil where none does.
func (b *board) mine(live bool, id int64, r queue.Ref) (*task, error) {
	t, err := b.get(r.ID)
	if err != nil || t == nil || !live || t.State != queue.Running || t.Token != r.Token || t.worker != id {
		return nil, err
	}
	if b.busy(t) {
		return nil, fmt.Errorf("%w: task %d is locked by another transaction", lease.ErrUnavailable, t.ID)
	}
	return t, nil
}

// runs prepares a step on runs of a worker's tasks, which frees slots or none.
func (b *board) runs(worker lease.Ref, refs []queue.Ref, slots map[slot]int) (live bool, err error) {
	ids := make(list, len(refs))
	for i, r := range refs {
		ids[i] = int64(r.ID)
	}
	var found []*task
	read := func(p *packet) []reader {
		p.add("live-worker", b.q.ns, []byte(worker.Key), nonce(worker.Owner), int64(worker.Token))
		p.add("task-columns").add("tasks-by-id", b.q.ns, ids)
		return append([]reader{func(r *sql.Rows) error { return r.Scan(&live) }, b.reads(&found)}, b.addNext(p, slots)...)
	}
	if len(slots) > 0 {
		var limits []wake
		for s := range slots {
			limits = append(limits, wake{hash: s.limit})
		}
		err = b.lock(limits, false, read)
	} else {
		err = b.ask(read)
	}
	if live {
		b.worker = worker
	}
	return live, err
}

// addNext asks for those who get the slots. The first of a limit is read with it.
func (b *board) addNext(p *packet, slots map[slot]int) (readers []reader) {
	for s, n := range slots {
		if n > 1 {
			b.members(s.limit)
			readers = append(readers, b.addBlocked(p, part{b.limits[s.limit], s.lane, n}))
		}
	}
	return readers
}

// Start fulfils queue.Store.
func (q queues) Start(ctx context.Context, ref lease.Ref, refs []queue.Ref) (answers []queue.Status, err error) {
	if len(refs) == 0 {
		return nil, ctx.Err()
	}
	id, err := q.workerID(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	err = q.step(ctx, func(b *board) error {
		live, err := b.runs(ref, refs, nil)
		if err != nil {
			return err
		}
		answers, err = answer(refs, func(r queue.Ref) (queue.Status, error) {
			t, err := b.mine(live, id, r)
			if err != nil || t == nil {
				return queue.Gone, err
			}
			t.begun = true
			if t.Unique != nil && t.Unique.Until == queue.UntilStarted {
				b.free(t)
			}
			b.save(t)
			return queue.OK, nil
		})
		return err
	})
	return answers, err
}

// Finish fulfils queue.Store.
func (q queues) Finish(ctx context.Context, ref lease.Ref, ends []queue.Completion) (answers []queue.Status, err error) {
	if len(ends) == 0 {
		return nil, ctx.Err()
	}
	m, err := q.member(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	slots := map[slot]int{}
	for _, c := range ends {
		if s, ok := m.limits.Load(c.ID); ok {
			slots[s.(slot)]++
		}
	}
	err = q.step(ctx, func(b *board) error {
		answers, err = b.finishAll(ref, m.id, ends, slots)
		return err
	})
	if err == nil {
		for _, c := range ends {
			m.limits.Delete(c.ID)
		}
	}
	return answers, err
}

// finishAll ends tasks. Their slots are known as far as this process was given them.
func (b *board) finishAll(ref lease.Ref, id int64, ends []queue.Completion, slots map[slot]int) ([]queue.Status, error) {
	refs := make([]queue.Ref, len(ends))
	for i, c := range ends {
		refs[i] = c.Ref
	}
	live, err := b.runs(ref, refs, slots)
	if err != nil {
		return nil, err
	}
	if err := b.lockTheirs(); err != nil {
		return nil, err
	}
	return answer(ends, func(c queue.Completion) (queue.Status, error) { return b.finish(live, id, c) })
}

func (b *board) finish(live bool, id int64, c queue.Completion) (queue.Status, error) {
	t, err := b.mine(live, id, c.Ref)
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

// rememberEnd adds an attempt that did not succeed to t's history. One that is not counted bears the number of the next
// that will be.
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
	b.remember(t, queue.Attempt{N: n, Outcome: c.Outcome, Started: micro(c.Started), Ended: micro(c.Ended), Host: w.Host, Error: c.Error})
	return nil
}

// Mine fulfils queue.Store.
func (q queues) Mine(ctx context.Context, ref lease.Ref, asked bool) (found []queue.Asked, err error) {
	id, err := q.workerID(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("mine: %w", err)
	}
	err = q.run(ctx, new(packet).add("mine", q.ns, id, flag(asked)), func(r *sql.Rows) error {
		var a queue.Asked
		err := r.Scan(&a.ID, &a.Token, &a.Stop)
		found = append(found, a)
		return err
	})
	return found, err
}
