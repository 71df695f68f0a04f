package job

import "time"

// A Task is what a job enqueues instead of doing something itself. The unique key of the task is the job and its
// tick.
type Task struct {
	// Kind chooses the handler, Queue is where the task waits.
	Kind, Queue string
	Args        string // JSON; "null" for none
	Priority    int
	// Delay is how long after its enqueuing the task becomes due. Expires is how long after that instant it is
	// discarded if it still waits; 0: never.
	Delay, Expires time.Duration
	// MaxAttempts bounds how often the task is tried; 0: as the queue has it. Retry is how long after its enqueuing
	// another attempt may begin; 0: at any time. Backoff has the pauses after the first, second, … failed attempt,
	// and the last one stands for all that follow; empty: as the worker has it for the kind. Timeout bounds each
	// attempt; 0: none.
	MaxAttempts int
	Retry       time.Duration
	Backoff     []time.Duration
	Timeout     time.Duration
	Limit       *TaskLimit // nil: it runs beside any others
	Tags        []string
}

// A TaskLimit bounds how many tasks of a key run at the same time.
type TaskLimit struct {
	Key string
	// Shared makes the key one for all kinds.
	Shared bool
	Max    int
	// OnContention is what becomes of a task that finds the limit reached.
	OnContention Contention
}

// Contention is what becomes of a task whose limit is reached.
type Contention string

// A task whose limit is reached waits, is discarded, or replaces the running task.
const (
	ContentionWait    Contention = "wait"
	ContentionDiscard Contention = "discard"
	ContentionReplace Contention = "replace"
)
