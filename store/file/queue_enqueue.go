//go:build linux

package file

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/queue"
)

// Enqueue fulfils queue.Store.
func (q queues) Enqueue(ctx context.Context, specs []queue.Spec) ([]queue.Enqueued, error) {
	return answer(ctx, q.db, specs, (*board).enqueue)
}

func (b *board) enqueue(s queue.Spec) (queue.Enqueued, error) {
	if s.RunAt.IsZero() {
		s.RunAt = b.now
	}
	if !debounces(&s) {
		s.RunAt, s.Delay = s.RunAt.Add(s.Delay), 0
	}
	if s.Unique == nil {
		return b.admit(s)
	}
	hash := s.Unique.Hash(s.Kind)
	there, err := b.holder(hash)
	switch {
	case err != nil:
		return queue.Enqueued{}, err
	case there == nil:
		return b.admit(s)
	case s.Unique.Again != queue.Replace && s.Unique.Again != queue.Debounce:
		return queue.Enqueued{Answer: queue.Duplicate, ID: there.ID, State: there.State}, nil
	case there.State.Waiting():
		err = b.replace(there, s)
		return queue.Enqueued{Answer: queue.Updated, ID: there.ID, State: there.State}, err
	}
	// A worker has its arguments already: the new ones make a task of their own, which holds the key from now on.
	there.ukey = nil
	if err := b.save(there); err != nil {
		return queue.Enqueued{}, err
	}
	return b.admit(s)
}

func debounces(s *queue.Spec) bool { return s.Unique != nil && s.Unique.Again == queue.Debounce }

// holder is who holds a unique key now; nil where nobody does.
func (b *board) holder(h queue.Hash) (*task, error) {
	t, err := b.find("task_by_key", h[:])
	switch {
	case err != nil || t == nil:
		return nil, err
	case t.over(b.now):
		return nil, b.discard(t, queue.ReasonExpired)
	case t.State == queue.Succeeded && !b.now.Before(t.window):
		return nil, b.unlock(t)
	}
	return t, nil
}

// unlock ends the window of a task that succeeded.
func (b *board) unlock(t *task) error {
	t.window, t.ukey = time.Time{}, nil
	return b.save(t)
}

func (b *board) admit(s queue.Spec) (e queue.Enqueued, err error) {
	t := &task{Task: queue.Task{Spec: s, Enqueued: b.now}}
	if debounces(&s) {
		t.RunAt, t.Delay = t.RunAt.Add(s.Delay), 0
	}
	t.RunAt, t.ExpiresAt, t.RetryUntil = micro(t.RunAt), micro(t.ExpiresAt), micro(t.RetryUntil)
	if t.lane, err = b.lane(place{s.Queue, s.Kind}); err != nil {
		return e, err
	}
	if s.Limit != nil {
		l, err := b.declare(&s)
		if err != nil {
			return e, err
		}
		t.limit = l.id
	}
	if s.Unique != nil {
		h := s.Unique.Hash(s.Kind)
		t.ukey = h[:]
	}
	t.State = queue.Available
	if t.RunAt.After(b.now) {
		t.State = queue.Scheduled
	}
	inLine := t.State == queue.Available && t.queues()
	if inLine {
		t.State = queue.Blocked // until its lane nominates it
	}
	if err := b.scan("task_insert", t.columns(), &t.ID); err != nil {
		return e, err
	}
	if inLine {
		if err := b.nominate(t); err != nil {
			return e, err
		}
	}
	return queue.Enqueued{Answer: queue.New, ID: t.ID, State: t.State}, nil
}

// nominate makes a new task available where its lane has a free slot for it. Behind a long line that is one look.
func (b *board) nominate(t *task) error {
	l, err := b.limit(t.limit)
	if err != nil || l.free() == 0 {
		return err
	}
	if err := b.settleLane(l, t.lane); err != nil {
		return err
	}
	return b.look(t)
}

// replace gives a waiting task what a newer spec says (rule Q3). Its id and place stay.
func (b *board) replace(t *task, s queue.Spec) error {
	from := t.State
	t.Args, t.Priority, t.Tags, t.RunAt = s.Args, s.Priority, s.Tags, s.RunAt
	t.Granted, t.Snoozes = t.Attempts, 0
	if debounces(&s) {
		t.RunAt = b.now.Add(s.Delay)
		if last := t.Enqueued.Add(s.Unique.Longest(s.Delay)); t.RunAt.After(last) {
			t.RunAt = last
		}
	}
	t.RunAt = micro(t.RunAt)
	return b.wait(t, from)
}
