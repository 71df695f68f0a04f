package queue

import "github.com/dibs-run/dibs/task"

// Aliases of the types with which a program describes its tasks, as os has the types of io/fs, so that a program
// imports one package for its tasks. Package task explains each.
type (
	// Spec describes one task to be enqueued.
	Spec = task.Spec
	// Options are the part of a Spec that bounds attempts, time and crashes.
	Options = task.Options
	// Backoff is the pause between attempts.
	Backoff = task.Backoff
	// Unique allows only one task per key.
	Unique = task.Unique
	// Limit caps how many tasks with the same key run at once.
	Limit = task.Limit
	// Rate bounds how many tasks of a kind are fetched, fleet-wide.
	Rate = task.Rate
	// Enqueued is the answer to one Spec.
	Enqueued = task.Enqueued
	// SpecError says what is wrong in a Spec, and what is allowed.
	SpecError = task.SpecError
)

// Values of Enqueued.Answer: task.Admission explains them.
const (
	New       = task.New
	Duplicate = task.Duplicate
	Updated   = task.Updated
	Undecided = task.Undecided
)

// Values of Unique and Limit that are not their defaults: see Unique.Until, Unique.Again and Limit.OnContention.
const (
	UntilStarted = task.UntilStarted
	Replace      = task.Replace
	Debounce     = task.Debounce
	Discard      = task.Discard
	Displace     = task.Displace
)
