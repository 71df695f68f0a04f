package job

import "time"

// A Task is what a job enqueues instead of doing something itself. The unique key of the task is the job and its
// tick.
type Task struct {
	// Kind chooses the handler; Queue is where the task waits.
	Kind, Queue string
	Args        string // JSON; "null" for none
	Priority    int
	// Delay is the time from enqueueing until the task is due. Expires is the time from then until a task that still
	// waits is discarded; 0: never.
	Delay, Expires time.Duration
	// MaxAttempts bounds how often the task is tried; 0: the queue's default. Retry is how long after the enqueueing
	// another attempt may begin; 0: at any time. Backoff has the pauses after the first, second, … failed attempt;
	// the last one applies to all that follow; empty: the worker's for the kind. Timeout bounds each attempt; 0:
	// none.
	MaxAttempts int
	Retry       time.Duration
	Backoff     []time.Duration
	Timeout     time.Duration
	Limit       *TaskLimit // nil: it runs beside any others
	Tags        []string
}

// A TaskLimit caps how many tasks with the same key run at once.
type TaskLimit struct {
	Key string
	// Shared makes the key the same for all kinds.
	Shared bool
	Max    int
	// OnContention decides what happens to a task that finds the limit reached.
	OnContention Contention
}

// Contention decides what happens to a task whose limit is reached.
type Contention string

// A task whose limit is reached waits, is discarded, or replaces the running task.
const (
	ContentionWait    Contention = "wait"
	ContentionDiscard Contention = "discard"
	ContentionReplace Contention = "replace"
)
