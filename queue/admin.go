package queue

import (
	"context"
	"time"
)

// Admin is the contract for whoever looks at queues and intervenes. It rests on nothing that the hot path
// does not keep anyway.
type Admin interface {
	// Queues tells of every (queue, kind) that has tasks or a pause, sorted.
	Queues(ctx context.Context) ([]Lane, error)
	// Workers returns those whose lease is live, sorted by host and pid.
	Workers(ctx context.Context) ([]Process, error)
	// Tasks returns those that f selects, by id ascending. Attempts are not filled in.
	Tasks(ctx context.Context, f Filter) ([]Task, error)
	// Task returns one with its attempts, and who holds the slots of its limit; ok is false where
	// there is none.
	Task(ctx context.Context, id ID) (t Task, held Slots, ok bool, err error)

	// Pause stops the fetching of what it names; an earlier pause of the same is replaced. p is valid (Pause.Check).
	Pause(ctx context.Context, p Pause) error
	// Resume ends a pause. ok is false where there was none.
	Resume(ctx context.Context, queue, kind, by string) (ok bool, err error)
	// Pauses returns those that hold now, sorted.
	Pauses(ctx context.Context) ([]Pause, error)

	// Rates returns the declared ones, by kind.
	Rates(ctx context.Context) (map[string]Pace, error)

	// Act does one thing to tasks, and records it as an event in the same step, with who and why. Each task has
	// its answer. The action is valid (Action.Check). A task that waits for what another transaction does to it
	// is not waited for longer than the store's lock_wait.
	Act(ctx context.Context, a Action) ([]Acted, error)
	// SetLimit says how many may run on a limit's key, and promotes what waits: very many in steps, of which
	// this is the first (rule Q5). An operator's word stands above what tasks declare, until max 0 takes it
	// back: then what they declared last holds again. ok is false where no task ever named the key.
	SetLimit(ctx context.Context, key Hash, max int, by string) (ok bool, err error)
	// Limits returns the operators' words that stand, sorted by key, at most 1,000.
	Limits(ctx context.Context) ([]Word, error)

	// Counts sums the counters of the minutes in [from, to).
	Counts(ctx context.Context, from, to time.Time) ([]Count, error)
}

// Lane is one kind of task in one queue.
type Lane struct {
	Queue, Kind string
	// Depth is how many tasks are in each state; final ones only as far as they are kept.
	Depth map[State]int
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

// A Word is an operator's on how many may run on a limit's key.
type Word struct {
	// Hash is the limit's identity, Key its readable key.
	Hash Hash
	Key  string
	// Max is what the operator said, and holds; Declared what tasks declared last, which holds once the word is taken
	// back.
	Max, Declared int
	By            string
	Since         time.Time
}

// Holding is a task that holds a slot.
type Holding struct {
	ID     ID
	Kind   string
	Worker Process
	Since  time.Time
}

// Filter selects tasks. Zero fields select everything.
type Filter struct {
	Queue, Kind string
	States      []State // what is no state selects nothing
	Tag         string
	// Unique and Limit select by key, as declared, whatever its scope.
	Unique, Limit string
	// After is the cursor: only ids above it. UpTo, where not 0: only ids up to it.
	After, UpTo ID
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

// A Pace is how far the rate of a kind is used.
type Pace struct {
	// Each is the time that one task costs. Next is when the next one may be fetched; it may be past.
	Each time.Duration
	Next time.Time
}

// An Act is what an operator does to a task.
type Act string

// The acts, with the states that they apply to.
const (
	// ActRetry runs a final or retryable task (anew): it keeps its history and gets one fresh budget. It takes
	// its unique key again in the same step, or is answered Taken (rule Q1). An ExpiresAt that is past is
	// forgotten.
	ActRetry Act = "retry"
	// ActCancel ends a waiting task, and asks a running one to stop.
	ActCancel Act = "cancel"
	// ActPromote moves a waiting task to the front, and makes it due.
	ActPromote Act = "promote"
	// ActDiscard ends a waiting task as discarded, reason "operator".
	ActDiscard Act = "discard"
	// ActMove puts a waiting task into Queue.
	ActMove Act = "move"
	// ActEdit sets Priority and RunAt of a waiting task.
	ActEdit Act = "edit"
	// ActDelete removes a final task's row, its window included.
	ActDelete Act = "delete"
)

// Action is an act on tasks.
type Action struct {
	Act Act
	IDs []ID // at most 1,000
	// By and Why go into the event.
	By, Why string
	Queue   string // ActMove
	Edit    Edit   // ActEdit
	// From and States restrict it to tasks that are in this queue, and in one of these states, when it is done:
	// somebody may have got to them after they were selected. Others are answered Changed. Empty: any.
	From   string
	States []State
}

// Edit changes a waiting task; nil leaves as it is.
type Edit struct {
	Priority *int
	RunAt    *time.Time
}

// Acted is the answer for one task.
type Acted struct {
	ID     ID
	Answer ActAnswer
	// State is where it stands now. Other is the task that holds its unique key (Taken).
	State State
	Other ID
}

// ActAnswer is what became of an act on one task.
type ActAnswer string

// The answers.
const (
	Done     ActAnswer = "done"
	Asking   ActAnswer = "asked"       // it runs, and was asked to stop
	NotThere ActAnswer = "not_found"   //
	Unfit    ActAnswer = "wrong_state" // the act does not apply to its state
	Taken    ActAnswer = "duplicate"   // its unique key is another task's now
	Busy     ActAnswer = "undecided"   // another transaction has it
	Changed  ActAnswer = "changed"     // it is not what From and States say, or no longer
)
