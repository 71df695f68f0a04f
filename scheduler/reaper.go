package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// reaper ends, or takes over, the ticks and runs whose process is gone (rules T2 and T3).
type reaper struct {
	b        *Backend
	recorder *recorder
	notifier *notifier
}

// take takes over a tick; it notifies of the run that crashed, if there was one that nobody knew of.
func (rp *reaper) take(ctx context.Context, t tick.Tick, rerun bool) (tick.Answer, error) {
	a, err := rp.b.Book.Take(ctx, t, rerun)
	if err != nil || a.Status != tick.Won || !rerun || t.State != tick.Started || !rp.b.told() {
		return a, err
	}
	// Others may have concluded the run since t was read; then they notify.
	switch r, ok, err := rp.runOf(ctx, t.RunID); {
	case err != nil:
		rp.b.log().Warn("the reports of a crash to hooks are dropped", "job", t.Job, "tick", stamp(t.At), "run_id", t.RunID, "error", err)
	case ok && r.Outcome == run.Crashed && r.Inferred && r.Reason == "":
		rp.notifier.crashed(t)
	}
	return a, nil
}

// crashed records the end of a run whose lease lapsed without an outcome. The run's own late report amends it.
func (rp *reaper) crashed(ctx context.Context, t tick.Tick) error {
	gone := fmt.Sprintf("%s lost its lease and did not report", t.Claimant)
	r := run.Record{ID: t.RunID, Job: t.Job, Tick: t.At, Owner: t.Lease.Owner, Token: t.Lease.Token, Host: t.Claimant.Host,
		Started: t.Started, Ended: rp.b.now(), Outcome: run.Crashed, Inferred: true, Reason: rp.concluded(gone)}
	a, err := rp.b.Book.Close(ctx, tick.CloseRequest{Claim: t.Lease, Run: r})
	if err != nil {
		return err
	}
	if mine, err := rp.stands(ctx, a, r); err != nil || !mine {
		return err
	}
	rp.recorder.event(ctx, history.Event{Kind: "run-crashed", Job: t.Job, Tick: t.At, RunID: t.RunID, Reason: gone})
	rp.notifier.ended(r, "", nil)
	return nil
}

// overdue closes a claim that nobody started in time: nothing ran, except the run before it if the tick was to be
// run again. If servers tried and could not start it, it ends with their reason.
func (rp *reaper) overdue(ctx context.Context, t tick.Tick) error {
	r := run.Record{Job: t.Job, Tick: t.At, Host: rp.b.Self.Host, Outcome: run.Missed,
		Reason: fmt.Sprintf("claimed by %s, which stopped or died before it started it", t.Claimant)}
	last, err := rp.lastRun(ctx, t.Job, t.At)
	switch {
	case err != nil:
		return err
	case t.Reruns > 0:
		r = notAgain(r, last)
	case last.Outcome == run.Unavailable: // servers tried, and none could start it
		r.Outcome, r.Reason = run.Unavailable, last.Reason
	}
	a, err := rp.b.Book.Take(ctx, t, false)
	if err != nil || a.Status != tick.Won {
		return err
	}
	r.Owner, r.Token = a.Tick.Lease.Owner, a.Tick.Lease.Token
	a, err = rp.b.Book.Close(ctx, tick.CloseRequest{Claim: a.Tick.Lease, Run: r})
	if err == nil && a.Status == tick.Won {
		rp.notifier.ended(r, "", nil)
	}
	return err
}

// runOf reads back a run.
func (rp *reaper) runOf(ctx context.Context, id string) (r run.Record, ok bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rp.b.Keeper.Margin().RPCTimeout)
	defer cancel()
	rows, err := rp.b.History.Runs(ctx, history.Query{RunID: id, Limit: 1})
	if err != nil {
		return r, false, fmt.Errorf("read back the run %s: %w", id, err)
	}
	if len(rows) == 0 {
		return r, false, nil
	}
	return rows[0], true, nil
}

// lastRun returns the latest run of a tick; zero if there is none any more.
func (rp *reaper) lastRun(ctx context.Context, name string, at time.Time) (run.Record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rp.b.Keeper.Margin().RPCTimeout)
	defer cancel()
	rows, err := rp.b.History.Runs(ctx, history.Query{Job: name, From: at.Add(-tick.Ahead), Limit: settleBatch})
	if err != nil {
		return run.Record{}, fmt.Errorf("read the runs of %s at %s: %w", name, stamp(at), err)
	}
	i := slices.IndexFunc(rows, func(r run.Record) bool { return r.Tick.Equal(at) })
	if i < 0 {
		return run.Record{}, nil
	}
	return rows[i], nil
}

// concluded returns the reason of a conclusion, by which this process recognises its own.
func (rp *reaper) concluded(reason string) string {
	return clean(fmt.Sprintf("%s (concluded by %s)", cmp.Or(reason, "it has ended"), rp.b.Self))
}

// stands reports whether the store has this very conclusion: of several equal ones, each is answered Won.
func (rp *reaper) stands(ctx context.Context, a tick.Answer, r run.Record) (bool, error) {
	switch {
	case a.Status != tick.Won:
		return false, nil
	case !r.Tick.IsZero():
		return a.Tick.RunID == r.ID && a.Tick.Inferred && a.Tick.Reason == r.Reason, nil
	}
	there, ok, err := rp.runOf(ctx, r.ID)
	return ok && there.Inferred && there.Reason == r.Reason, err
}
