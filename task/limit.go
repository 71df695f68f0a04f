package task

import (
	"fmt"
	"math"
	"time"
)

// Limit caps how many tasks with the same key run at once. A task takes a slot when it is fetched, and holds it only
// while it runs (rule Q5).
type Limit struct {
	// Key is 1 to 512 bytes; its identity is (namespace, kind, key), or (namespace, key) if Shared.
	Key    string `json:"key"`
	Shared bool   `json:"shared,omitempty"`
	// Max is how many tasks may run at once. Default 1. It belongs to the key: the last declaration wins.
	Max int `json:"max,omitempty"`
	// OnContention decides what happens when the limit is reached. Default Wait.
	OnContention Contention `json:"on_contention,omitempty"`
}

// Hash returns the identity of the key for a task of kind.
func (l *Limit) Hash(kind string) Hash { return hash("limit", kind, l.Shared, l.Key) }

// Slots returns the number of slots that l declares.
func (l *Limit) Slots() int { return max(l.Max, 1) }

// Contention decides what happens to a task whose limit is reached.
type Contention string

// The values of Contention.
const (
	// Wait keeps the task in its place until a slot frees. The default.
	Wait Contention = "wait"
	// Discard ends the task as discarded, reason "overlap", when it would have been fetched.
	Discard Contention = "discard"
	// Displace asks running tasks that also declared Displace to stop (canceled, reason "replaced"), discards older
	// waiting tasks that declared it (reason "superseded"), and runs the task when there is a slot. It does so when
	// a fetch reaches the task and finds the limit reached.
	Displace Contention = "replace"
)

// Rate bounds how many tasks of a kind are fetched, fleet-wide: at most Count in any time of length Per, wherever it
// begins, and at most Burst of them at once. While tasks wait, at least 8 of 9 of the Count are fetched.
type Rate struct {
	Count int
	Per   time.Duration
	// Burst is the largest burst. 0, or more than Count: Count.
	Burst int
}

// Bursts returns Burst with its default.
func (r Rate) Bursts() int {
	if r.Burst <= 0 {
		return r.Count
	}
	return min(r.Burst, r.Count)
}

// Window returns for how long a fetched task counts: a sixteenth longer than Per, a second at most, because the work
// begins a little later than its fetch. Tasks that are fetched one by one count for Per.
func (r Rate) Window() time.Duration {
	if r.Bursts() == 1 {
		return r.Per
	}
	margin := min(r.Per/16, time.Second)
	return r.Per + min(margin, math.MaxInt64-r.Per)
}

// Check refuses a rate that would bind nothing, or everything. It accepts the zero Rate.
func (r Rate) Check() error {
	switch {
	case r == Rate{}:
		return nil
	case r.Count <= 0 || r.Per <= 0:
		return fmt.Errorf("its Rate is %d in %s: give both, such as Rate{Count: 10, Per: time.Second}", r.Count, r.Per)
	case r.Burst < 0:
		return fmt.Errorf("its Rate has a Burst of %d", r.Burst)
	case r.Per/time.Duration(r.Count) < time.Microsecond:
		return fmt.Errorf("its Rate of %d in %s is more than a million a second: leave it out", r.Count, r.Per)
	case r.Count > 1_000_000:
		return fmt.Errorf("its Rate counts %d; want at most 1000000, in a shorter time", r.Count)
	}
	return nil
}
