package job

import "time"

// A Task is what a job enqueues, in place of doing something itself. Which tick it is of is its unique key.
type Task struct {
	// Kind says which handler does it, Queue where it waits.
	Kind, Queue string
	Args        string // JSON; "null" for none
	Priority    int
	// Delay is how long after it was enqueued it is not fetched; Expires how long after that instant it
	// is discarded if it still waits, 0: never.
	Delay, Expires time.Duration
	// MaxAttempts bounds how often it is tried; 0: the queue's own bound. Retry is how long after it was
	// enqueued an attempt but the first may begin; 0: at any time. Backoff are the pauses after the first,
	// second, … failed attempt, of which the last one stands for all that follow; empty: those of the kind at
	// the worker. Timeout bounds each attempt; 0: none.
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

// What becomes of a task whose limit is reached.
const (
	ContentionWait    Contention = "wait"
	ContentionDiscard Contention = "discard"
	ContentionReplace Contention = "replace"
)
