package driver

import (
	"context"
	"math"
	"time"

	"github.com/dibs-run/dibs/internal/keys"
	"github.com/dibs-run/dibs/task"
)

// Admin is the contract for operators who look at queues and intervene. It needs nothing that the hot path does not
// keep anyway.
type Admin interface {
	// Queues returns every (queue, kind) that has tasks or a pause, sorted.
	Queues(ctx context.Context) ([]SubQueue, error)
	// Workers returns the workers whose lease is live, sorted by host and pid.
	Workers(ctx context.Context) ([]Process, error)
	// Tasks returns the tasks that f selects, by id, without their attempts. It reads in bounded steps. If few tasks
	// are in the states of f, and ended since f.Since, it should read no others.
	Tasks(ctx context.Context, f Filter) ([]Task, error)
	// Task returns one task with its attempts, and the holders of its limit's slots; ok is false if there is no such
	// task.
	Task(ctx context.Context, id task.ID) (t Task, held Slots, ok bool, err error)

	// Pause stops the fetching of what p names. It replaces an earlier pause of the same. p is valid (Pause.Check).
	Pause(ctx context.Context, p Pause) error
	// Resume ends a pause. ok is false if there was none.
	Resume(ctx context.Context, queue, kind, by string) (ok bool, err error)
	// Pauses returns the pauses that are in force, sorted.
	Pauses(ctx context.Context) ([]Pause, error)

	// Rates returns the declared rates, by kind.
	Rates(ctx context.Context) (map[string]RateStatus, error)

	// Operate does one operation on tasks and records it as an event in the same step, with who and why. A store may
	// take many tasks in several steps, each with its event. Each task has its own answer. The operation is
	// valid (OpRequest.Check). If another transaction has a task, Operate waits for it no longer than the store's
	// lock_wait.
	Operate(ctx context.Context, a OpRequest) ([]OpResult, error)
	// SetLimit sets how many tasks may run on a limit's key, and promotes waiting tasks. If very many wait, it
	// promotes them in steps, of which this is the first (rule Q5). An operator's setting overrides what tasks
	// declare until max 0 removes it: then what they declared last applies again. ok is false if no task ever named
	// the key.
	SetLimit(ctx context.Context, key task.Hash, max int, by string) (ok bool, err error)
	// Limits returns the operators' settings in force, sorted by key, at most 1,000.
	Limits(ctx context.Context) ([]Word, error)

	// Counts sums the counters of the minutes in [from, to).
	Counts(ctx context.Context, from, to time.Time) ([]Count, error)
}

// SubQueue is one kind of task in one queue.
type SubQueue struct {
	Queue, Kind string
	// Depth is the number of tasks per state; final ones only while they are kept.
	Depth map[task.State]int
	// Oldest is when the oldest available or blocked task became due; zero if there is none.
	Oldest time.Time
}

// Slots describes the use of a limit.
type Slots struct {
	Key     string
	Max     int
	Running []Holding
	// Waiting is the number of tasks that wait for a slot.
	Waiting int
}

// Holding is a task that holds a slot.
type Holding struct {
	ID     task.ID
	Kind   string
	Worker Process
	Since  time.Time
}

// A Word is an operator's setting of how many tasks may run on a limit's key.
type Word struct {
	// Hash is the limit's identity, Key its readable key.
	Hash task.Hash
	Key  string
	// Max is the operator's setting, which is in force; Declared is what tasks declared last, which applies once the
	// setting is removed.
	Max, Declared int
	By            string
	Since         time.Time
}

// Filter selects tasks. Zero fields select everything.
type Filter struct {
	Queue, Kind string
	States      []task.State // what is no state selects nothing
	Tag         string
	// Unique and Limit select by key, as declared, whatever its scope.
	Unique, Limit string
	// Since, unless zero: only tasks that ended since then, and tasks that were enqueued since then and have not
	// ended.
	Since time.Time
	// Newest lists by id descending, instead of ascending. Ids ascend in the order of the enqueues.
	Newest bool
	// After and Before are the cursors: only ids above After, and, unless Before is 0, below Before. The last id of a
	// page is the next page's After, or with Newest its Before.
	After, Before task.ID
	// Max bounds the rows, 1 to 1,000. Default 100.
	Max int
}

// Rows returns the effective bound.
func (f Filter) Rows() int {
	if f.Max <= 0 {
		return 100
	}
	return min(f.Max, 1000)
}

// Past returns f, continued past the task id.
func (f Filter) Past(id task.ID) Filter {
	if f.Newest {
		f.Before = id
	} else {
		f.After = id
	}
	return f
}

// End returns the effective upper bound: all selected ids are below it.
func (f Filter) End() int64 {
	if f.Before == 0 {
		return math.MaxInt64
	}
	return int64(f.Before)
}

// A Pause stops fetching: of a queue, of a kind, of a kind in a queue, or, with neither, of everything.
type Pause struct {
	Queue, Kind string
	Since       time.Time // set by the store
	Until       time.Time // zero: until somebody resumes
	By, Why     string
}

// Check refuses what a store must not be given, with a *task.SpecError, and cuts texts that are too long.
func (p *Pause) Check() error {
	p.By, p.Why = keys.Text(p.By), keys.Text(p.Why)
	if err := task.CheckName("queue", p.Queue); err != nil {
		return err
	}
	if err := task.CheckName("kind", p.Kind); err != nil {
		return err
	}
	return task.CheckInstant("until", p.Until)
}

// Covers reports whether p holds back tasks of kind in queue at now.
func (p Pause) Covers(queue, kind string, now time.Time) bool {
	return (p.Queue == "" || p.Queue == queue) && (p.Kind == "" || p.Kind == kind) && (p.Until.IsZero() || p.Until.After(now))
}

// A RateStatus is the current use of the rate of a kind.
type RateStatus struct {
	// Each is the time that one task costs. Next is when the next task may be fetched; it may be in the past.
	Each time.Duration
	Next time.Time
}
