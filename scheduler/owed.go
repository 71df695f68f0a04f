package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// owed notes for each job what the store finds to be owed: the latest ticks in each sweep, and if there are many,
// one more step of the others.
func (m *maintainer) owed(ctx context.Context, jobs map[string]*entry) error {
	since := waited + lease.MaxStep // what a clock that was fast may have ended
	for _, e := range jobs {
		e.lost, e.foreseen = nil, false
		for _, x := range e.line() {
			x.cutOff = false
			if x.Spec.Policy.OnCrash == job.CrashRerun || x.catchesUp() {
				since = max(since, x.Spec.Policy.CatchUpWindow)
			}
		}
	}
	now, met := m.b.passed(), map[tick.Spot]bool{} // a step may come to what the latest ones have
	look := tick.OwedLook{App: m.app, From: now.Add(-since)}
	for _, latest := range []bool{true, false} {
		found, err := m.b.Ticks.Owed(ctx, look)
		if err != nil {
			return fmt.Errorf("look for ticks that are owed: %w", err)
		}
		for _, t := range found.Ticks {
			if e := jobs[t.Job]; e != nil && !met[t.Spot()] {
				met[t.Spot()] = true
				e.owes(t, now)
			}
		}
		switch {
		case !found.More():
			m.owing = tick.Spot{}
			return nil
		case !latest:
			m.owing = found.Next
		case m.owing != tick.Spot{}:
			look.After = m.owing
		default:
			look.After = found.Next
		}
	}
	return nil
}

// owes notes an owed tick, if something must be done about it.
func (e *entry) owes(t tick.Tick, now time.Time) {
	switch x := e.of(t.At); {
	case foreseen(t, now) && t.At.After(now.Add(-waited)):
		e.foreseen = true
	case x.runsAgain(t, now):
		e.lost = append(e.lost, t)
	case x.catchesUp() && cutOff(t):
		from := now.Add(-x.Spec.Policy.CatchUpWindow)
		x.cutOff = x.cutOff || !t.At.Before(from) && !t.At.Before(x.definition.Since) && !t.At.Before(x.scanned.Load().time())
	}
}

// due reports whether something must be done.
func (e *entry) due(b *Backend, now time.Time) bool {
	switch {
	case e.known.Generation != e.generation, !e.known.Since.Equal(e.definition.Since), e.urgent(now):
		return true
	}
	// The same as tooLate, by a clock that is read once for all jobs: there may be a million.
	return e.open != nil && e.open.StartBy(e.openAt).Before(now.Add(-b.Keeper.Margin().TTL)) && !now.Before(e.later)
}

// urgent reports whether something must be run, or taken back, which is more than a mark that is behind.
func (e *entry) urgent(now time.Time) bool {
	return e.foreseen || len(e.lost) > 0 || liesAhead(e.known, now) ||
		slices.ContainsFunc(e.line(), func(x *entry) bool { return x.cutOff })
}

// liesAhead reports whether something about a job is ahead of the store's clock, and must be taken back.
func liesAhead(k tick.Job, now time.Time) bool {
	return Ahead(k, now) > 0 || pausedAhead(k, now) || k.Since.After(now.Add(lease.MaxStep))
}
