package driver

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

// A Task is a task as a store keeps it. Instants are the store's own, UTC, to the microsecond.
type Task struct {
	ID task.ID
	task.Spec
	State task.State
	// Front says that an operator moved it before all others of its queue.
	Front bool
	// Enqueued is when it was taken in, Started when it was last fetched, Ended when it got its final state.
	Enqueued, Started, Ended time.Time
	// Attempts counts those that were made; Granted is what it was at the last manual retry: only
	// what came since is charged to it (rule Q7). Crashes and Snoozes have budgets of their own, and
	// begin anew with a manual retry.
	Attempts, Granted, Crashes, Snoozes int
	// Suspect says that a worker died, or left, while it had the task (rule Q4). It stays so.
	Suspect bool
	// Token is that of its last fetch; Worker who has it, or had it last.
	Token  lease.Token
	Worker Process
	// Reason says why it ended as it did; a closed set for discarded and canceled.
	Reason string
	// Stop is why it is asked to stop while it runs; empty where it is not.
	Stop string
	// History holds the attempts that did not succeed, the oldest first; Admin.Task fills it.
	History []task.Attempt
}

// A Process is a worker as stores know it. Its tasks are its own for as long as its lease is live.
type Process struct {
	// Lease is that of the process, in the same store; its Owner is the worker's identity.
	Lease lease.Ref `json:"-"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	// Queues are those that it works. Kinds are those that it knows; none: any.
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds,omitempty"`
	Slots  int      `json:"slots"`
	// Since is when it joined, set by the store.
	Since time.Time `json:"since"`
	// Running is how many tasks it has; Admin.Workers fills it.
	Running int `json:"running"`
}
