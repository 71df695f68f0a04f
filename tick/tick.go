// Package tick decides which server runs a tick. A tick is one scheduled instant of a job, identified by (job,
// scheduled instant) and by nothing else.
//
// A server makes one [Book] per store. [Book.Claim] claims a tick: exactly one caller in the fleet wins it. The
// winner records [Book.Start] before the work begins, and [Book.Close] with the outcome. Package scheduler does all
// of this, and most programs use that package.
//
// # For maintainers
//
// [Store] is the contract for stores: claims, starts and outcomes, the registry of jobs, and the settling of ticks
// that nobody claimed. The rules are T1 to T12 in docs/why/rules.md. judge.go and settle.go have them as pure
// functions of [Facts]; every store is tested against these.
package tick

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// State is the state of a tick (rule T1). An unclaimed tick has no row and no state.
type State string

// The states.
const (
	Claimed State = "claimed" // somebody won it and has started nothing yet
	Started State = "started" // its run was acknowledged before exec, send or call
	Closed  State = "closed"  // it has its outcome
)

// A Tick is one row: a claimed tick, or a range of ticks that ended alike without running. Instants are the store's,
// in UTC, to the microsecond.
type Tick struct {
	Job string    `json:"job"`
	At  time.Time `json:"at"`
	// Through is the last tick of a range row and Count how many ticks it covers; zero and 0 or 1 for a single tick.
	Through time.Time `json:"through,omitzero"`
	Count   int       `json:"count,omitempty"`
	State   State     `json:"state"`
	// Lease is the hold under which the claim lives; the claim lapses with it.
	Lease lease.Ref `json:"lease"`
	// Claimant describes the claiming process, for people.
	Claimant lease.Holder `json:"claimant,omitzero"`
	RunID    string       `json:"run_id,omitempty"` // the last run
	Outcome  run.Outcome  `json:"outcome,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Inferred bool         `json:"inferred,omitempty"`
	Reruns   int          `json:"reruns,omitempty"`
	Claimed  time.Time    `json:"claimed,omitzero"`
	Started  time.Time    `json:"started,omitzero"`
	Ended    time.Time    `json:"ended,omitzero"`
	// Live reports whether Lease was live when the row was read. It is computed, never stored.
	Live bool `json:"-"`
}

// MaxDefinition is the most characters of a definition that dibs reads. A manifest has at most 1 MiB, and escapes make
// it longer.
const MaxDefinition = 6 << 20

// A Job is a registered definition: what the store holds of one job (rule T11).
type Job struct {
	Name string `json:"job"`
	// Definition is canonical JSON: schedules, zone, policy. The store only compares it. Jobs reads MaxDefinition
	// characters and one more at most: a longer one was not written by dibs, and says so by its length.
	Definition string `json:"definition"`
	// Generation increases by one with each change of the definition.
	Generation int64 `json:"generation"`
	// Since is when the definition took effect: earlier ticks do not belong to it.
	Since time.Time `json:"since"`
	// Mark is the high-water mark: ALL ticks up to it, inclusive, are settled (rule T4).
	Mark time.Time `json:"mark"`
	// Removed is when the job left the registry; zero while it is active.
	Removed time.Time `json:"removed,omitzero"`
	// Pause is the last pause, whether it continues or has ended; zero if there never was one.
	Pause Pause `json:"pause,omitzero"`
	// Past has the definitions before this one that left ticks open above the mark, as EncodePast encodes them. The
	// store only keeps it.
	Past string `json:"past,omitempty"`
	// Until is when a definition that is no longer in force ended; only Definitions sets it. It is never stored.
	Until time.Time `json:"-"`
}

// A Pause is a time in which no tick of a job is claimed. Its ticks end as paused, for good: they are never caught
// up (rule T8).
type Pause struct {
	// Since is its first instant and Until the first one after it; a zero Until means until somebody resumes the
	// job.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Resumed means that somebody resumed the job at Until; otherwise Until was set in advance.
	Resumed bool `json:"resumed,omitempty"`
	// By and Why are for people.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// Stops reports whether a tick cannot be claimed at an instant: it belongs to the pause, or the pause continues.
func (p Pause) Stops(at, now time.Time) bool { return p.Covers(at) || p.Covers(now) }

// Ahead reports whether the pause began, without an end, or was ended after an instant of the store's clock: by that
// clock when it was fast (rule L12). An end that was set in advance does not count.
func (p Pause) Ahead(now time.Time) bool {
	return p.Until.IsZero() && p.Since.After(now) || p.Resumed && p.Until.After(now)
}

// Covers reports whether an instant is within the pause.
func (p Pause) Covers(at time.Time) bool {
	return !p.Since.IsZero() && !at.Before(p.Since) && (p.Until.IsZero() || at.Before(p.Until))
}
