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
	// Front means that an operator moved the task before all others of its queue.
	Front bool
	// Enqueued is when the task was added, Started when it was last fetched, Ended when it reached its final state.
	Enqueued, Started, Ended time.Time
	// Attempts counts the attempts made; Granted is its value at the last manual retry: only later attempts are
	// counted against the new budget (rule Q7). Crashes and Snoozes have budgets of their own, which begin anew with a
	// manual retry.
	Attempts, Granted, Crashes, Snoozes int
	// Suspect means that a worker died, or left, while it had the task (rule Q4). The task stays a suspect.
	Suspect bool
	// Token is the token of the last fetch; Worker is the worker that has the task, or had it last.
	Token  lease.Token
	Worker Process
	// Reason says why the task ended as it did; a closed set for discarded and canceled.
	Reason string
	// Stop is why the task is asked to stop while it runs; empty if it is not.
	Stop string
	// History holds the attempts that did not succeed, the oldest first: the first 10 and the last 89 of them. Only
	// Admin.Task fills it.
	History []task.Attempt
}

// A Process is a worker as stores know it. It has its tasks for as long as its lease is live.
type Process struct {
	// Lease is the process's lease in the same store; its Owner is the worker's identity.
	Lease lease.Ref `json:"-"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	// Queues are the queues that it works. Kinds are the kinds that it knows; none: any.
	Queues []string `json:"queues"`
	Kinds  []string `json:"kinds,omitempty"`
	Slots  int      `json:"slots"`
	// Since is when it joined, set by the store.
	Since time.Time `json:"since"`
	// Running is how many tasks it has; Admin.Workers fills it.
	Running int `json:"running"`
}

// A task that fails for ever has a bounded history: stores delete the attempt after the first FirstAttempts once they
// keep MostAttempts.
const (
	FirstAttempts = 10
	MostAttempts  = 99
)
