package driver

import (
	"context"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

// Store is the contract that a technology fulfils to take in tasks and have them worked. Programs
// use it through a Client and a Worker of package queue.
//
// Atomicity: each call is one atomic step, and what it acknowledges is durable as far as the store's
// page says. Items of a batch are answered one by one, answer i for item i; one that is refused does
// not touch the others.
//
// Clock: the store's own, read inside the step.
//
// Fencing: Fetch, Start and Finish act only while the lease of their worker is live, checked in the
// same step; Start and Finish only on a task that runs under the given token. A worker that was
// stopped for longer than its lease can change nothing when it wakes (promise 19).
//
// Retries: a store never retries. An error means that nothing is known of any item.
//
// Concurrency: all methods are safe for concurrent use by any number of goroutines and processes.
type Store interface {
	Inserter
	Finisher

	// Register records the worker, or what changed about it. Its lease must be live.
	Register(ctx context.Context, w Process) error
	// Deregister forgets it. Whatever it still has is rescued as a dead worker's is.
	Deregister(ctx context.Context, worker lease.Ref) error

	// Fetch gives the worker tasks to run, in the order: moved to the front, priority, id, within
	// each queue; queues in the order given. It first makes due tasks available. A task with a
	// limit is given only where a slot is free, and takes it; where none is, it becomes blocked, or is
	// discarded, or displaces, as its Limit says. Within (limit, queue, kind) the oldest is given
	// first. It gives nothing of a queue or kind that is paused, of a kind that the worker does not
	// know, or of one whose rate is used up. Tokens given are larger than every earlier one of the
	// task and of its limit's key: max(previous + 1, store time in µs).
	Fetch(ctx context.Context, r FetchRequest) (Fetch, error)

	// Start writes that the work of tasks begins now, before it does: it frees unique keys that
	// are held until started, and charges suspects if the worker dies from now on.
	// Answers: OK, Gone.
	Start(ctx context.Context, worker lease.Ref, tasks []Ref) ([]Status, error)

	// Running returns the tasks that run under the worker's lease; with asked, only those that are
	// asked to stop.
	Running(ctx context.Context, worker lease.Ref, asked bool) ([]RunningTask, error)

	// Maintain does what is due and nobody's: it rescues the tasks of workers whose lease is not live
	// (rule Q4), ends expired ones, makes due ones available, frees windows that are over, repairs
	// slots that are counted wrongly, and deletes what is kept no longer. Any number of processes
	// may do so at the same time. One call does a bounded amount and says whether there is more.
	Maintain(ctx context.Context, r MaintainRequest) (Maintained, error)

	// Declare sets the rates of kinds; a zero Rate removes it. The last declaration wins.
	Declare(ctx context.Context, rates map[string]task.Rate) error

	// Count adds to the store's counters (see Count). It is bookkeeping: no promise rests on it. What no
	// worker or client sees the store counts by itself: discards as expired, overlap, superseded
	// or by an operator, cancels that are not a worker's verdict, rescues and crashes.
	Count(ctx context.Context, counts []Count) error

	// Watch returns a channel that receives when a task may have become available in one of the queues,
	// until ctx ends. It is a hint that may be missing or wrong; who waits polls as well. A store
	// that cannot tell returns nil, nil.
	Watch(ctx context.Context, queues []string) (<-chan struct{}, error)
}

// Inserter takes tasks in. A Store is one, and so is a store's view of a transaction of the
// caller's, whose rollback leaves no trace (promise 22).
type Inserter interface {
	// Enqueue takes tasks in, each with its own answer. Two of one batch that share a unique key are
	// answered one after the other, as if they had come so. Specs are valid
	// (task.Spec.Check). Answers: task.New, Duplicate, Updated, and Undecided only where a transaction of somebody's
	// has the key (rule Q2). In a transaction of the caller's they are counted with it (counters.Admissions);
	// otherwise a Client does that.
	Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error)
}

// Finisher ends runs of tasks. In a transaction of the caller's, completion commits with the work.
type Finisher interface {
	// Finish writes how runs ended: OK, or Gone where the task does not run under this token any more, or the
	// worker's lease is not live. A completion that was carried out before, under the same token, is answered OK
	// again to the worker that sent it, at least until the task's next run ends. Others are refused; but once the
	// task was given anew a store need not know whose run that was, and may answer OK to whatever worker knows its
	// token: that changes nothing. Where another transaction has a task for long, a store may answer Withheld, so
	// that no other one waits for it. Where a slot frees, the oldest waiting task of every (queue, kind) on that
	// limit becomes available in the same step, as far as that is bounded (rule Q5).
	Finish(ctx context.Context, worker lease.Ref, ends []Completion) ([]Status, error)
}
