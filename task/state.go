package task

// A State is the state of a task. The set is closed, and docs/reference/queue.md draws it; transitions below is the
// same drawing.
type State string

// The states. The last five are final.
const (
	// Scheduled: its instant has not come.
	Scheduled State = "scheduled"
	// Available: the next worker that asks may fetch it.
	Available State = "available"
	// Blocked: its limit is reached. It costs a fetch nothing, and becomes available when a slot frees.
	Blocked State = "blocked"
	// Running: a worker has fetched it.
	Running State = "running"
	// Retryable: an attempt failed, or its handler postponed it, and the next attempt's instant has not come.
	Retryable State = "retryable"

	// Succeeded: done.
	Succeeded State = "succeeded"
	// Failed: its attempts or its time are used up, or its handler made an error final.
	Failed State = "failed"
	// Discarded: it was not done and will not be, for a recorded reason; never a success.
	Discarded State = "discarded"
	// Canceled: somebody stopped it.
	Canceled State = "canceled"
	// Crashed: workers died with it as often as its budget allows.
	Crashed State = "crashed"
)

// Damaged is shown for a task whose row this program does not understand: one that somebody changed, or of a newer
// version. It is none of the states: such a task can only be looked at and deleted.
const Damaged State = "damaged"

// States are all states, in the order of a task's life.
var States = []State{Scheduled, Available, Blocked, Running, Retryable, Succeeded, Failed, Discarded, Canceled, Crashed}

// Waits returns the states of waiting tasks. It includes tasks that were never begun and whose instant has not come
// only if scheduled is set.
func Waits(scheduled bool) []State {
	if scheduled {
		return []State{Scheduled, Available, Blocked, Retryable}
	}
	return []State{Available, Blocked, Retryable}
}

// Final reports whether nothing more happens to the task unless somebody retries it.
func (s State) Final() bool {
	switch s {
	case Succeeded, Failed, Discarded, Canceled, Crashed:
		return true
	}
	return false
}

// Waiting reports whether the state is not final and no worker has the task.
func (s State) Waiting() bool {
	switch s {
	case Scheduled, Available, Blocked, Retryable:
		return true
	}
	return false
}

// Valid reports whether s is one of the closed set.
func (s State) Valid() bool { return s.Waiting() || s.Final() || s == Running }

// A transition is one arrow of the drawing. An empty From is the beginning.
type transition struct {
	From, To State
	By       string
}

// transitions are all arrows. Whatever a store does to a task is one of them.
var transitions = []transition{
	{"", Scheduled, "enqueue, for later"},
	{"", Available, "enqueue"},
	{Scheduled, Available, "its instant came"},
	{Retryable, Available, "its instant came"},
	{Available, Blocked, "its limit is reached"},
	{Blocked, Available, "a slot freed"},
	{Available, Scheduled, "put off: edited, or replaced by a newer one"},
	{Blocked, Scheduled, "put off: edited, or replaced by a newer one"},
	{Available, Running, "fetch"},
	{Running, Succeeded, "done"},
	{Running, Retryable, "an attempt failed, or it was postponed"},
	{Running, Available, "handed back, or its worker died"},
	{Running, Failed, "no attempt is left"},
	{Running, Canceled, "stopped on request"},
	{Running, Discarded, "given up by its handler"},
	{Running, Crashed, "its crashes are used up"},
	{Scheduled, Discarded, "expired, or by an operator"},
	{Available, Discarded, "expired, overlap, superseded, or by an operator"},
	{Blocked, Discarded, "expired, superseded, or by an operator"},
	{Retryable, Discarded, "expired, or by an operator"},
	{Scheduled, Canceled, "by an operator"},
	{Available, Canceled, "by an operator"},
	{Blocked, Canceled, "by an operator"},
	{Retryable, Canceled, "by an operator"},
	{Succeeded, Available, "retried by an operator"},
	{Failed, Available, "retried by an operator"},
	{Discarded, Available, "retried by an operator"},
	{Canceled, Available, "retried by an operator"},
	{Crashed, Available, "retried by an operator"},
}

// Allowed reports whether a task may go from one state to another in one step; from "" it begins.
func Allowed(from, to State) bool {
	for _, t := range transitions {
		if t.From == from && t.To == to {
			return true
		}
	}
	return false
}
