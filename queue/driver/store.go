package driver

import (
	"context"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

// Store is the contract that a store implements to accept tasks and give them to workers. Programs use it through a
// Client and a Worker of package queue.
//
// Atomicity: each call is one atomic step, and what it acknowledges is as durable as the store's page says. Fetch,
// Start, Finish, Deregister and Maintain may do much in several steps, so that none holds up others for long. Items of
// a batch are answered one by one, answer i for item i; a refused item does not affect the others.
//
// Clock: the store's own, read inside the step.
//
// Fencing: Fetch, Start and Finish act only while the lease of their worker is live, checked in the same step; Start
// and Finish act only on a task that runs under the given token. A worker that was stopped for longer than its lease
// can change nothing when it wakes (promise 19).
//
// Retries: a store never retries. After an error, the result of every item is unknown.
//
// Concurrency: all methods are safe for concurrent use by any number of goroutines and processes.
type Store interface {
	Inserter
	Finisher

	// Register records the worker, or what changed about it. Its lease must be live.
	Register(ctx context.Context, w Process) error
	// Deregister removes the worker. Tasks that it still has are rescued as a dead worker's are.
	Deregister(ctx context.Context, worker lease.Ref) error

	// Fetch gives the worker tasks to run. Within each queue the order is: moved to the front, priority, id; the
	// queues come in the order given. Fetch first makes due tasks available. A task with a limit is given only if a
	// slot is free, and takes it; if none is, the task becomes blocked, is discarded, or displaces others, as its
	// Limit says. Within (limit, queue, kind) the oldest is given first. Fetch gives nothing of a queue or kind that
	// is paused, of a kind that the worker does not know, or of a kind whose rate is used up. Each token is larger
	// than every earlier one of the task and of its limit's key: max(previous + 1, store time in µs).
	Fetch(ctx context.Context, r FetchRequest) (Fetch, error)

	// Start records that the work of tasks begins now; it is called before the work. It frees unique keys that are
	// held until started, and if the worker dies from now on, it counts as a crash of the suspects among them.
	// Answers: OK, Gone.
	Start(ctx context.Context, worker lease.Ref, tasks []Ref) ([]Status, error)

	// Running returns the tasks that run under the worker's lease; with asked, only those that are asked to stop.
	Running(ctx context.Context, worker lease.Ref, asked bool) ([]RunningTask, error)

	// Maintain does what is due and belongs to no process: it rescues the tasks of workers whose lease is not live
	// (rule Q4), ends expired tasks, makes due ones available, frees windows that are over, repairs slots that are
	// counted wrongly, and deletes tasks past their retention. Any number of processes may call it at the same time.
	// One call does a bounded amount of work and reports whether there is more.
	Maintain(ctx context.Context, r MaintainRequest) (Maintained, error)

	// Declare sets the rates of kinds; a zero Rate removes one. The last declaration wins.
	Declare(ctx context.Context, rates map[string]task.Rate) error

	// Count adds to the store's counters (see Count). They are bookkeeping: no promise depends on them. The store
	// itself counts what no worker or client sees: discards as expired, overlap, superseded or by an operator,
	// cancels that are not a worker's verdict, rescues and crashes.
	Count(ctx context.Context, counts []Count) error

	// Watch returns a channel that receives when a task may have become available in one of the queues, until ctx
	// ends. It is a hint that may be missing or wrong; the receiver must poll as well. A store that cannot notify
	// returns nil, nil.
	Watch(ctx context.Context, queues []string) (<-chan struct{}, error)
}

// Inserter adds tasks. A Store is one, and so is a store's view of a caller's transaction, whose rollback leaves no
// trace (promise 22).
type Inserter interface {
	// Enqueue adds tasks, each with its own answer. Two of one batch that share a unique key are answered one after
	// the other, as if they had come separately. Specs are valid (task.Spec.Check). Answers: task.New, Duplicate,
	// Updated, and Undecided only if another client's transaction has the key (rule Q2). In a caller's transaction,
	// the counters are part of it (counters.Admissions); otherwise a Client counts.
	Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error)
}

// Finisher ends runs of tasks. In a caller's transaction, completion commits with the work.
type Finisher interface {
	// Finish records how runs ended. It answers OK, or Gone if the task no longer runs under this token or the
	// worker's lease is not live. A repeated completion, under the same token, is answered OK again to the worker
	// that sent it, at least until the task's next run ends. Other repetitions are refused; but once the task was
	// given to a worker again, a store need not know whose run it was, and may answer OK to any worker that knows
	// the token: that changes nothing. If another transaction has a task for long, a store may answer Withheld, so
	// that no other task waits for it. When a slot frees, the oldest waiting task of every (queue, kind) on that
	// limit becomes available in the same step, within the bound of rule Q5.
	Finish(ctx context.Context, worker lease.Ref, ends []Completion) ([]Status, error)
}
