// Package queue enqueues tasks and has them worked: each by one worker at a time, bounded in attempts and in time,
// unique and exclusive where a task says so, and never lost once it was acknowledged.
//
// A program defines its kinds of task once, with the type of their arguments:
//
//	var welcome = queue.Define[User]("welcome")
//
// It enqueues through a Client, which answers truthfully whether the task is new or a duplicate of which other one:
//
//	spec := welcome.Spec(user)
//	spec.Unique = &queue.Unique{Key: user.ID}
//	e, err := client.Enqueue(ctx, spec)
//
// It says in a Mux which handler does which kind, and runs a Worker until it is told to stop:
//
//	welcome.Handle(&mux, sendWelcome, queue.Handler{Timeout: time.Minute})
//	err := worker.Run(ctx)
//
// A handler's nil is success, and its error a failed attempt, which is tried again after a pause. Final, RetryAfter,
// Postpone and GiveUp say otherwise. Package dibs puts Client, Mux and Worker together; queuetest is for tests.
//
// What a task may say is package task's; its types that programs write are here as well, under the same names. Who
// operates queues asks a store's driver.Admin: Bulk acts on many tasks, Why says why one waits, and package
// queue/counters sums up what was counted.
//
// # For maintainers
//
// A Worker holds one lease for its process, fetches tasks in batches, calls their handlers, and reports how they
// ended. Every report carries the token of its fetch, and is refused once the task is somebody else's. What stores do
// for this is the contract of package queue/driver.
//
// The exact rules are Q1 to Q9 of docs/why/rules.md; docs/reference/queue.md draws the states.
package queue
