package task

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
