package memory

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/queue"
)

func (q tasks) Enqueue(ctx context.Context, specs []queue.Spec) ([]queue.Enqueued, error) {
	return on(ctx, q.board, func(now time.Time) []queue.Enqueued { return each(specs, now, q.enqueue) })
}

func (d *board) enqueue(s queue.Spec, now time.Time) queue.Enqueued {
	s = instantsOf(s.Clone(), now)
	if s.Unique == nil {
		return d.admit(s, now)
	}
	switch there := d.holder(s.Unique.Hash(s.Kind), now); {
	case there == nil:
		return d.admit(s, now)
	case s.Unique.Again != queue.Replace && s.Unique.Again != queue.Debounce:
		return queue.Enqueued{Answer: queue.Duplicate, ID: there.ID, State: there.State}
	case there.State.Waiting():
		d.replace(there, s, now)
		return queue.Enqueued{Answer: queue.Updated, ID: there.ID, State: there.State}
	}
	// A worker has its arguments already: the new ones make a task of their own, which holds the key from now on.
	return d.admit(s, now)
}

// instantsOf is s with its instants as a store keeps them: Delay is part of RunAt.
func instantsOf(s queue.Spec, now time.Time) queue.Spec {
	if s.RunAt.IsZero() {
		s.RunAt = now
	}
	if !debounces(&s) {
		s.RunAt, s.Delay = s.RunAt.Add(s.Delay), 0
	}
	s.RunAt, s.ExpiresAt, s.RetryUntil = micro(s.RunAt), micro(s.ExpiresAt), micro(s.RetryUntil)
	return s
}

func debounces(s *queue.Spec) bool { return s.Unique != nil && s.Unique.Again == queue.Debounce }

// holder is who holds a unique key now; nil where nobody does.
func (d *board) holder(h queue.Hash, now time.Time) *task {
	t := d.keys[h]
	switch {
	case t == nil:
		return nil
	case t.over(now):
		d.discard(t, queue.ReasonExpired, now)
		return nil
	case t.State == queue.Succeeded && !now.Before(t.window):
		d.unlock(t)
		return nil
	}
	return t
}

// unlock ends the window of a task that succeeded.
func (d *board) unlock(t *task) {
	d.pull(t)
	t.window = time.Time{}
	if h := t.Unique.Hash(t.Kind); d.keys[h] == t {
		delete(d.keys, h)
	}
	d.file(t)
}

func (d *board) admit(s queue.Spec, now time.Time) queue.Enqueued {
	d.last++
	t := &task{Task: queue.Task{ID: d.last, Spec: s, Enqueued: now}}
	if debounces(&s) {
		t.RunAt, t.Delay = micro(s.RunAt.Add(s.Delay)), 0
	}
	if s.Limit != nil {
		t.limit = d.declare(&s, now)
	}
	if s.Unique != nil {
		d.keys[s.Unique.Hash(s.Kind)] = t
	}
	d.tasks[t.ID] = t
	d.ids = append(d.ids, t.ID)
	d.wait(t, now)
	return queue.Enqueued{Answer: queue.New, ID: t.ID, State: t.State}
}

// replace gives a waiting task what a newer spec says (rule Q3). Its id and place stay.
func (d *board) replace(t *task, s queue.Spec, now time.Time) {
	d.pull(t)
	t.Args, t.Priority, t.Tags, t.RunAt = s.Args, s.Priority, s.Tags, s.RunAt
	t.Granted, t.Snoozes = t.Attempts, 0
	if debounces(&s) {
		t.RunAt = now.Add(s.Delay)
		if last := t.Enqueued.Add(s.Unique.Longest(s.Delay)); t.RunAt.After(last) {
			t.RunAt = last
		}
		t.RunAt = micro(t.RunAt)
	}
	d.wait(t, now)
}
