package driver

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/task"
)

// An Operation is what an operator does to a task.
type Operation string

// The operations, with the states that they apply to.
const (
	// OpRetry runs a final or retryable task again: it keeps its history and gets one fresh budget. In the same step
	// it takes its unique key again, or is answered Taken (rule Q1). An ExpiresAt in the past is cleared.
	OpRetry Operation = "retry"
	// OpCancel ends a waiting task, and asks a running one to stop.
	OpCancel Operation = "cancel"
	// OpPromote moves a waiting task to the front, and makes it due.
	OpPromote Operation = "promote"
	// OpDiscard ends a waiting task as discarded, reason "operator".
	OpDiscard Operation = "discard"
	// OpMove puts a waiting task into Queue.
	OpMove Operation = "move"
	// OpEdit sets Priority and RunAt of a waiting task.
	OpEdit Operation = "edit"
	// OpDelete removes a final task's row, with its window.
	OpDelete Operation = "delete"
)

// OpRequest is an operation on tasks.
type OpRequest struct {
	Operation Operation
	IDs       []task.ID // at most 1,000
	// By and Why go into the event.
	By, Why string
	Queue   string // OpMove
	Edit    Edit   // OpEdit
	// From and States restrict the operation to tasks that are in this queue, and in one of these states, when it is
	// done: tasks may have changed since they were selected. Others are answered Changed. Empty: any.
	From   string
	States []task.State
}

// Check refuses what a store must not be given, with a *task.SpecError.
func (a *OpRequest) Check() error {
	switch {
	case a.Operation == OpMove && a.Queue == "":
		return &task.SpecError{Field: "queue", Problem: "it is empty; name the target queue"}
	case a.Operation == OpMove:
		return task.CheckName("queue", a.Queue)
	case a.Operation != OpEdit:
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

// Edit changes a waiting task; a nil field stays unchanged.
type Edit struct {
	Priority *int
	RunAt    *time.Time
}

// OpResult is the answer for one task.
type OpResult struct {
	ID     task.ID
	Answer OpAnswer
	// State is the task's state now. Other is the task that holds its unique key (Taken).
	State task.State
	Other task.ID
}

// OpAnswer is what an operation did to one task.
type OpAnswer string

// The answers.
const (
	Done     OpAnswer = "done"
	Asking   OpAnswer = "asked"       // it runs, and was asked to stop
	NotThere OpAnswer = "not_found"   //
	Unfit    OpAnswer = "wrong_state" // the act does not apply to its state
	Taken    OpAnswer = "duplicate"   // its unique key is another task's now
	Busy     OpAnswer = "undecided"   // another transaction has it
	Changed  OpAnswer = "changed"     // it is not what From and States say, or no longer
)
