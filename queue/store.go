package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// Store is the contract that a technology fulfils to take in tasks and have them worked. Its users
// go through a Client and a Worker.
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

	// Join records the worker, or what changed about it. Its lease must be live.
	Join(ctx context.Context, w Process) error
	// Leave forgets it. Whatever it still has is rescued as a dead worker's is.
	Leave(ctx context.Context, worker lease.Ref) error

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

	// Mine returns the tasks that run under the worker's lease; with asked, only those that are
	// asked to stop.
	Mine(ctx context.Context, worker lease.Ref, asked bool) ([]Asked, error)

	// Tend does what is due and nobody's: it rescues the tasks of workers whose lease is not live
	// (rule Q4), ends expired ones, makes due ones available, frees windows that are over, repairs
	// slots that are counted wrongly, and deletes what is kept no longer. Any number of processes
	// may do so at the same time. One call does a bounded amount and says whether there is more.
	Tend(ctx context.Context, r TendRequest) (Tended, error)

	// Declare sets the rates of kinds; a zero Rate removes it. The last declaration wins.
	Declare(ctx context.Context, rates map[string]Rate) error

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
	// answered one after the other, as if they had come so. Specs are valid (Spec.Check).
	// Answers: New, Duplicate, Updated, Undecided (only where a transaction of somebody's has the key, rule Q2).
	// In a transaction of the caller's they are counted with it (Admissions); otherwise a Client does that.
	Enqueue(ctx context.Context, specs []Spec) ([]Enqueued, error)
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

// Enqueued is the answer to one Spec.
type Enqueued struct {
	Answer Admission
	// ID and State are of the task that was taken in, or of the one that is there already.
	ID    ID
	State State
}

// Admission is what became of a Spec.
type Admission string

// The admissions.
const (
	// New: taken in, with the ID.
	New Admission = "enqueued"
	// Duplicate: its unique key is held by ID, which is in State.
	Duplicate Admission = "duplicate"
	// Updated: the waiting task ID took over what the Spec says (Replace, Debounce).
	Updated Admission = "replaced"
	// Undecided: another transaction has the key and is about to keep it or to free it, and did not end within
	// lock_wait (rule Q2). Nothing was taken in.
	Undecided Admission = "undecided"
)

// Ref is one run of a task: whoever can show it may end it.
type Ref struct {
	ID    ID
	Token lease.Token
}

// Status is how one item of a batch ended.
type Status uint8

// The statuses.
const (
	// OK: done.
	OK Status = iota + 1
	// Gone: not, or no longer, this worker's.
	Gone
	// Withheld: another transaction has the task, and nothing was done. Ask again.
	Withheld
)

// FetchRequest asks for tasks.
type FetchRequest struct {
	Worker lease.Ref
	// NotAfter is the store instant past which nothing is given (rule L1); zero: no bound.
	NotAfter time.Time
	// Queues to look at, the first one first. Kinds that the worker knows; none: any.
	Queues, Kinds []string
	// Max is the most tasks in all, 1 to 1,000.
	Max int
	// Suspects allows at most one suspect among them, and Charged that it is one which took a
	// worker down before (rule Q4).
	Suspects, Charged bool
}

// Fetch is what a worker gets.
type Fetch struct {
	Now   time.Time
	Tasks []Fetched
	// NextDue is the earliest instant at which a task of the queues becomes due; zero: none known. One that is
	// not after Now says that there is more to do than one step does: ask again.
	NextDue time.Time
	// Late says that the request came past its NotAfter; Gone that the worker's lease is not live.
	Late, Gone bool
}

// Fetched is one task to run. Of the Spec, RunAt is when it became due.
type Fetched struct {
	Ref
	Spec
	Enqueued                   time.Time
	Attempts, Crashes, Snoozes int
	Granted                    int
	Suspect                    bool
}

// MustStart says that its start is to be written before the work (Store.Start).
func (f *Fetched) MustStart() bool {
	return f.Suspect || f.Unique != nil && f.Unique.Until == UntilStarted
}

// LastCrash says that the task is a suspect that the next crash would end (rule Q4). It is worked alone: with others
// beside it nobody could say whose fault that crash was.
func (f *Fetched) LastCrash() bool { return f.Suspect && f.Crashes+1 >= f.CrashBudget() }

// Counts says whether an attempt of the task was made.
func (c *Completion) Counts() bool {
	return c.Verdict == Success || c.Verdict != Snooze && c.Verdict != Return && c.Outcome != ""
}

// Completion is how a run of a task ended.
type Completion struct {
	Ref
	Verdict Verdict
	// Delay is how long from now it is not fetched again: Retry and Snooze.
	Delay time.Duration
	// Reason goes with a final verdict.
	Reason string
	// Outcome, Started, Ended and Error describe the attempt; see Attempt. Outcome may be empty for Success. With
	// any other verdict an empty one says that the work never began: no attempt is counted, and none is kept.
	Outcome        string
	Started, Ended time.Time
	Error          string
}

// Verdict is what becomes of a task after a run.
type Verdict uint8

// The verdicts. All but Snooze and Return count the attempt. A task that was asked to stop is not tried again: where a
// verdict would have it wait, it ends as canceled, for the reason for which it was to stop.
const (
	Success Verdict = iota + 1 // succeeded
	Retry                      // retryable, after Delay
	Fail                       // failed
	Cancel                     // canceled
	Drop                       // discarded
	Snooze                     // retryable, after Delay; no attempt, one snooze
	Return                     // available, in its place; no attempt
)

// Asked is a task that runs under a worker; Stop is why it is asked to stop, empty where it is not.
type Asked struct {
	Ref
	Stop string
}

// TendRequest says what Tend may delete.
type TendRequest struct {
	// Keep is how long tasks of a final state are kept; a state that is not named is kept for ever. One whose
	// unique window is open stays (rule Q1).
	Keep map[State]time.Duration
	// Max bounds the tasks that are touched. Default 1,000.
	Max int
}

// Tended is what Tend did.
type Tended struct {
	Now time.Time
	// Rescued tasks were a dead worker's and are available again, or canceled where they were asked to stop;
	// Crashed ones have used up their budget.
	Rescued, Crashed int
	// Expired were discarded; Due became available; Freed are windows that ended; Deleted is retention.
	Expired, Due, Freed, Deleted int
	// Repaired counts slots and promotions that were wrong. It is 0 unless there is a fault.
	Repaired int
	// Dead are the workers whose tasks were rescued; Running says how many.
	Dead []Process
	// More says that the bound was reached.
	More bool
}

// Rate bounds how many tasks of a kind are fetched, fleet-wide: Count in every Per, at most Burst at once.
type Rate struct {
	Count int
	Per   time.Duration
	// Burst is Count where it is 0.
	Burst int
}

// check refuses a rate that would bind nothing, or everything. None at all is well.
func (r Rate) check() error {
	switch {
	case r == Rate{}:
		return nil
	case r.Count <= 0 || r.Per <= 0:
		return fmt.Errorf("its Rate is %d in %s: give both, such as Rate{Count: 10, Per: time.Second}", r.Count, r.Per)
	case r.Burst < 0:
		return fmt.Errorf("its Rate has a Burst of %d", r.Burst)
	case r.Per/time.Duration(r.Count) < time.Microsecond:
		return fmt.Errorf("its Rate of %d in %s is more than a million a second: leave it out", r.Count, r.Per)
	}
	return nil
}

// Count is an increment of one of the store's counters, which are kept per minute of Minute.
type Count struct {
	Minute      time.Time
	Queue, Kind string
	// Name is what is counted: see the names in stats.go.
	Name string
	N    int64
}
