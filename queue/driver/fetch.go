package driver

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
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

// Ref is one run of a task: whoever can show it may end it.
type Ref struct {
	ID    task.ID
	Token lease.Token
}

// Fetched is one task to run. Of the Spec, RunAt is when it became due.
type Fetched struct {
	Ref
	task.Spec
	Enqueued                   time.Time
	Attempts, Crashes, Snoozes int
	Granted                    int
	Suspect                    bool
}

// MustStart says that its start is to be written before the work (Store.Start).
func (f *Fetched) MustStart() bool {
	return f.Suspect || f.Unique != nil && f.Unique.Until == task.UntilStarted
}

// LastCrash says that the task is a suspect that the next crash would end (rule Q4). It is worked alone: with others
// beside it nobody could say whose fault that crash was.
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

// RunningTask is a task that runs under a worker; Stop is why it is asked to stop, empty where it is not.
type RunningTask struct {
	Ref
	Stop string
}
