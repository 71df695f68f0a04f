package task

// Enqueued is the answer to one Spec.
type Enqueued struct {
	Answer Admission
	// ID and State are those of the new task, or of the task that is already there.
	ID    ID
	State State
}

// Admission is the result of enqueueing a Spec.
type Admission string

// The admissions.
const (
	// New: a new task was added, with the ID.
	New Admission = "enqueued"
	// Duplicate: the task ID, in State, holds the unique key.
	Duplicate Admission = "duplicate"
	// Updated: the waiting task ID took over the contents of the Spec (Replace, Debounce).
	Updated Admission = "replaced"
	// Undecided: another transaction that may keep or free the key did not end within lock_wait (rule Q2). Nothing
	// was added.
	Undecided Admission = "undecided"
)
