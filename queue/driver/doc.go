// Package driver is the contract between package queue and the stores that keep its tasks. Programs use queue; this is
// for whoever writes a store, or asks one directly what its queues hold.
//
// A store fulfils Store, the hot path: it takes tasks in, gives them to workers, and writes how they ended. It fulfils
// Admin as well, for operators who look and intervene. Its view of a caller's transaction is an Inserter and a
// Finisher. Each interface says what is atomic, whose clock counts, who retries, and what is safe concurrently; each
// request says what it has been checked for before (Check), so that a store checks it no more.
//
// Package task says what a task is. The names under which a store counts what only it sees are those of package
// queue/counters. Its events take their words from OpRequest.Event, Pause.Event, ResumeEvent, LimitEvent and
// BackEvent, so that all stores tell the same. The suite store/storetest holds a store to all of it: see
// CONTRIBUTING.md.
//
// # For maintainers
//
// The rules are Q1 to Q9 of docs/why/rules.md; comments here name those that they keep. This package decides nothing.
// What becomes of a task is decided in store/internal/lifecycle, for the stores that decide in Go, or in a store's
// own SQL or Lua. How a worker behaves is decided in package queue.
package driver
