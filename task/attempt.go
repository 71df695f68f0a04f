package task

import "time"

// Attempt is one try of a task that did not succeed.
type Attempt struct {
	N       int       `json:"n"`
	Outcome string    `json:"outcome"` // failed, timed_out, canceled, crashed, snoozed, returned, discarded
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Host    string    `json:"host,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// The closed set of reasons for discarded, and of the store's own reasons for canceled.
const (
	ReasonExpired    = "expired"    // ExpiresAt passed while it waited
	ReasonOverlap    = "overlap"    // its limit was reached, and it asked to be discarded then
	ReasonSuperseded = "superseded" // a newer task of its limit takes its place
	ReasonReplaced   = "replaced"   // canceled: a newer task of its limit takes its slot
	ReasonOperator   = "operator"   // somebody did it: the event says who and why
	ReasonWorker     = "worker"     // its handler asked for it
	ReasonDamaged    = "damaged"    // its row could not be understood
)
