package task

import (
	"fmt"
	"time"
)

// Limit bounds how many tasks of a key run at the same time. A slot is taken when a task is
// fetched, and is held only while it runs (rule Q5).
type Limit struct {
	// Key is 1 to 512 bytes; its identity is (namespace, kind, key), or (namespace, key) where Shared.
	Key    string `json:"key"`
	Shared bool   `json:"shared,omitempty"`
	// Max is how many may run. Default 1. It belongs to the key: the last declaration wins.
	Max int `json:"max,omitempty"`
	// OnContention is Wait where empty.
	OnContention Contention `json:"on_contention,omitempty"`
}

// Hash is the identity of the key for a task of kind.
func (l *Limit) Hash(kind string) Hash { return hash("limit", kind, l.Shared, l.Key) }

// Slots is the limit that l declares.
func (l *Limit) Slots() int { return max(l.Max, 1) }

// Contention is what becomes of a task whose limit is reached.
type Contention string

// What becomes of a task whose limit is reached.
const (
	// Wait keeps its place until a slot frees. The default.
	Wait Contention = "wait"
	// Discard ends it as discarded, reason "overlap", when it would have been fetched.
	Discard Contention = "discard"
	// Displace asks the running tasks that declared Displace themselves to stop (canceled, reason
	// "replaced"), discards older ones that wait for a slot and declared it (reason "superseded"), and runs
	// when there is a slot. It does so when a fetch meets it and finds the limit reached.
	Displace Contention = "replace"
)

// Rate bounds how many tasks of a kind are fetched, fleet-wide: Count in every Per, at most Burst at once.
type Rate struct {
	Count int
	Per   time.Duration
	// Burst is Count where it is 0.
	Burst int
}

// Check refuses a rate that would bind nothing, or everything. None at all is well.
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
	}
	return nil
}
