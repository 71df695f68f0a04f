package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// catchUp runs the ticks of a job that nobody was there for, where its policy asks for that: the
// oldest first, one at a time, each as the ordinary tick that it is (rule T8). It reports false
// where there is nothing to run, so that what is left can be settled as missed.
func (s *Server) catchUp(ctx, accept, work context.Context, e *entry, known tick.Job) (bool, error) {
	if e.Spec.Policy.CatchUp != job.CatchUpLatest && e.Spec.Policy.CatchUp != job.CatchUpAll || accept.Err() != nil {
		return false, nil
	}
	if e.Dormant {
		return true, nil // for those who run it
	}
	if known.Pause.Covers(s.place.now()) {
		return true, nil // what was missed before the pause waits for its end
	}
	due, rows, err := s.place.open(ctx, known, e.Set, s.place.tooLate(e.Job))
	if err != nil {
		return false, err
	}
	missed := slices.DeleteFunc(tick.Unaccounted(due, rows), func(at time.Time) bool { return known.Pause.Covers(at) || !e.Open(at) })
	todo := within(missed, s.place.now().Add(-e.Spec.Policy.CatchUpWindow), e.Spec.Policy.CatchUp)
	if len(todo) == 0 {
		return false, nil
	}
	if _, err := s.place.settle(ctx, known, e.Set, func(at time.Time) bool { return at.Before(todo[0]) }); err != nil {
		return true, err
	}
	// One server at a time catches up on a job: a lease beside its key says who.
	turn, err := s.place.Keeper.Acquire(ctx, lease.Want{Key: e.key().CatchUp(), Holder: s.place.Self, Gone: s.place.Gone})
	if err != nil {
		return true, nil //nolint:nilerr // another server is at it, or the store is down, which others report
	}
	s.fires.Go(func() {
		defer turn.Release(context.WithoutCancel(ctx)) //nolint:errcheck // it lapses by itself
		for _, at := range todo {
			select {
			case <-turn.Lost():
				return
			default:
			}
			s.catchUpOn(accept, work, e, at)
		}
	})
	return true, nil
}

// within keeps what the window and the policy leave of the ticks that were missed.
func within(missed []time.Time, from time.Time, policy job.CatchUp) []time.Time {
	for len(missed) > 0 && missed[0].Before(from) {
		missed = missed[1:]
	}
	if n := len(missed); policy == job.CatchUpLatest && n > 1 {
		return missed[n-1:]
	}
	return missed
}

func (s *Server) catchUpOn(accept, work context.Context, e *entry, at time.Time) {
	if accept.Err() != nil {
		return
	}
	a, err := s.place.Book.Claim(accept, tick.Want{Job: e.Spec.Key(), At: at, Generation: e.generation})
	if err != nil || a.Status != tick.Won {
		return // the next sweep looks again
	}
	s.log.Info("catching up on a missed tick", "event", "catch-up", "job", e.key(), "tick", stamp(at))
	s.carryOut(accept, work, e, a.Tick, -1)
}

// rerunEnded runs again, once, the ticks of a job whose run was lost, crashed, or was canceled
// because its server was shut down, where the job asks for that (rule T3).
func (s *Server) rerunEnded(ctx, accept, work context.Context, e *entry) error {
	if e.Spec.Policy.OnCrash != job.CrashRerun || e.Dormant || accept.Err() != nil {
		return nil
	}
	rows, err := s.place.recent(ctx, e.Spec.Key(), e.Spec.Policy.CatchUpWindow)
	if err != nil {
		return err
	}
	for _, t := range rows {
		if t.State == tick.Closed && t.Reruns < maxReruns && mayRerun(t) {
			if err := s.takeOver(ctx, accept, work, e, t, true); err != nil {
				return err
			}
		}
	}
	return nil
}

func mayRerun(t tick.Tick) bool {
	switch t.Outcome {
	case run.Lost, run.Crashed:
		return true
	case run.Canceled:
		return t.Reason == run.ReasonShutdown
	}
	return false
}
