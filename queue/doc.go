// Package queue takes in tasks and has them worked: each by one worker at a time, bounded in attempts and in time,
// unique and exclusive where a task says so, and never lost once it was acknowledged.
//
// A Client enqueues. A Worker holds one lease for its process, fetches tasks in batches, calls their handlers,
// and reports how they ended; every report carries the token of its fetch, and is refused once the task is
// somebody else's. Stores fulfil Store for the hot path and Admin for whoever looks and intervenes.
//
// The exact rules are Q1 to Q9 of docs/why/rules.md; docs/reference/queue.md draws the states.
package queue
