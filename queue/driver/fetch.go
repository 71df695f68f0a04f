package driver

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

// FetchRequest asks for tasks.
type FetchRequest struct {
	Worker lease.Ref
	// NotAfter is the store instant after which the store gives nothing (rule L1); zero: no bound.
	NotAfter time.Time
	// Queues are the queues to look at, in this order. Kinds are the kinds that the worker knows; none: any.
	Queues, Kinds []string
	// Max is the most tasks in all, 1 to 1,000.
	Max int
	// Bytes bounds the arguments of all tasks together, as a store counts them: a store may count what it keeps beside
	// them too. One task is given whatever its size. 0: no bound.
	Bytes int
	// Suspects allows at most one suspect among the tasks, and Crashers allows that suspect to be one that took a
	// worker down before (rule Q4).
	Suspects, Crashers bool
}

// Sates reports whether a task with so many bytes of arguments is too much, after others with given bytes together.
func (r *FetchRequest) Sates(given, args int) bool {
	return r.Bytes > 0 && given > 0 && given+args > r.Bytes
}

// Fetch is the answer to a FetchRequest.
type Fetch struct {
	Now   time.Time
	Tasks []Fetched
	// NextDue is the earliest instant at which a task of the queues becomes due; zero: none known. If it is not
	// after Now, there is more to do than one step does, or more to give than Bytes allows: ask again.
	NextDue time.Time
	// Late means that the request came after its NotAfter; Gone means that the worker's lease is not live.
	Late, Gone bool
}

// Ref identifies one run of a task: the caller that presents it may end the run.
type Ref struct {
	ID    task.ID
	Token lease.Token
}

// Fetched is one task to run. RunAt of its Spec is when it became due.
type Fetched struct {
	Ref
	task.Spec
	Enqueued                   time.Time
	Attempts, Crashes, Snoozes int
	Granted                    int
	Suspect                    bool
	// Damage says what of the task cannot be understood; empty: nothing. The worker discards such a task.
	Damage string
}

// MustStart reports whether the start must be recorded before the work begins (Store.Start).
func (f *Fetched) MustStart() bool {
	return f.Suspect || f.Unique != nil && f.Unique.Until == task.UntilStarted
}

// LastCrash reports whether the task is a suspect that the next crash would end (rule Q4). Such a task is worked
// alone: beside other tasks, nobody could say which of them caused the crash.
func (f *Fetched) LastCrash() bool { return f.Suspect && f.Crashes+1 >= f.CrashBudget() }

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

// RunningTask is a task that runs under a worker. Stop is why it was asked to stop; empty if it was not.
type RunningTask struct {
	Ref
	Stop string
}
