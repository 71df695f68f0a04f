package queue

import (
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/queue/driver"
)

// TaskEvent is what happened to a task.
type TaskEvent string

// What a listener hears of. Nothing is heard of a task that is postponed or handed back: contention is no failure.
const (
	// TaskStarted: an attempt begins.
	TaskStarted TaskEvent = "start"
	// TaskSucceeded: the task is done.
	TaskSucceeded TaskEvent = "success"
	// TaskRetried: an attempt failed, or took too long, and another one follows.
	TaskRetried TaskEvent = "retry"
	// TaskFailed: the task has failed for good, by its last attempt or by a Final error.
	TaskFailed TaskEvent = "failure"
	// TaskCrashed: tasks have used up their crashes. A dead worker cannot tell, so another one finds it out, and knows
	// only how many.
	TaskCrashed TaskEvent = "crash"
	// TaskDiscarded: its handler gave it up.
	TaskDiscarded TaskEvent = "discard"
	// TaskCanceled: it was asked to stop, and did.
	TaskCanceled TaskEvent = "cancel"
)

// TaskEvents are all of them.
var TaskEvents = []TaskEvent{TaskStarted, TaskSucceeded, TaskRetried, TaskFailed, TaskCrashed, TaskDiscarded, TaskCanceled}

// A Happening is what WorkerOptions.Listen is told.
type Happening struct {
	On TaskEvent
	// Task, Queue, Kind, Tags and Token say which task and which run of it; they are empty for TaskCrashed.
	Task        driver.Ref
	Queue, Kind string
	Tags        []string
	// Attempt counts from 1, since the last manual retry.
	Attempt int
	// Outcome is that of the attempt (Attempt.Outcome), or "succeeded"; empty for TaskStarted.
	Outcome string
	// Error is what the attempt failed with, in words; Err the handler's own error, whose methods may panic. Reason
	// goes with the end of the task, where there is one.
	Error  string
	Err    error
	Reason string
	// Again is how long from its end the next attempt waits (TaskRetried).
	Again time.Duration
	// Started and Ended are of the attempt, in store time.
	Started, Ended time.Time
	// Count is how many crashed (TaskCrashed).
	Count int
}

// happeningOf is what the end of a run means to listeners.
func happeningOf(c driver.Completion) Happening {
	h := Happening{Task: c.Ref, Outcome: c.Outcome, Error: c.Error, Reason: c.Reason, Started: c.Started, Ended: c.Ended}
	switch c.Verdict {
	case driver.Success:
		h.On, h.Outcome = TaskSucceeded, "succeeded"
	case driver.Retry:
		h.On, h.Again = TaskRetried, c.Delay
	case driver.Fail:
		h.On = TaskFailed
	case driver.Drop:
		h.On = TaskDiscarded
	case driver.Cancel:
		h.On = TaskCanceled
	}
	return h
}

// of says which task, and which attempt at it.
func (h *Happening) of(it *item, attempt int) {
	h.Task, h.Queue, h.Kind, h.Tags, h.Attempt = it.Ref, it.Queue, it.Kind, it.Tags, attempt
}

// tell tells of what happens to a task now.
func (s *session) tell(h Happening, it *item, attempt int) {
	h.of(it, attempt)
	s.w.told.tell(h)
}

// A listener hears what happens to tasks, on a goroutine of its own: nobody waits for it (promise 27).
type listener struct {
	listen func(Happening)
	log    *slog.Logger
	queue  aside.Queue
}

// heard is what a Happening counts for beside its words, in bytes, while it waits.
const heard = 512

func newListener(listen func(Happening), log *slog.Logger) *listener {
	l := &listener{listen: listen, log: log}
	l.queue.Missing = func(n map[string]int) {
		log.Warn("the listener missed events of tasks, because it has not taken earlier ones", "event", "hooks-behind", "times", n["task"])
	}
	return l
}

func (l *listener) tell(h Happening) {
	if l.listen == nil || h.On == "" {
		return
	}
	l.queue.Do("task", heard+len(h.Error), func() {
		defer func() {
			if p := recover(); p != nil {
				l.log.Error("the listener panicked", "event", "listener-panicked", "on", string(h.On), "task", h.Task.ID, "panic", textOf(p))
			}
		}()
		l.listen(h)
	})
}

// logFailure says in the log that an attempt failed, panicked or took too long (promise 24).
func (s *session) logFailure(f *driver.Fetched, attempt int, c *driver.Completion) {
	words := "a task's attempt failed; it will be tried again"
	switch {
	case c.Verdict == driver.Fail:
		words = "a task failed; it will not be tried again"
	case c.Verdict != driver.Retry:
		return
	}
	attrs := []any{"event", "task-" + c.Outcome, "kind", f.Kind, "queue", f.Queue, "task", f.ID, "attempt", attempt, "error", c.Error}
	if c.Verdict == driver.Retry {
		attrs = append(attrs, "again", c.Delay.Round(time.Millisecond))
	} else {
		attrs = append(attrs, "reason", c.Reason)
	}
	s.w.log.Warn(words, attrs...)
}
