package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// view is what a sweep knows about a job: its registration when it was last read, and what the store found to be
// owed. So the sweep sends no request about a job that needs nothing. Only the sweep uses it.
type view struct {
	known  standing
	open   *entry    // the oldest of the job's definitions that has ticks above known.Mark; nil: none
	openAt time.Time // the first of these

	// Of this sweep. If one of these is set, the entry is in maintainer.noted, by which the next sweep clears it.
	lost     []tick.Tick // run again, where that is asked for
	cutOff   bool        // some of this definition may have to be caught up on
	foreseen bool        // some ended ahead of the store's clock

	// later is when a job is looked at again whose mark cannot pass a run in progress, and pause how long that was
	// postponed.
	later time.Time
	pause time.Duration
}

// standing is what matters of a registration from one sweep to the next.
type standing struct {
	generation  int64
	since, mark time.Time
	removed     bool
	pause       *tick.Pause // nil: there never was one
}

func standingOf(k tick.Job) standing {
	s := standing{generation: k.Generation, since: k.Since, mark: k.Mark, removed: !k.Removed.IsZero()}
	if p := k.Pause; p != (tick.Pause{}) {
		s.pause = &p
	}
	return s
}

// ahead reports whether something about a job is ahead of the store's clock, and must be taken back.
func (s standing) ahead(now time.Time) bool {
	return !s.removed && markAhead(s.mark, now) > 0 || s.pause != nil && pausedAhead(*s.pause, now) || s.since.After(now.Add(lease.MaxStep))
}

// refresh stores how the job is registered now.
func (e *entry) refresh(registered tick.Job) {
	k := standingOf(registered)
	if e.known.mark.Equal(k.mark) && e.known.generation == k.generation {
		e.known = k
		return
	}
	e.view = view{known: k, lost: e.lost, cutOff: e.cutOff, foreseen: e.foreseen}
	for x := range e.line() {
		if at, ok := x.Set().Next(k.mark); ok {
			e.open, e.openAt = x, at
			break
		}
	}
}

// maintainer accounts for its jobs' ticks that are over, and runs what is owed. Only the sweep uses it.
type maintainer struct {
	*Server
	owing tick.Spot // where it goes on among the ticks that are owed
	noted []*entry  // in which the last sweep found something
	read  string    // and in the registry
}

// maintainAll looks after the jobs that need something, and reads one step of the registry. So it finds, in time,
// changes that nobody announced, such as another server's definition.
func (m *maintainer) maintainAll(ctx, accept, work context.Context, jobs map[string]*entry) error {
	fresh := map[string]tick.Job{} // after the entries, which must not be newer
	if err := m.readOn(ctx, jobs, fresh); err != nil {
		return err
	}
	if err := m.owed(ctx, jobs); err != nil {
		return err
	}
	todo := m.todo(jobs)
	if err := m.readAnew(ctx, todo, fresh); err != nil {
		return err
	}
	enough, cancel := context.WithTimeout(ctx, m.sweeper.every())
	defer cancel()
	var failed error
	for _, e := range todo {
		if enough.Err() != nil {
			break // the next sweep goes on
		}
		if k, there := fresh[e.Spec.Key()]; there && k.Removed.IsZero() {
			failed = errors.Join(failed, m.maintain(ctx, accept, work, e, k))
		}
	}
	return failed
}

// readOn reads the next step of the app's registry.
func (m *maintainer) readOn(ctx context.Context, jobs map[string]*entry, fresh map[string]tick.Job) error {
	q := tick.JobQuery{Prefix: m.app + "/", After: m.read}
	page, err := m.b.Ticks.Jobs(ctx, q)
	if err != nil {
		return fmt.Errorf("read the registered jobs at %s: %w", m.b.Name, err)
	}
	if m.read = ""; len(page) == q.Max() {
		m.read = page[len(page)-1].Name
	}
	m.refresh(page, jobs, fresh)
	return nil
}

func (m *maintainer) refresh(page []tick.Job, jobs map[string]*entry, fresh map[string]tick.Job) {
	for _, k := range page {
		fresh[k.Name] = k
		if e := jobs[k.Name]; e != nil {
			e.refresh(k)
		}
	}
}

// readAnew reads those of some jobs that were not read yet: nothing is decided by an old registration.
func (m *maintainer) readAnew(ctx context.Context, some []*entry, fresh map[string]tick.Job) error {
	var names []string
	jobs := map[string]*entry{}
	for _, e := range some {
		if _, there := fresh[e.Spec.Key()]; !there {
			names, jobs[e.Spec.Key()] = append(names, e.Spec.Key()), e
		}
	}
	if len(names) == 0 {
		return nil
	}
	page, err := m.b.Ticks.Jobs(ctx, tick.JobQuery{Names: names})
	if err != nil {
		return fmt.Errorf("read the registered jobs at %s: %w", m.b.Name, err)
	}
	m.refresh(page, jobs, fresh)
	return nil
}

// todo returns the jobs that need something, as many as one step reads: first those of which something must run,
// then the others, by how long they have waited.
func (m *maintainer) todo(jobs map[string]*entry) (todo []*entry) {
	now := m.b.passed()
	for e := range maps.Values(jobs) {
		if !e.differs.Load() && e.due(m.b, now) {
			todo = append(todo, e)
		}
	}
	slices.SortStableFunc(todo, func(a, b *entry) int {
		if x, y := a.urgent(now), b.urgent(now); x != y {
			if x {
				return -1
			}
			return 1
		}
		return a.openAt.Compare(b.openAt)
	})
	return todo[:min(len(todo), tick.MaxRows)]
}

// maintain accounts for the ticks of one job that are over, by its registration of a moment ago.
func (m *maintainer) maintain(ctx, accept, work context.Context, e *entry, known tick.Job) error {
	now := m.b.passed()
	switch {
	case e.differs.Load():
		return nil
	case known.Generation != e.generation || !known.Since.Equal(e.since): // its ticks are not to be settled by our schedule
		m.doubt(e)
		return nil
	case !e.due(m.b, now):
		return nil // another process was faster
	}
	if e.foreseen || standingOf(known).ahead(now) {
		if again, err := m.unsettler.unsettle(ctx, known, e.Set(), 0); again || err != nil {
			return err // the next sweep goes on
		}
	}
	if err := m.runAgain(ctx, accept, work, e, known); err != nil {
		return err
	}
	for x := range e.line() {
		if x.former != nil && x.former.done && !x.cutOff {
			continue
		}
		if busy, err := m.catchUps.catchUp(ctx, accept, work, x, x.as(known)); busy || err != nil {
			return err
		}
	}
	return m.settleLine(ctx, e, known)
}

// settleLine settles what is over of the oldest of a job's definitions that has open ticks; the next sweep does the
// later ones.
func (m *maintainer) settleLine(ctx context.Context, e *entry, known tick.Job) error {
	for _, x := range e.past {
		if _, open := x.Set().Next(known.Mark); !open {
			x.former.done = true // nothing of it is to be caught up on either
			continue
		}
		return m.settleOne(ctx, e, x, known)
	}
	return m.settleOne(ctx, e, e, known)
}

func (m *maintainer) settleOne(ctx context.Context, e, x *entry, known tick.Job) error {
	done, err := m.settler.settle(ctx, x.as(known), x.Set(), m.settler.tooLate(x.Job))
	m.Stats.settled.Add(int64(done.rows))
	if e.later = (time.Time{}); done.stuck {
		e.pause = min(max(2*e.pause, 2*m.sweeper.every()), stuckTTLs*m.b.Keeper.Margin().TTL)
		e.later = m.b.passed().Add(e.pause)
	}
	return err
}

// stuckTTLs bounds, in TTLs, how long a mark that an unfinished tick holds back is left alone.
const stuckTTLs = 4

// runAgain runs again, once, the ticks of a job whose run was lost, crashed, or was canceled because its server was
// shut down, if the job asks for that (rule T3).
func (m *maintainer) runAgain(ctx, accept, work context.Context, e *entry, known tick.Job) error {
	if e.Dormant || accept.Err() != nil || known.Pause.Covers(m.b.now()) {
		return nil // nothing is begun in a pause
	}
	for _, t := range slices.Backward(e.lost) { // the oldest first
		if err := m.adopter.takeOver(ctx, accept, work, e.of(t.At), t, true); err != nil {
			return err
		}
	}
	return nil
}
