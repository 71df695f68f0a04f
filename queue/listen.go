package queue

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/queue/driver"
)

// TaskEvent is the kind of an event of a task.
type TaskEvent string

// The events that a listener gets. There is none for a task that is postponed or handed back: contention is not a
// failure.
const (
	// TaskStarted: an attempt begins.
	TaskStarted TaskEvent = "start"
	// TaskSucceeded: the task is done.
	TaskSucceeded TaskEvent = "success"
	// TaskRetried: an attempt failed or timed out, and another one follows.
	TaskRetried TaskEvent = "retry"
	// TaskFailed: the task has failed for good, by its last attempt or by a Final error.
	TaskFailed TaskEvent = "failure"
	// TaskCrashed: tasks have used up their crash budget. A dead worker cannot report this, so another one detects
	// it, and knows only how many.
	TaskCrashed TaskEvent = "crash"
	// TaskDiscarded: the handler gave the task up.
	TaskDiscarded TaskEvent = "discard"
	// TaskCanceled: the task was asked to stop, and did.
	TaskCanceled TaskEvent = "cancel"
)

// TaskEvents are all events.
var TaskEvents = []TaskEvent{TaskStarted, TaskSucceeded, TaskRetried, TaskFailed, TaskCrashed, TaskDiscarded, TaskCanceled}

// A Happening is what WorkerOptions.Listen receives.
type Happening struct {
	On TaskEvent
	// Task, Queue, Kind, Tags and Token identify the task and its run; they are empty for TaskCrashed.
	Task        driver.Ref
	Queue, Kind string
	Tags        []string
	// Attempt counts from 1, since the last manual retry.
	Attempt int
	// Outcome is the attempt's outcome (Attempt.Outcome), or "succeeded"; empty for TaskStarted.
	Outcome string
	// Error is the text of the attempt's error; Err is the handler's own error, whose methods may panic. Reason says
	// why the task ended, if there is a reason.
	Error  string
	Err    error
	Reason string
	// Again is the pause between the end of this attempt and the next one (TaskRetried).
	Again time.Duration
	// Started and Ended are the attempt's, in store time.
	Started, Ended time.Time
	// Count is how many tasks crashed (TaskCrashed).
	Count int
}

// happeningOf returns what the end of a run means to listeners.
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

// of sets which task it is, and which attempt.
func (h *Happening) of(it *item, attempt int) {
	h.Task, h.Queue, h.Kind, h.Tags, h.Attempt = it.Ref, it.Queue, it.Kind, it.Tags, attempt
}

// tell tells the listener of what happens to a task now.
func (s *session) tell(h Happening, it *item, attempt int) {
	h.of(it, attempt)
	s.w.told.tell(h)
}

// observe tells the worker's observer how an attempt ended, once the store has it.
func (s *session) observe(e *end, name string) {
	if s.w.o.Observe == nil || e.attempt == 0 {
		return
	}
	outcome, _, _ := strings.Cut(name, ":")
	s.w.o.Observe(observe.Event{On: observe.Ended, Of: observe.Task, Name: e.kind, Queue: e.queue, ID: strconv.FormatInt(int64(e.ID), 10), Attempt: e.attempt,
		Outcome: outcome, Reason: e.Reason, Wait: e.wait, Took: e.took})
}

// A listener receives what happens to tasks on its own goroutine; it delays nothing (promise 27).
type listener struct {
	listen func(Happening)
	log    *slog.Logger
	queue  aside.Queue
}

// heard is how many bytes a waiting Happening counts for, besides its texts.
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

// logFailure logs that an attempt failed, panicked or timed out (promise 24).
func (s *session) logFailure(e *end) {
	words := "a task's attempt failed; it will be tried again"
	switch {
	case e.attempt == 0:
		return
	case e.Verdict == driver.Fail:
		words = "a task failed; it will not be tried again"
	case e.Verdict != driver.Retry:
		return
	}
	attrs := []any{"event", "task-" + e.Outcome, "kind", e.kind, "queue", e.queue, "task", e.ID, "attempt", e.attempt, "error", e.Error}
	if e.Verdict == driver.Retry {
		attrs = append(attrs, "again", e.Delay.Round(time.Millisecond))
	} else {
		attrs = append(attrs, "reason", e.Reason)
	}
	s.w.log.Warn(words, attrs...)
}
