// Package task says what a task is: what somebody asks to be done, and what may become of it. It is typed, and a leaf
// that imports nothing of ours but the rule of keys.
//
// A Spec is one task before it is taken in: its kind and arguments, when it is due, and how often it is tried
// (Options). Unique keeps a second task of its key away. Limit bounds how many tasks of a key run at the same time,
// and Rate how many of a kind are fetched. Enqueued is the answer to a Spec. A State is where a task stands;
// docs/reference/queue.md draws the ways between them.
//
// Package queue enqueues tasks and works them, and has what programs need most of this package under its own name too.
// The contract between it and the stores is package queue/driver. Instants are the store's own, in UTC.
package task
