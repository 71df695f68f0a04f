package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// unsettler takes back what was settled ahead of the store's clock, which was fast (rule L12).
type unsettler struct {
	b        *Backend
	registry *registry
	recorder *recorder
}

// premature reports whether a refused tick must be requested again: the store's clock has not reached it, or it got
// its outcome before its time by a clock that was fast. premature takes back such an outcome, if that is allowed.
func (s *unsettler) premature(ctx context.Context, w tick.Want, a tick.Answer) bool {
	if a.Status == tick.Early {
		return true
	}
	concluded := a.Status == tick.Taken && foreseen(a.Tick, a.Now)
	unclaimed := a.Status == tick.Taken && a.Tick.State == tick.Closed && a.Tick.Claimed.IsZero()
	refused := a.Status == tick.Settled || a.Status == tick.Paused || unclaimed || concluded
	if !refused || a.Now.After(s.b.Keeper.Extend(w.At, w.StartBy)) {
		return false // it may well have been settled in its time
	}
	known, ok, err := s.registry.registered(ctx, w.Job)
	if err != nil || !ok {
		return false
	}
	ahead := concluded || Ahead(known, a.Now) > 0
	if a.Status == tick.Paused {
		ahead = pausedAhead(known.Pause, a.Now)
	}
	if !ahead {
		return false
	}
	s.try(ctx, known, a.Now.Sub(w.At)+lease.MaxStep) // the tick itself as well
	return true
}

// pausedAhead and foreseen are Pause.Ahead and Tick.Foreseen by more than two readings of one clock may differ.
func pausedAhead(p tick.Pause, now time.Time) bool { return p.Ahead(now.Add(lease.MaxStep)) }

func foreseen(t tick.Tick, now time.Time) bool { return t.Foreseen(now.Add(lease.MaxStep)) }

func (s *unsettler) try(ctx context.Context, known tick.Job, since time.Duration) {
	if _, set, err := Registered(known); err == nil {
		if _, err := s.unsettle(ctx, known, set, since); err != nil {
			s.b.log().Warn("ticks that were settled ahead of the store's clock could not be corrected", "job", known.Name, "error", err)
		}
	}
}

// endSilence waits until neither the job's mark or pause, nor its tick, is ahead of the store's clock any more, for
// at most twice the minute after which a process takes that back. A tick with less time to start is then lost; but
// if none of the processes that work on the job waited, nothing would run until the clock has caught up.
func (s *unsettler) endSilence(ctx context.Context, w tick.Want) {
	ctx, cancel := context.WithTimeout(ctx, 2*lease.StepQuiet)
	defer cancel()
	for s.b.again(ctx, w.At, tick.Settled) {
		known, ok, err := s.registry.registered(ctx, w.Job)
		switch {
		case err != nil:
		case !ok || Ahead(known, s.b.passed()) == 0 && !pausedAhead(known.Pause, s.b.passed()) && !s.closedAhead(ctx, w):
			return
		default:
			s.try(ctx, known, 0)
		}
	}
}

// closedAhead reports whether a tick has an outcome from before its time.
func (s *unsettler) closedAhead(ctx context.Context, w tick.Want) bool {
	rows, err := s.b.History.Ticks(ctx, history.Query{Job: w.Job, From: w.At, To: w.At.Add(time.Microsecond), Limit: 1})
	return err == nil && len(rows) == 1 && foreseen(rows[0], s.b.passed())
}

// Ahead returns how far a job is settled ahead of an instant of the store's clock; 0 if that is no more than two
// readings of one clock may differ. Its ticks up to there are refused: the clock was fast once, and is right again
// (rule L12).
func Ahead(known tick.Job, now time.Time) time.Duration {
	if !known.Removed.IsZero() {
		return 0
	}
	return markAhead(known.Mark, now)
}

func markAhead(mark, now time.Time) time.Duration {
	if d := mark.Sub(now); d > lease.MaxStep {
		return d
	}
	return 0
}

// AheadText returns Ahead in words for people; empty if it is 0.
func AheadText(known tick.Job, now time.Time) string {
	d := Ahead(known, now)
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("settled up to %s, %s ahead of the store's clock, which was once fast: none of its ticks runs until this is corrected; "+
		"dibs serve and dibs run do so once the clock has been steady for a minute", stamp(known.Mark), d.Round(time.Second))
}
