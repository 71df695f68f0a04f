// Package history reads what happened: ticks with their runs, what the runs printed, and events.
//
// A program gets a [Store] from an opened store, and asks it with a [Query]: Ticks, Runs and Events, the latest
// first. [Join] makes one list of ticks and runs. `dibs history` and the dashboard show nothing else.
//
// History decides nothing. The rows of ticks and runs are written through tick.Store; output and events are written
// here, after the fact, and no work waits for them.
package history

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Store is the contract that a store implements to keep the history.
//
// All methods are safe for concurrent use. None retries. Errors wrap lease.ErrUnavailable if the store does not
// answer. A reader may be a moment behind a writer of another process, never behind one of its own.
type Store interface {
	// Append adds events. The store sets At if it is zero, and the ID. An event that comes with an ID was recorded
	// elsewhere first, and has its At: it is inserted or, if it is there already, ignored. Readers get the store's
	// own ID.
	Append(ctx context.Context, events []Event) error
	// Events returns events, newest first.
	Events(ctx context.Context, q Query) ([]Event, error)

	// Output stores what a run printed, replacing earlier output of the run; the caller bounds it (at most 1 MiB).
	Output(ctx context.Context, runID string, output []byte) error
	// ReadOutput returns the stored output, at most MaxOutput of it; nil if there is none.
	ReadOutput(ctx context.Context, runID string) ([]byte, error)

	// Ticks returns rows of ticks, the latest At first. With a Job and a Limit of up to Snapshot, all rows are read
	// at one instant: a range that is split meanwhile is returned either as it was before or as it is then.
	Ticks(ctx context.Context, q Query) ([]tick.Tick, error)
	// Runs returns runs, the latest start first: those with a tick and those without.
	Runs(ctx context.Context, q Query) ([]run.Record, error)

	// Latest returns the n latest runs of each job, as Runs does for one: answer i for job i. Jobs that are due at
	// the same time share one call. Any number of jobs is allowed; n is 1 to 100.
	Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error)

	// LatestTicks returns the n latest rows of ticks of each job, as Ticks does for one: answer i for job i. Any
	// number of jobs is allowed; n is 1 to 100.
	LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error)

	// AppendRuns adds finished runs without a tick that were recorded elsewhere first (the embedded directory's
	// journal, a host's spool). By run id, it inserts a run or ignores it.
	AppendRuns(ctx context.Context, runs []run.Record) error

	// AppendTicks adds closed ticks that were recorded elsewhere first, of jobs that no process claims here: insert
	// or replace, by job and instant. Their Lease is not kept.
	AppendTicks(ctx context.Context, ticks []tick.Tick) error

	// Prune does one bounded step of deleting what is older than before: at most Step closed ticks, Step ended runs
	// with their output, and Step events. It never deletes a tick above its job's mark. It returns how many rows it
	// deleted, and whether there may be more.
	Prune(ctx context.Context, before time.Time) (n int, more bool, err error)

	// PruneOutputs deletes outputs of a job's runs and keeps the runs. It looks at the Step runs that started before
	// the newest keep runs, and returns how many outputs it deleted. If it deleted any, older ones may be left: look
	// at the next Step runs with keep+Step.
	PruneOutputs(ctx context.Context, job string, keep int) (int, error)
}

// Step bounds what one step deletes: a step must never delay a heartbeat.
const Step = 100

// MaxOutput is how much of an output is read, in bytes: more than that is nobody's of ours, and takes no memory here.
const MaxOutput = 1 << 20

// Snapshot is the most ticks of a job that Store.Ticks reads at one instant.
const Snapshot = 500

// Query selects rows. The zero Query selects everything, up to the default limit.
type Query struct {
	// Job is an exact name; "" for all.
	Job string
	// RunID selects one run (Runs and Events).
	RunID string
	// From and To bound the tick (Ticks; a range row counts if any of it lies inside), the start
	// (Runs) or the instant (Events): [From, To). Zero: unbounded.
	From, To time.Time
	// Limit is the most rows, 1 to 10,000. Default 100.
	Limit int
}

// Max returns the effective limit of q.
func (q Query) Max() int {
	if q.Limit <= 0 {
		return 100
	}
	return min(q.Limit, 10_000)
}

// Event is something that happened and that nobody should have to guess (promise 24).
type Event struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Kind   string    `json:"event"`         // such as lease-broken, manifest-differs, clock-step
	Key    string    `json:"key,omitempty"` // the lease
	Job    string    `json:"job,omitempty"` // the job
	Tick   time.Time `json:"tick,omitzero"` // its tick
	RunID  string    `json:"run_id,omitempty"`
	Host   string    `json:"host,omitempty"`   // where it was seen
	Reason string    `json:"reason,omitempty"` // in words
}
