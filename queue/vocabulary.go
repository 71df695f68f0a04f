package queue

import "github.com/dibs-run/dibs/task"

// What a program says of its tasks, under the name of this package too, as os has the types of io/fs: so a program
// imports one package for its tasks. Package task explains each.
type (
	// Spec is what somebody asks to be done: one task, before it is taken in.
	Spec = task.Spec
	// Options are the part of a Spec that bounds attempts, time and crashes.
	Options = task.Options
	// Backoff is the pause between attempts.
	Backoff = task.Backoff
	// Unique says that only one task of a key may be there.
	Unique = task.Unique
	// Limit bounds how many tasks of a key run at the same time.
	Limit = task.Limit
	// Rate bounds how many tasks of a kind are fetched, fleet-wide.
	Rate = task.Rate
	// Enqueued is the answer to one Spec.
	Enqueued = task.Enqueued
	// SpecError says what of a Spec is wrong, and what would be right.
	SpecError = task.SpecError
)

// What Enqueued.Answer may be: task.Admission explains it.
const (
	New       = task.New
	Duplicate = task.Duplicate
	Updated   = task.Updated
	Undecided = task.Undecided
)

// What Unique and Limit may say that is not their default: see Unique.Until, Unique.Again and Limit.OnContention.
const (
	UntilStarted = task.UntilStarted
	Replace      = task.Replace
	Debounce     = task.Debounce
	Discard      = task.Discard
	Displace     = task.Displace
)
