// Package queue enqueues tasks and runs them in workers. Each task runs on one worker at a time, within a bounded
// number of attempts and a bounded time. Tasks can be unique and can exclude each other. A task whose enqueueing was
// acknowledged is never lost.
//
// A program defines its kinds of task once, with the type of their arguments:
//
//	var welcome = queue.Define[User]("welcome")
//
// It enqueues through a Client, which answers whether the task is new, or which other task it duplicates:
//
//	spec := welcome.Spec(user)
//	spec.Unique = &queue.Unique{Key: user.ID}
//	e, err := client.Enqueue(ctx, spec)
//
// It registers a handler per kind in a Mux, and runs a Worker until its context ends:
//
//	welcome.Handle(&mux, sendWelcome, queue.Handler{Timeout: time.Minute})
//	err := worker.Run(ctx)
//
// If a handler returns nil, the task succeeded. An error is a failed attempt, which is tried again after a pause;
// Final, RetryAfter, Postpone and GiveUp change that. Package dibs combines Client, Mux and Worker; queuetest is for
// tests.
//
// Package task defines what a task can specify; the types that programs write are here as well, under the same
// names. To operate queues, use a store's driver.Admin: Bulk operates on many tasks, Why explains why a task waits,
// and package queue/counters sums up the counters.
//
// # For maintainers
//
// A Worker holds one lease for its process, fetches tasks in batches, calls their handlers, and reports how they
// ended. Every report carries the token of its fetch, and is refused once another worker has the task. Package
// queue/driver is the contract for what stores do in this.
//
// The exact rules are Q1 to Q9 of docs/why/rules.md; docs/reference/queue.md draws the states.
package queue
