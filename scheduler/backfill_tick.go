package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// one carries out one step.
func (f *backfilling) one(accept, work context.Context, s Step) (Step, Result) {
	if s.Do == Again {
		return s, f.beside(accept, work, s.At)
	}
	var t tick.Tick
	err := f.insist(accept, func() (err error) { s, t, err = f.take(accept, s); return err })
	switch {
	case err != nil:
		return s, Result{Err: err}
	case s.Do == Leave:
		return s, Result{}
	}
	x, done := f.job.fire(s.At)
	defer done()
	x.Claim, x.Accept, x.Late, x.Cause = t.Lease, accept, true, f.cause()
	res := f.execute(work, x)
	if res.Run.ID == "" && res.Outcome == "" && res.Taken == nil {
		f.giveBack(x, s)
	}
	return s, res
}

// giveBack ends a claim that was canceled before its start, so that the tick can be filled later.
func (f *backfilling) giveBack(x Fire, s Step) {
	outcome := run.Outcome(s.Was)
	if outcome == "" {
		outcome = run.Missed
	}
	_, _, _ = f.reporter.report(x.Accept, tick.CloseRequest{Claim: x.Claim, Run: run.Record{Job: string(x.Key), Tick: x.Tick, Owner: x.Claim.Owner,
		Token: x.Claim.Token, Host: f.b.Self.Host, Outcome: outcome, Reason: "a back-fill was ended before it started this tick"}}, nil)
}

func (f *backfilling) cause() *run.Cause {
	return &run.Cause{By: f.By, Why: f.Why, Backfill: f.ID}
}

// take gets the claim of a tick: the ordinary one if nobody has it, else that of a row which says that it never ran.
// The last state found decides; s describes it.
func (f *backfilling) take(ctx context.Context, s Step) (Step, tick.Tick, error) {
	name, settled := f.job.Spec.Key(), false
	for range 10 {
		known, row, err := f.read(ctx, s.At)
		if err != nil {
			return s, row, err
		}
		if f.ours(row) && !known.Pause.Covers(f.b.now()) {
			switch a, err := f.regain(ctx, row); {
			case err != nil:
				return s, row, err
			case a.Status == tick.Won:
				return s, a.Tick, nil
			}
			continue
		}
		parts, own := partition(f.job, row, s.At)
		if s = f.decide(f.job, s.At, row, own, known.Pause, f.b.now()); s.Do != Fill {
			s.Do = Leave // what has got a run meanwhile is not run once more
			return s, row, nil
		}
		var a tick.Answer
		switch {
		case row.State == "":
			a, err = f.b.Book.Claim(ctx, tick.Want{Job: name, At: s.At, Generation: f.generation, Fill: settled})
			settled = settled || a.Status == tick.Settled
		case !row.Through.IsZero():
			_, err = f.b.Ticks.Split(ctx, tick.SplitRequest{Row: row, Parts: parts})
		default:
			a, err = f.b.Book.Fill(ctx, row)
		}
		switch {
		case err != nil:
			return s, row, err
		case a.Status == tick.Won:
			return s, a.Tick, nil
		case a.Status == tick.Differs:
			return s, row, fmt.Errorf("%s: %w", name, ErrOtherDefinition)
		}
	}
	s.Do, s.Why = Leave, "others are at it"
	return s, tick.Tick{}, nil
}

// ours reports whether a row is a claim of this process. Then an earlier try of this very step made it, and the
// answer was lost: no other step asks for that tick.
func (f *backfilling) ours(row tick.Tick) bool {
	was, self := row.Claimant, f.b.Self
	return row.State == tick.Claimed && was.Host == self.Host && was.PID == self.PID && was.Command == self.Command
}

// regain continues with a claim of this process. If its lease was lost meanwhile, it is taken over once it has
// lapsed, like any other.
func (f *backfilling) regain(ctx context.Context, row tick.Tick) (tick.Answer, error) {
	server, err := f.b.Book.Server(ctx)
	switch {
	case err != nil:
		return tick.Answer{}, err
	case row.Lease == server.Ref():
		return tick.Answer{Status: tick.Won, Tick: row}, nil
	case row.Live:
		return tick.Answer{}, fmt.Errorf("%w: an earlier claim of this process has not expired", lease.ErrUnavailable)
	}
	return f.b.Book.Take(ctx, row, false)
}

// known is the registration of the job.
func (f *backfilling) known(ctx context.Context) (tick.Job, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, f.b.Keeper.Margin().TTL)
	defer cancel()
	known, ok, err := f.registry.registered(ctx, f.job.Spec.Key())
	if err != nil {
		return known, ok, unavailable(err)
	}
	return known, ok, nil
}

// read reads the registration, and the row that accounts for a tick; the zero row where there is none.
func (f *backfilling) read(ctx context.Context, at time.Time) (tick.Job, tick.Tick, error) {
	ctx, cancel := context.WithTimeout(ctx, f.b.Keeper.Margin().TTL) // a silent store must not hold it for ever
	defer cancel()
	known, ok, err := f.known(ctx)
	switch {
	case err != nil:
		return known, tick.Tick{}, err
	case !ok:
		return known, tick.Tick{}, fmt.Errorf("%s: %w in %s", f.job.Spec.Key(), ErrUnknownJob, f.b.Name)
	}
	rows, err := f.b.History.Ticks(ctx, history.Query{Job: f.job.Spec.Key(), From: at, To: at.Add(time.Microsecond), Limit: 2})
	if err != nil {
		return known, tick.Tick{}, fmt.Errorf("read the tick %s of %s: %w", stamp(at), f.job.Spec.Key(), unavailable(err))
	}
	return known, rowOf(at, rows), nil
}

func rowOf(at time.Time, rows []tick.Tick) tick.Tick {
	for _, r := range rows {
		if r.At.Equal(at) || !r.Through.IsZero() && !at.Before(r.At) && !at.After(r.Through) {
			return r
		}
	}
	return tick.Tick{}
}
