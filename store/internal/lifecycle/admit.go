package lifecycle

import (
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Timed is s with the instant from which on it may run: now if it names none, plus its Delay. A debounced spec keeps
// its Delay, which counts from now whenever the task comes again.
func Timed(s task.Spec, now time.Time) task.Spec {
	if s.RunAt.IsZero() {
		s.RunAt = now
	}
	if !debounces(&s) {
		s.RunAt, s.Delay = s.RunAt.Add(s.Delay), 0
	}
	s.RunAt, s.ExpiresAt, s.RetryUntil = micro(s.RunAt), micro(s.ExpiresAt), micro(s.RetryUntil)
	return s
}

func debounces(s *task.Spec) bool { return s.Unique != nil && s.Unique.Again == task.Debounce }

// New is a task of a spec that is Timed, without an id. It holds its unique key.
func New(s task.Spec, now time.Time) Task {
	t := Task{Task: driver.Task{Spec: s, Enqueued: now}}
	if debounces(&s) {
		t.RunAt, t.Delay = micro(t.RunAt.Add(t.Delay)), 0
	}
	t.takeKey()
	t.Wait(now)
	return t
}

func (t *Task) takeKey() {
	if t.Unique != nil {
		h := t.Unique.Hash(t.Kind)
		t.Key = h[:]
	}
}

// Replaces says that s changes a waiting task of its unique key.
func Replaces(s *task.Spec) bool {
	return s.Unique != nil && (s.Unique.Again == task.Replace || s.Unique.Again == task.Debounce)
}

// Again is the answer to a spec whose unique key t holds. Updated: Renew t. New: a worker has t's arguments already,
// so the spec becomes a task of its own, and t gives up the key. Duplicate: t stays as it is.
func (t *Task) Again(s *task.Spec) task.Admission {
	switch {
	case !Replaces(s):
		return task.Duplicate
	case t.State.Waiting():
		return task.Updated
	case t.Unique == nil || t.Unique.Until != task.UntilStarted: // it holds the key until its end, or its window's (promise 17)
		return task.Duplicate
	}
	return task.New
}

// Renew gives t, which waits, what a newer spec of its key says, which is Timed (rule Q3). Its id and place stay.
func (t *Task) Renew(s task.Spec, now time.Time) Note {
	t.Args, t.Priority, t.Tags, t.RunAt = s.Args, s.Priority, s.Tags, s.RunAt
	t.Granted, t.Snoozes = t.Attempts, 0
	if debounces(&s) {
		t.RunAt = now.Add(s.Delay)
		if last := t.Enqueued.Add(s.Unique.Longest(s.Delay)); t.RunAt.After(last) {
			t.RunAt = last
		}
		t.RunAt = micro(t.RunAt)
	}
	return t.Wait(now)
}

// LostKey says that t must not hold its unique key any more: its time is over.
func (t *Task) LostKey(now time.Time) bool {
	return t.Over(now) || t.State == task.Succeeded && !now.Before(t.Window)
}

// LoseKey ends what has LostKey: a task that waited too long, or the window of one that succeeded.
func (t *Task) LoseKey(now time.Time) Note {
	if t.Over(now) {
		return t.Discard(task.ReasonExpired, now)
	}
	t.Window, t.Key = time.Time{}, nil
	return Note{}
}
