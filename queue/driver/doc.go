// Package driver is the contract between package queue and the stores that keep its tasks. Programs use queue; this
// package is for authors of stores, and for programs that ask a store directly about its queues.
//
// A store implements Store, the hot path: it accepts tasks, gives them to workers, and records how they ended. It
// also implements Admin, for operators who look and intervene. Its view of a caller's transaction is an Inserter and
// a Finisher. Each interface says what is atomic, whose clock counts, who retries, and what is safe concurrently;
// each request says which checks it has already passed (Check), so that a store does not repeat them.
//
// Package task defines tasks. Package queue/counters has the names of the counters that a store increments itself. A
// store takes the words of its events from OpRequest.Event, Pause.Event, ResumeEvent, LimitEvent and BackEvent, so
// that all stores use the same. The suite store/storetest tests a store against all of this: see CONTRIBUTING.md.
//
// # For maintainers
//
// The rules are Q1 to Q9 of docs/why/rules.md; comments here name the rules that they keep. This package decides
// nothing. What happens to a task is decided in store/internal/lifecycle, for the stores that decide in Go, or in a
// store's own SQL or Lua. How a worker behaves is decided in package queue.
package driver
