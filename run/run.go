// Package run describes one execution of a job: the run, its attempts, how it ended, and the Target that does the
// work.
//
// A program uses it in three ways. It passes a Go function as work: [Func] makes a [Target] of it, and the
// function's [Call] says which run and which attempt this is, with the fencing token. It reads history: a [Record]
// is one run, with its [Outcome] and its attempts. Or it does another kind of work and implements Target itself;
// run/command, run/webhook and run/enqueue do so for commands, HTTP requests and tasks.
//
// [Attempts] carries out a run: it tries until an attempt succeeds, is final, or the limits are reached.
//
// # For maintainers
//
// The outcomes are a closed set (promise 10). A lost lease, a timeout, a cancellation and a replacement reach the
// work as causes of its context; the cause decides the outcome (see outcomeOf). Record is what stores keep; Owner
// and Token fence its later writes (T9).
package run

import (
	"time"

	"github.com/google/uuid"

	"github.com/dibs-run/dibs/lease"
)

// NewID returns a new run id: a UUIDv7, so that ids sort by time.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// An Outcome is how a tick or a run ended. The set is closed (promise 10).
type Outcome string

// The outcomes. The first seven are of work that was started.
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

// Ran reports whether work was started.
func (o Outcome) Ran() bool {
	switch o {
	case Succeeded, Failed, TimedOut, Replaced, Canceled, Lost, Crashed:
		return true
	}
	return false
}

// Valid reports whether o is one of the closed set.
func (o Outcome) Valid() bool {
	switch o {
	case Skipped, Missed, Paused, Unavailable:
		return true
	}
	return o.Ran()
}

// The reasons of a skipped tick, also a closed set (rule T5).
const (
	ReasonOverlap     = "overlap"
	ReasonQueueFull   = "queue_full"
	ReasonSuperseded  = "superseded"
	ReasonHolderStuck = "holder_stuck"
	ReasonWhen        = "when"
	ReasonWindow      = "window"
	// ReasonShutdown is the reason of a run that was canceled because its server was told to stop (rule T3).
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
	// Inferred marks an outcome that another process concluded. The run's own late report replaces it (rule T3).
	Inferred bool      `json:"inferred,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Attempts []Attempt `json:"attempts,omitempty"`
	// Cause says who asked for the run, if no schedule did or a schedule did long ago; nil for others.
	Cause *Cause `json:"cause,omitempty"`
}

// A Cause is why a run was started by hand.
type Cause struct {
	// By and Why are for people.
	By  string `json:"by"`
	Why string `json:"why,omitempty"`
	// Backfill is the id of the back-fill that the run belongs to; empty if it was triggered alone.
	Backfill string `json:"backfill,omitempty"`
	// Again is the tick that a back-fill ran once more; the tick keeps its earlier outcome. Such a run has no tick
	// of its own. Zero for others.
	Again time.Time `json:"again,omitzero"`
}

// String returns the cause in words.
func (c Cause) String() string {
	s := "triggered by " + c.By
	if c.Backfill != "" {
		s = "back-filled by " + c.By
	}
	if c.Why != "" {
		s += ": " + c.Why
	}
	return s
}

// Scheduled returns the instant that the run is for: its tick, or the one that it runs again; zero for none.
func (r Record) Scheduled() time.Time {
	if r.Tick.IsZero() && r.Cause != nil {
		return r.Cause.Again
	}
	return r.Tick
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
	// Printed is how many bytes the attempt printed (for a request: how many bytes of the answer's body were passed
	// on). What is kept of them is bounded, and belongs to history.
	Printed int64 `json:"output_bytes,omitempty"`
	// Response is set if a request was answered.
	Response *Response `json:"response,omitempty"`
	// Task is the id of the task that the attempt enqueued, or that was there already; 0 for others.
	Task int64 `json:"task,omitempty"`
}

// A Response is what is kept of an answer besides its status and its body.
type Response struct {
	// Headers are a few of its headers, each cut to a bound.
	Headers map[string]string `json:"headers,omitempty"`
	// FirstByte is the time from sending the request to the beginning of the answer, in seconds.
	FirstByte float64 `json:"first_byte_seconds"`
	// Body is the number of bytes of the body that arrived.
	Body int64 `json:"body_bytes"`
}
