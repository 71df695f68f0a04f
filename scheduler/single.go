package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Single carries out one tick for a process that serves nothing else: it claims the tick of w, and fires f if it
// won. The answer is the claim's; unless it is Won, nothing was started here and the result is empty. If the policy
// is to run again after a crash, a process that did not win stands by until the tick has an outcome (rule T3).
//
// The end of f.Accept ends the waiting, and the end of ctx the work. An error is the store's, or says that the
// waiting was ended; nothing was started then.
func (b *Backend) Single(ctx context.Context, w tick.Want, f Fire) (Result, tick.Answer, error) {
	if f.Accept == nil {
		f.Accept = ctx
	}
	p, silenced := b.parts(), false
	for {
		a, err := b.Book.Claim(f.Accept, w)
		switch {
		case err != nil:
			if silenced && errors.Is(err, tick.ErrTooLate) {
				p.unsettler.endSilence(f.Accept, w)
			}
			return Result{}, a, err
		case p.unsettler.premature(f.Accept, w, a):
			silenced = silenced || a.Status != tick.Early
			if !b.again(f.Accept, w.At, a.Status) {
				return Result{}, a, context.Cause(f.Accept)
			}
			continue
		case a.Status == tick.Won:
			f.Tick, f.Claim, f.Again, f.StartBy = w.At, a.Tick.Lease, a.Tick.Reruns > 0, w.StartBy
			res := b.Fire(ctx, f)
			for res.anew != nil {
				f.Claim, f.RunID = res.anew.Lease, run.NewID()
				res = b.Fire(ctx, f)
			}
			if res.Taken == nil {
				return res, a, nil
			}
			a.Status, a.Tick = tick.Taken, *res.Taken
		}
		again, err := p.reaper.standBy(f.Accept, f.Policy, a.Tick, &w)
		if err != nil || !again {
			return Result{}, a, err
		}
	}
}

// standBy waits, if a crash must be followed by another run, until the tick has an outcome, and takes over a run
// that crashed, was lost, or was canceled by a shutdown, within the catch-up window; also if the process that took
// it over died before it began. It returns true when the tick must be claimed again.
func (rp *reaper) standBy(ctx context.Context, policy job.Policy, t tick.Tick, w *tick.Want) (again bool, err error) {
	if policy.OnCrash != job.CrashRerun || t.Lease.Key == "" {
		return false, nil
	}
	for {
		rows, err := rp.b.History.Ticks(ctx, history.Query{Job: t.Job, From: t.At, To: t.At.Add(time.Microsecond), Limit: 1})
		if err != nil || len(rows) == 0 {
			return false, err
		}
		switch t = rows[0]; {
		case t.State == tick.Closed && !(mayRerun(t) && t.Reruns < maxReruns):
			return false, nil
		case (t.State != tick.Claimed || t.Reruns > 0) && policy.CatchUpWindow > 0 && rp.b.now().Sub(t.At) > policy.CatchUpWindow:
			return false, nil // also of one that is still at work: whatever becomes of it comes too late
		case t.State == tick.Closed, t.State == tick.Started && !t.Live && t.Reruns < maxReruns,
			t.State == tick.Claimed && !t.Live && t.Reruns > 0:
			a, err := rp.take(ctx, t, t.State != tick.Claimed)
			w.StartBy = time.Time{} // it was started in time; running it again has another bound (rule T3)
			return err == nil && a.Status == tick.Won, err
		case t.State == tick.Claimed && !t.Live:
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(min(rp.b.Keeper.Margin().Heartbeat, time.Second)):
		}
	}
}
