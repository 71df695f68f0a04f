package scheduler

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// notStarted returns the result of a start that was not acknowledged.
func notStarted(err error) Result {
	return Result{Outcome: run.Unavailable, Reason: "the start could not be recorded: " + err.Error(), Err: err}
}

// refusedStart returns the result of a start that was certainly not carried out.
func refusedStart(err error) Result {
	res := notStarted(err)
	res.again = true
	return res
}

// disown reports that a run was not executed whose start was not acknowledged: it may have been carried out. If it
// was not, the store has no such run, and the report has no effect: a tick that is still claimed for this process
// can then begin again. As long as it may, the report is repeated.
func (x *execution) disown(ctx context.Context, l *lease.Lease, rec run.Record, cause error) Result {
	rec.Outcome, rec.Reason = unexecuted(x.Policy), clean("nothing was executed: the start was not answered: "+cause.Error())
	rec.Ended = x.b.now().Truncate(time.Microsecond)
	patience := max(x.lastStart().Sub(x.b.now()), x.b.Keeper.Margin().RPCTimeout)
	l.Ending()
	a, what, err := x.reporter.reportFor(ctx, tick.CloseRequest{Run: rec, Claim: l.Ref(), Release: l.Ref()}, nil, patience)
	res := notStarted(cause)
	switch {
	case err != nil || a.Status == 0: // it is in the log, or in the spool
	case a.Status == tick.Won:
		if res.anew = x.anew(ctx, l.Ref()); res.anew == nil {
			x.notifier.outcome(what, rec, "", nil)
		}
	case !x.Tick.IsZero() && a.Tick.State == tick.Claimed && a.Tick.Lease == x.Claim:
		res.again = true
	case !x.Tick.IsZero() && a.Tick.State != "" && a.Tick.RunID != rec.ID:
		return Result{Taken: &a.Tick}
	}
	return res
}

// anew claims once more a tick that ended as unavailable because nothing was executed of the run that was recorded
// under a lease, as long as its time to start is not over. Only one process can win that (rule T8).
func (x *execution) anew(ctx context.Context, of lease.Ref) *tick.Tick {
	if x.Tick.IsZero() || x.Again || !x.b.now().Before(x.lastStart()) || x.Accept.Err() != nil {
		return nil
	}
	if known, ok, err := x.registry.registered(ctx, string(x.Key)); err != nil || !ok || known.Pause.Covers(x.b.now()) {
		return nil
	}
	a, err := x.b.Book.Fill(ctx, tick.Tick{Job: string(x.Key), At: x.Tick, Lease: of})
	if err != nil || a.Status != tick.Won {
		return nil
	}
	x.b.log().Warn("nothing of this run was executed, and there is time left: the tick starts again", "event", "tick-anew",
		"job", x.Key, "tick", stamp(x.Tick), "run_id", x.RunID)
	return &a.Tick
}

// unexecuted returns the outcome of a run of which nothing was executed: there was no run to lose. A tick that is
// run again after a loss keeps its second chance, though.
func unexecuted(p job.Policy) run.Outcome {
	if p.OnCrash == job.CrashRerun {
		return run.Lost
	}
	return run.Unavailable
}
