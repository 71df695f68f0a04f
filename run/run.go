// Package run is the vocabulary of one execution: a run of a job for one tick (or for none), its
// attempts, how it ended, and the Target that does the work.
package run

import (
	"time"

	"github.com/google/uuid"

	"github.com/dibs-run/dibs/lease"
)

// NewID makes a run id: a UUIDv7, so that ids sort by time.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// An Outcome is how a tick or a run ended. The set is closed (promise 10).
type Outcome string

// The outcomes. The first seven are of something that ran.
const (
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	TimedOut  Outcome = "timed_out"
	Replaced  Outcome = "replaced"
	Canceled  Outcome = "canceled"
	Lost      Outcome = "lost"
	Crashed   Outcome = "crashed"

	Skipped     Outcome = "skipped"
	Missed      Outcome = "missed"
	Paused      Outcome = "paused"
	Unavailable Outcome = "unavailable"
)

// Ran says whether the outcome is that of something which was started.
func (o Outcome) Ran() bool {
	switch o {
	case Succeeded, Failed, TimedOut, Replaced, Canceled, Lost, Crashed:
		return true
	}
	return false
}

// Valid says whether o is one of the closed set.
func (o Outcome) Valid() bool {
	switch o {
	case Skipped, Missed, Paused, Unavailable:
		return true
	}
	return o.Ran()
}

// The reasons of a skipped tick: closed as well (rule T5).
const (
	ReasonOverlap     = "overlap"
	ReasonQueueFull   = "queue_full"
	ReasonSuperseded  = "superseded"
	ReasonHolderStuck = "holder_stuck"
	ReasonWhen        = "when"
	ReasonWindow      = "window"
	// ReasonShutdown is that of a run canceled because its server was told to stop (rule T3).
	ReasonShutdown = "shutdown"
)

// Record is one run as history keeps it. Instants are UTC, to the microsecond.
type Record struct {
	ID      string      `json:"run_id"`
	Job     string      `json:"job"`
	Tick    time.Time   `json:"tick,omitzero"` // zero for a run without a tick
	Owner   lease.Nonce `json:"owner"`         // with Token, the fence of every later write (rule T9)
	Token   lease.Token `json:"token"`
	Host    string      `json:"host"`
	PID     int         `json:"pid,omitempty"`
	Command string      `json:"command,omitempty"`
	Outcome Outcome     `json:"outcome,omitempty"` // empty while it runs
	Reason  string      `json:"reason,omitempty"`
	// Inferred marks an outcome that somebody else concluded; the run's own late report amends it (rule T3).
	Inferred bool      `json:"inferred,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Attempts []Attempt `json:"attempts,omitempty"`
}

// Attempt is one try within a run.
type Attempt struct {
	N       int       `json:"n"`
	Outcome Outcome   `json:"outcome"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	// Status is the exit status of a command (128+n for a signal) or the HTTP status of a request.
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
}
