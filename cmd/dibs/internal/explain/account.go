package explain

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// An Account is what was decided for a tick. Its JSON is a stable form.
type Account struct {
	Job  string    `json:"job"`
	Tick time.Time `json:"tick,omitzero"`
	// Host is whose own job it is, where that host's copy was looked at, and Heard when it was last
	// heard of.
	Host  string    `json:"host,omitempty"`
	Heard time.Time `json:"heard,omitzero"`
	// Outcome is one of the eleven of promise 10; "claimed" or "started" while it has none; or one
	// of this package's constants.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// Unsettled says of a missed or paused tick that no process has recorded it as such yet (rule T4).
	Unsettled bool `json:"unsettled,omitempty"`
	Inferred  bool `json:"inferred,omitempty"`
	// From, Through and Count are set where the row stands for several ticks that ended alike.
	From    time.Time `json:"from,omitzero"`
	Through time.Time `json:"through,omitzero"`
	Count   int       `json:"count,omitempty"`
	// Schedules, Timezone and Description are those of the registered definition, and Since is when
	// it took effect.
	Schedules   []string  `json:"schedules,omitempty"`
	Timezone    string    `json:"timezone,omitempty"`
	Description string    `json:"description,omitempty"`
	Since       time.Time `json:"since,omitzero"`
	// Work is "function" where the work is a Go function of the program that registered the job.
	Work string `json:"work,omitempty"`
	// Until is when that definition ended, where the tick is of one that left ticks open (rule T11).
	Until   time.Time `json:"until,omitzero"`
	Removed time.Time `json:"removed,omitzero"`
	// Pause is one that covers the tick, or goes on now, so that nobody may claim it.
	Pause *tick.Pause `json:"pause,omitempty"`
	// Ahead says that the job is settled ahead of the store's clock, so that none of its ticks is run.
	Ahead string `json:"settled_ahead,omitempty"`
	// StartBy is until when a start is on time, and CatchUpUntil until when it may be caught up on.
	StartBy      time.Time `json:"start_by,omitzero"`
	CatchUpUntil time.Time `json:"catch_up_until,omitzero"`
	// Claimant claimed it last; Alive says of an unfinished tick whether that process is.
	Claimant *Process  `json:"claimed_by,omitempty"`
	Claimed  time.Time `json:"claimed,omitzero"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Alive    bool      `json:"alive,omitempty"`
	Reruns   int       `json:"reruns,omitempty"`
	// Spaced says of a key without a schedule that runs of it used --once-per DURATION.
	Spaced bool `json:"once_per_duration,omitempty"`
	// Blocker is who had the job's lease, of a skipped tick; or who has it, of a tick that waits for it and of a key
	// without a schedule.
	Blocker *Blocker `json:"held_by,omitempty"`
	// Replaced is the tick for which a run of this one was stopped.
	Replaced *Newcomer `json:"replaced_by,omitempty"`
	// Hosts are those that started something in this store shortly before a missed tick, or while it
	// could start.
	Hosts []Sighting `json:"hosts,omitempty"`
	// Differs is when servers said that they fire nothing of the job, holding another definition.
	Differs []Remark `json:"manifest_differs,omitempty"`
	// Remarks are the events of the tick.
	Remarks []Remark `json:"events,omitempty"`
	// Previous and Next are the ticks beside it.
	Previous time.Time `json:"previous,omitzero"`
	Next     time.Time `json:"next,omitzero"`

	// Runs are the tick's, Again those beside it in which a back-fill ran it once more, both oldest
	// first, and Zone the job's, for people.
	Runs, Again []run.Record   `json:"-"`
	Zone        *time.Location `json:"-"`
	// Serving is who serves the job's app now; nobody, where that was not asked.
	Serving fleet.Service `json:"-"`
}

// CaughtUp says whether the tick was run only after its time to start, by no one's hand.
func (a *Account) CaughtUp() bool {
	return run.Outcome(a.Outcome).Ran() && a.Reruns == 0 && !a.StartBy.IsZero() && a.Claimed.After(a.StartBy) && len(a.Runs) > 0 && a.Runs[0].Cause == nil
}

// Filled says whether a back-fill ran the tick, which lies before the definition, as one of it.
func (a *Account) Filled() bool {
	return slices.ContainsFunc(a.Runs, func(r run.Record) bool {
		return r.Cause != nil && r.Cause.Backfill != "" && !r.Started.Before(a.Since)
	})
}

// A Process is one, as people look for it.
type Process struct {
	Host string `json:"host"`
	PID  int    `json:"pid,omitempty"`
}

// A Blocker had the lease. Inferred: no event names it, but its run was at work at the time.
type Blocker struct {
	Holder   string      `json:"holder"`
	Since    time.Time   `json:"since,omitzero"`
	RunID    string      `json:"run_id,omitempty"`
	Outcome  run.Outcome `json:"run_outcome,omitempty"`
	Ended    time.Time   `json:"run_ended,omitzero"`
	Inferred bool        `json:"inferred,omitempty"`
}

// A Newcomer asked a run to stop (promise 13).
type Newcomer struct {
	Tick  time.Time `json:"tick,omitzero"`
	RunID string    `json:"run_id,omitempty"`
	Host  string    `json:"host,omitempty"`
	At    time.Time `json:"at"`
}

// A Sighting is the last start on a host before the tick, and the first one while it could start.
type Sighting struct {
	Host   string    `json:"host"`
	Before time.Time `json:"last_start_before,omitzero"`
	After  time.Time `json:"first_start_after,omitzero"`
}

// A Remark is an event.
type Remark struct {
	At     time.Time `json:"at"`
	Event  string    `json:"event"`
	Host   string    `json:"host,omitempty"`
	Reason string    `json:"reason,omitempty"`
}
