package task

import (
	"math"
	"time"
)

// Unique allows only one task with the same key. The key is always explicit.
type Unique struct {
	// Key is 1 to 512 bytes. Its identity is (namespace, kind, key), or (namespace, key) if it is Shared; never the
	// queue (rule Q1).
	Key    string `json:"key"`
	Shared bool   `json:"shared,omitempty"`
	// Until is how long the key is held. Default UntilFinished.
	Until Until `json:"until,omitempty"`
	// Window is how long the key stays held after the task succeeded. Default 0. With UntilFinished only.
	Window time.Duration `json:"window,omitempty"`
	// Again decides what happens to a second task. Default Refuse. MaxWait bounds Debounce. Default 10 times Delay.
	Again   Again         `json:"again,omitempty"`
	MaxWait time.Duration `json:"max_wait,omitempty"`
}

// Hash returns the identity of the key for a task of kind.
func (u *Unique) Hash(kind string) Hash { return hash("unique", kind, u.Shared, u.Key) }

// Longest returns how far Debounce may postpone a task, counted from when it was first enqueued.
func (u *Unique) Longest(delay time.Duration) time.Duration {
	if u.MaxWait > 0 {
		return u.MaxWait
	}
	if delay > math.MaxInt64/10 {
		return math.MaxInt64
	}
	return 10 * delay
}

// Until is how long a unique key is held.
type Until string

// The values of Until.
const (
	// UntilFinished holds the key across retries, until a final state. The default.
	UntilFinished Until = "finished"
	// UntilStarted frees the key at the first start; retries do not take it again (rule Q1).
	UntilStarted Until = "started"
)

// Again decides what happens to a second task with the same unique key.
type Again string

// The values of Again.
const (
	// Refuse answers Duplicate, with the task that is already there. The default.
	Refuse Again = "refuse"
	// Replace gives the waiting task the new arguments, priority, instant and tags, and a fresh budget of attempts;
	// it keeps its id and its place. Replace needs UntilStarted: if the task has started, the second one is a new
	// task (rule Q3). The same applies if a worker has already fetched the task, and with it the old arguments: the
	// second task then holds the key.
	Replace Again = "replace"
	// Debounce is Replace, and also postpones the waiting task to Delay from now, but never beyond MaxWait from when
	// it was first enqueued.
	Debounce Again = "debounce"
)
