package task

import "time"

// Unique says that only one task of a key may be there. The key is always explicit.
type Unique struct {
	// Key is 1 to 512 bytes. Its identity is (namespace, kind, key), or (namespace, key) where it
	// is Shared; never the queue (rule Q1).
	Key    string `json:"key"`
	Shared bool   `json:"shared,omitempty"`
	// Until is UntilFinished where empty.
	Until Until `json:"until,omitempty"`
	// Window holds the key for so long after the task succeeded. Default 0. With UntilFinished only.
	Window time.Duration `json:"window,omitempty"`
	// Again is Refuse where empty. MaxWait bounds Debounce. Default 10 times Delay.
	Again   Again         `json:"again,omitempty"`
	MaxWait time.Duration `json:"max_wait,omitempty"`
}

// Hash is the identity of the key for a task of kind.
func (u *Unique) Hash(kind string) Hash { return hash("unique", kind, u.Shared, u.Key) }

// Longest is how far Debounce may put a task off, counted from when it was first enqueued.
func (u *Unique) Longest(delay time.Duration) time.Duration {
	if u.MaxWait > 0 {
		return u.MaxWait
	}
	return 10 * delay
}

// Until is how long a unique key is held.
type Until string

// The scopes of uniqueness.
const (
	// UntilFinished holds the key across retries, until a final state. The default.
	UntilFinished Until = "finished"
	// UntilStarted frees it at the first start; retries do not take it again (rule Q1).
	UntilStarted Until = "started"
)

// Again is what becomes of the second task of a unique key.
type Again string

// What becomes of the second task.
const (
	// Refuse answers Duplicate, with the task that is there. The default.
	Refuse Again = "refuse"
	// Replace gives the waiting task the new arguments, priority, instant and tags, and a fresh budget of
	// attempts; its id and its place stay. It needs UntilStarted: where the task has started, the
	// second one is a task of its own (rule Q3). So it is where a worker has fetched the task, and with
	// it the old arguments: the second one then holds the key.
	Replace Again = "replace"
	// Debounce is Replace that also puts the waiting task off, to Delay from now, but never
	// beyond MaxWait from when it was first enqueued.
	Debounce Again = "debounce"
)
