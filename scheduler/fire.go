package scheduler

import (
	"context"
	"io"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A Fire is one fire of a job: what is to run once, under which lease and policy.
type Fire struct {
	// Key is the job's name and the key of its lease.
	Key lease.Key
	// Tick is its scheduled instant and Claim the lease under which it was claimed; zero for a
	// run without a tick.
	Tick  time.Time
	Claim lease.Ref
	// Again says that the tick's run crashed, and that it is run again.
	Again bool

	Target run.Target
	Policy job.Policy
	Limits run.Limits
	// Command describes the work to people who look at the lease.
	Command string
	// Holder completes what Backend.Self says, for the run with this id, before the lease is asked for: compute it and
	// return. Nil: nothing to add.
	Holder func(key lease.Key, runID string) lease.Holder
	// RunID of the run. Default: a new one.
	RunID string
	// IdempotencyKey is what the work is told, so that a repetition can be recognised (rule T3).
	// Default: one that is stable per tick; without a tick, the run's id.
	IdempotencyKey string
	// Previous has the work be told when the job succeeded last, as far as history tells in time.
	Previous bool
	// Wait is how long to wait for the lease under Forbid, as lease.Want has it.
	Wait time.Duration
	// StartBy is the store instant until which a tick that the store did not let begin is tried again.
	// Zero: it is tried once. The time in which the store holds grants back is added to it.
	StartBy time.Time
	// Late says that the tick is run after all: it waits for the lease for as long as it takes, skips
	// nothing and asks nobody to stop, whatever the policy (but for Allow, which waits for nobody).
	Late bool
	// Cause is the run's: who asked for it, if no schedule did.
	Cause *run.Cause
	// Accept ends the wait for the lease, though not a run, when it is done. Default: Fire's context.
	Accept context.Context
	// Output takes what the work prints, one Write at a time. A slow one slows the work down. One that takes
	// nothing for a second is waited for no longer: what is printed until it does is dropped, and the log says
	// how much. A Write that has not returned by the end of the fire goes on beside it. One that is a
	// run.Streams gets a command's standard error apart, if it wants to. Default: nowhere.
	Output io.Writer
	// When, where not nil, is asked once whether to run the tick that was won: false skips it. It is not asked
	// again for a run that crashed, nor of a run without a tick. No lease is held meanwhile, but the tick waits
	// for the answer: it must come soon once the context has ended.
	When func(context.Context) bool
	// Due, where not nil, is asked once the lease is had, after whatever wait that took, and before the start is
	// recorded: an error ends the fire, and nothing is started. The lease is held meanwhile: bound it.
	Due func(context.Context) error
	// Gate, of a run without a tick, is a lease that must be live at its start, beside the run's own: what was found
	// to be due under it still is then. Zero: there is none.
	Gate lease.Ref
	// OnStart is the first part of the work: it is called under the lease, and nothing is executed before it
	// has returned. Who only wants to know has Backend.Hooks.
	OnStart func(run.Record)
}

// Result is what became of a Fire.
type Result struct {
	// Run is the run's record with its outcome; its ID is empty if nothing was started.
	Run run.Record
	// Outcome is the tick's: that of the run, or why there was none.
	Outcome run.Outcome
	Reason  string
	// Held is who had the lease when Outcome is Skipped.
	Held *lease.HeldError
	// Taken is set when another server took the tick over before the start.
	Taken *tick.Tick
	// Err is an error of ours or of the store's; the work's own is in Run.
	Err error

	again bool // the store kept it from being started, for certain: it can be tried again
	// anew is the tick where a run of it was recorded and nothing executed, and this process has claimed it once more:
	// it is to be fired again, as another run.
	anew *tick.Tick
}
