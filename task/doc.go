// Package task defines tasks: what a task can specify, and what can happen to it. It is a leaf that imports nothing
// else of dibs but the rule for keys.
//
// A Spec is one task before it is enqueued: its kind and arguments, when it is due, and how often it is tried
// (Options). Unique refuses a second task with the same key. Limit caps how many tasks with the same key run at
// once, and Rate how many tasks of a kind are fetched per time. Enqueued is the answer to a Spec. A State is the
// current state of a task; docs/reference/queue.md draws the transitions.
//
// Package queue enqueues tasks and works them; it also has aliases for what programs need most of this package. The
// contract between it and the stores is package queue/driver. Instants are the store's own, in UTC.
package task
