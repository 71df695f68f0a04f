package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// beside runs a tick once more, as a run of its own that leaves the tick's outcome alone.
func (f *backfilling) beside(accept, work context.Context, at time.Time) Result {
	x, done := f.job.fire(time.Time{})
	defer done()
	cause := f.cause()
	cause.Again = at
	x.Accept, x.Late, x.Cause = accept, true, cause
	x.IdempotencyKey = idempotency(run.Record{Job: string(x.Key), Tick: at}) + "#" + f.ID
	var known tick.Job
	var ok bool
	switch err := f.insist(accept, func() (err error) { known, ok, err = f.known(accept); return err }); {
	case err != nil:
		return Result{Err: err}
	case !ok || known.Pause.Covers(f.b.now()):
		return Result{Outcome: run.Paused, Reason: PauseText(known.Pause)}
	}
	return f.execute(work, x)
}

// ranBefore are the ticks that were run beside their outcome under this back-fill's id.
func (f *backfilling) ranBefore(ctx context.Context) (map[int64]bool, error) {
	done := map[int64]bool{}
	for q := (history.Query{Job: f.job.Spec.Key(), Limit: settleBatch}); ; {
		runs, err := f.b.History.Runs(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read the runs of %s: %w", f.job.Spec.Key(), err)
		}
		for _, r := range runs {
			if c := r.Cause; c != nil && c.Backfill == f.ID && !c.Again.IsZero() && settledRun(r) {
				done[c.Again.UnixMicro()] = true
			}
		}
		if len(runs) < settleBatch || runs[len(runs)-1].Started.Equal(q.To) {
			return done, nil
		}
		q.To = runs[len(runs)-1].Started.Add(time.Microsecond)
	}
}

// settledRun reports whether a run came to an end of its own.
func settledRun(r run.Record) bool {
	return r.Outcome == run.Succeeded || r.Outcome == run.Failed || r.Outcome == run.TimedOut
}
