package driver

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/task"
)

// Admin is the contract for whoever looks at queues and intervenes. It rests on nothing that the hot path
// does not keep anyway.
type Admin interface {
	// Queues tells of every (queue, kind) that has tasks or a pause, sorted.
	Queues(ctx context.Context) ([]SubQueue, error)
	// Workers returns those whose lease is live, sorted by host and pid.
	Workers(ctx context.Context) ([]Process, error)
	// Tasks returns those that f selects, by id ascending. Attempts are not filled in.
	Tasks(ctx context.Context, f Filter) ([]Task, error)
	// Task returns one with its attempts, and who holds the slots of its limit; ok is false where
	// there is none.
	Task(ctx context.Context, id task.ID) (t Task, held Slots, ok bool, err error)

	// Pause stops the fetching of what it names; an earlier pause of the same is replaced. p is valid (Pause.Check).
	Pause(ctx context.Context, p Pause) error
	// Resume ends a pause. ok is false where there was none.
	Resume(ctx context.Context, queue, kind, by string) (ok bool, err error)
	// Pauses returns those that hold now, sorted.
	Pauses(ctx context.Context) ([]Pause, error)

	// Rates returns the declared ones, by kind.
	Rates(ctx context.Context) (map[string]RateStatus, error)

	// Operate does one thing to tasks, and records it as an event in the same step, with who and why. Each task has
	// its answer. The action is valid (OpRequest.Check). A task that waits for what another transaction does to it
	// is not waited for longer than the store's lock_wait.
	Operate(ctx context.Context, a OpRequest) ([]OpResult, error)
	// SetLimit says how many may run on a limit's key, and promotes what waits: very many in steps, of which
	// this is the first (rule Q5). An operator's word stands above what tasks declare, until max 0 takes it
	// back: then what they declared last holds again. ok is false where no task ever named the key.
	SetLimit(ctx context.Context, key task.Hash, max int, by string) (ok bool, err error)
	// Limits returns the operators' words that stand, sorted by key, at most 1,000.
	Limits(ctx context.Context) ([]Word, error)

	// Counts sums the counters of the minutes in [from, to).
	Counts(ctx context.Context, from, to time.Time) ([]Count, error)
}

// SubQueue is one kind of task in one queue.
type SubQueue struct {
	Queue, Kind string
	// Depth is how many tasks are in each state; final ones only as far as they are kept.
	Depth map[task.State]int
	// Oldest is when the oldest available or blocked task became due; zero where there is none.
	Oldest time.Time
}

// Slots says how far a limit is used.
type Slots struct {
	Key     string
	Max     int
	Running []Holding
	// Waiting is how many tasks wait for a slot.
	Waiting int
}

// Holding is a task that holds a slot.
type Holding struct {
	ID     task.ID
	Kind   string
	Worker Process
	Since  time.Time
}

// A Word is an operator's on how many may run on a limit's key.
type Word struct {
	// Hash is the limit's identity, Key its readable key.
	Hash task.Hash
	Key  string
	// Max is what the operator said, and holds; Declared what tasks declared last, which holds once the word is taken
	// back.
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
	// After is the cursor: only ids above it. UpTo, where not 0: only ids up to it.
	After, UpTo task.ID
	// Limit of rows, 1 to 1,000. Default 100.
	Max int
}

// Rows is the effective bound.
func (f Filter) Rows() int {
	if f.Max <= 0 {
		return 100
	}
	return min(f.Max, 1000)
}

// A Pause stops fetching: of a queue, of a kind, of a kind in a queue, or, with neither, of everything.
type Pause struct {
	Queue, Kind string
	Since       time.Time // set by the store
	Until       time.Time // zero: until somebody resumes
	By, Why     string
}

// Check refuses what a store must not be given, with a *task.SpecError.
func (p *Pause) Check() error {
	if err := task.CheckName("queue", p.Queue); err != nil {
		return err
	}
	if err := task.CheckName("kind", p.Kind); err != nil {
		return err
	}
	return task.CheckInstant("until", p.Until)
}

// Covers says whether p holds back tasks of kind in queue at now.
func (p Pause) Covers(queue, kind string, now time.Time) bool {
	return (p.Queue == "" || p.Queue == queue) && (p.Kind == "" || p.Kind == kind) && (p.Until.IsZero() || p.Until.After(now))
}

// A RateStatus is how far the rate of a kind is used.
type RateStatus struct {
	// Each is the time that one task costs. Next is when the next one may be fetched; it may be past.
	Each time.Duration
	Next time.Time
}
