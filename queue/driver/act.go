package driver

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/task"
)

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
	IDs []task.ID // at most 1,000
	// By and Why go into the event.
	By, Why string
	Queue   string // ActMove
	Edit    Edit   // ActEdit
	// From and States restrict it to tasks that are in this queue, and in one of these states, when it is done:
	// somebody may have got to them after they were selected. Others are answered Changed. Empty: any.
	From   string
	States []task.State
}

// Check refuses what a store must not be given, with a *task.SpecError.
func (a *Action) Check() error {
	switch {
	case a.Act == ActMove && a.Queue == "":
		return &task.SpecError{Field: "queue", Problem: "it is empty; name the target queue"}
	case a.Act == ActMove:
		return task.CheckName("queue", a.Queue)
	case a.Act != ActEdit:
		return nil
	case a.Edit.Priority != nil && (*a.Edit.Priority < task.MinPriority || *a.Edit.Priority > task.MaxPriority):
		return &task.SpecError{Field: "priority", Problem: fmt.Sprintf("%d is not from %d to %d; a higher one is fetched sooner",
			*a.Edit.Priority, task.MinPriority, task.MaxPriority)}
	case a.Edit.RunAt != nil && a.Edit.RunAt.IsZero():
		return &task.SpecError{Field: "run_at", Problem: "it is empty"}
	case a.Edit.RunAt != nil:
		return task.CheckInstant("run_at", *a.Edit.RunAt)
	}
	return nil
}

// Edit changes a waiting task; nil leaves as it is.
type Edit struct {
	Priority *int
	RunAt    *time.Time
}

// Acted is the answer for one task.
type Acted struct {
	ID     task.ID
	Answer ActAnswer
	// State is where it stands now. Other is the task that holds its unique key (Taken).
	State task.State
	Other task.ID
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
