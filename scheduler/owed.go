package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// owed notes for each job what the store finds to be owed: the latest ticks in each sweep, and if there are many,
// one more step of the others.
func (m *maintainer) owed(ctx context.Context, jobs map[string]*entry) error {
	for _, e := range m.noted {
		e.lost, e.foreseen, e.cutOff = nil, false, false
	}
	m.noted = nil
	m.mu.Lock()
	since := max(m.lookback, waited+lease.MaxStep) // what a clock that was fast may have ended
	m.mu.Unlock()
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
				m.noted = append(m.noted, e, e.of(t.At))
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
		x.cutOff = x.cutOff || !t.At.Before(from) && !t.At.Before(x.since) && !t.At.Before(x.scanned.Load().time())
	}
}

// due reports whether something must be done.
func (e *entry) due(b *Backend, now time.Time) bool {
	switch {
	case e.known.generation != e.generation, !e.known.since.Equal(e.since), e.urgent(now):
		return true
	}
	// The same as tooLate, by a clock that is read once for all jobs: there may be a million, and most need no more
	// than a look at openAt.
	by := now.Add(-b.Keeper.Margin().TTL)
	return e.open != nil && e.openAt.Before(by) && e.open.StartBy(e.openAt).Before(by) && !now.Before(e.later)
}

// urgent reports whether something must be run, or taken back, which is more than a mark that is behind.
func (e *entry) urgent(now time.Time) bool {
	if e.foreseen || len(e.lost) > 0 || e.known.ahead(now) {
		return true
	}
	for x := range e.line() {
		if x.cutOff {
			return true
		}
	}
	return false
}

// lookback returns how far back something may be owed under the entry's definition.
func (e *entry) lookback() time.Duration {
	if e.Spec.Policy.OnCrash == job.CrashRerun || e.catchesUp() {
		return e.Spec.Policy.CatchUpWindow
	}
	return 0
}
