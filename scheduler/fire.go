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

// A Fire is one fire of a job: what to run once, under which lease and policy.
type Fire struct {
	// Key is the job's name and the key of its lease.
	Key lease.Key
	// Tick is its scheduled instant and Claim the lease under which it was claimed; zero for a
	// run without a tick.
	Tick  time.Time
	Claim lease.Ref
	// Again means that the tick's run crashed, and that it is run again.
	Again bool

	Target run.Target
	Policy job.Policy
	Limits run.Limits
	// Command describes the work to people who look at the lease.
	Command string
	// Holder completes Backend.Self for the run with this id, before the lease is acquired: compute it and return.
	// Nil: nothing to add.
	Holder func(key lease.Key, runID string) lease.Holder
	// RunID is the id of the run. Default: a new one.
	RunID string
	// IdempotencyKey is passed to the work, so that it can recognise a repetition (rule T3). Default: a key that is
	// stable per tick; without a tick, the run's id.
	IdempotencyKey string
	// Previous tells the work when the job succeeded last, if history answers in time.
	Previous bool
	// Wait is how long to wait for the lease under Forbid, as in lease.Want.
	Wait time.Duration
	// StartBy is the store instant until which a tick that the store did not let begin is tried again. Zero: it is
	// tried once. The time in which the store holds grants back is added to it.
	StartBy time.Time
	// Late means that the tick is run after all: it waits for the lease for as long as it takes, is not skipped, and
	// asks no run to stop, whatever the policy (except Allow, which does not wait).
	Late bool
	// Cause is the run's: who asked for it, if no schedule did.
	Cause *run.Cause
	// Accept, when it ends, stops the wait for the lease, but not a run. Default: Fire's context.
	Accept context.Context
	// Output receives what the work prints, one Write at a time. A slow one slows the work down. If a Write takes
	// longer than a second, the work no longer waits: what it prints until the Write returns is dropped, and the log
	// says how much. A Write that has not returned by the end of the fire continues beside it. An Output that is a
	// run.Streams gets a command's standard error apart, if it wants to. Default: nowhere.
	Output io.Writer
	// When, if not nil, is called once to decide whether to run the tick that was won: false skips it. It is not
	// called again for a run that crashed, nor for a run without a tick. No lease is held meanwhile, but the tick
	// waits for the answer: it must come soon after the context has ended. An error, beside false, says that this host
	// could not ask, so that another one may.
	When func(context.Context) (bool, error)
	// Due, if not nil, is called once the lease is acquired, however long that took, and before the start is
	// recorded: an error ends the fire, and nothing is started. The lease is held meanwhile: bound the call.
	Due func(context.Context) error
	// Gate, for a run without a tick, is a lease that must be live at its start, in addition to the run's own: then
	// what was found to be due under it still is. Zero: there is none.
	Gate lease.Ref
	// OnStart is the first part of the work: it is called under the lease, and nothing is executed before it has
	// returned. To be notified only, use Backend.Hooks.
	OnStart func(run.Record)

	// others means that other servers may do the work if it cannot be started here.
	others bool
}

// Result is the result of a Fire.
type Result struct {
	// Run is the run's record with its outcome; its ID is empty if nothing was started.
	Run run.Record
	// Outcome is the tick's: that of the run, or why there was none.
	Outcome run.Outcome
	Reason  string
	// Held says who had the lease if Outcome is Skipped.
	Held *lease.HeldError
	// Taken is set when another server took the tick over before the start.
	Taken *tick.Tick
	// Err is an error of dibs or of the store; the work's own is in Run.
	Err error

	again bool // the store kept it from being started, for certain: it can be tried again
	// anew is the tick if a run of it was recorded but nothing was executed, and this process has claimed it once
	// more: it must be fired again, as another run.
	anew *tick.Tick
	// fault says why this host could start nothing. If handedOver is true, the tick was given to the other servers.
	fault      error
	handedOver bool
}
