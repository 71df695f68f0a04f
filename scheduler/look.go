package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// What a sweep knows of a job lets it ask the store about none that has nothing to be done: how the job was registered
// when it was last read, and what the store found to be owed. It is the sweep's own.
type view struct {
	known  tick.Job
	open   *entry    // the oldest of the job's definitions that has ticks above known.Mark; nil: none
	openAt time.Time // the first of these

	// Of this sweep.
	lost     []tick.Tick // run again, where that is asked for
	cutOff   bool        // some of this definition may have to be caught up on
	foreseen bool        // some ended ahead of the store's clock

	// later is when a job is looked at again whose mark cannot pass a run that goes on, and pause how long that
	// was put off.
	later time.Time
	pause time.Duration
}

// saw takes in how the job is registered now.
func (e *entry) saw(k tick.Job) {
	if e.known.Mark.Equal(k.Mark) && e.known.Generation == k.Generation {
		e.known = k
		return
	}
	e.view = view{known: k, lost: e.lost, cutOff: e.cutOff, foreseen: e.foreseen}
	for _, x := range e.line() {
		if at, ok := x.Set().Next(k.Mark); ok {
			e.open, e.openAt = x, at
			break
		}
	}
}

// lookAround looks after the jobs that have something to be done, and reads one step of the registry: a change that
// nobody told of, such as another server's definition, is so found in the course of time.
func (s *Server) lookAround(ctx, accept, work context.Context, jobs map[string]*entry) error {
	fresh := map[string]tick.Job{} // after the entries, which must not be newer
	if err := s.readOn(ctx, jobs, fresh); err != nil {
		return err
	}
	if err := s.owed(ctx, jobs); err != nil {
		return err
	}
	todo := s.todo(jobs)
	if err := s.readAnew(ctx, todo, fresh); err != nil {
		return err
	}
	enough, cancel := context.WithTimeout(ctx, s.every())
	defer cancel()
	var failed error
	for _, e := range todo {
		if enough.Err() != nil {
			break // the next sweep goes on
		}
		if k, there := fresh[e.Spec.Key()]; there && k.Removed.IsZero() {
			failed = errors.Join(failed, s.lookAfter(ctx, accept, work, e, k))
		}
	}
	return failed
}

// readOn reads the next step of the app's registry.
func (s *Server) readOn(ctx context.Context, jobs map[string]*entry, fresh map[string]tick.Job) error {
	q := tick.JobQuery{Prefix: s.app + "/", After: s.read}
	page, err := s.backend.Ticks.Jobs(ctx, q)
	if err != nil {
		return fmt.Errorf("read the registered jobs at %s: %w", s.backend.Name, err)
	}
	if s.read = ""; len(page) == q.Max() {
		s.read = page[len(page)-1].Name
	}
	s.saw(page, jobs, fresh)
	return nil
}

func (s *Server) saw(page []tick.Job, jobs map[string]*entry, fresh map[string]tick.Job) {
	for _, k := range page {
		fresh[k.Name] = k
		if e := jobs[k.Name]; e != nil {
			e.saw(k)
		}
	}
}

// readAnew reads those of some jobs that were not read yet: nothing is decided by how a job was.
func (s *Server) readAnew(ctx context.Context, some []*entry, fresh map[string]tick.Job) error {
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
	page, err := s.backend.Ticks.Jobs(ctx, tick.JobQuery{Names: names})
	if err != nil {
		return fmt.Errorf("read the registered jobs at %s: %w", s.backend.Name, err)
	}
	s.saw(page, jobs, fresh)
	return nil
}

// owed notes for each job what the store finds to be owed of it: the latest ones in each sweep, and where these
// are many one more step of the others.
func (s *Server) owed(ctx context.Context, jobs map[string]*entry) error {
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
	now, met := s.backend.passed(), map[tick.Spot]bool{} // a step may come to what the latest ones have
	look := tick.OwedLook{App: s.app, From: now.Add(-since)}
	for _, latest := range []bool{true, false} {
		found, err := s.backend.Ticks.Owed(ctx, look)
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
			s.owing = tick.Spot{}
			return nil
		case !latest:
			s.owing = found.Next
		case s.owing != tick.Spot{}:
			look.After = s.owing
		default:
			look.After = found.Next
		}
	}
	return nil
}

// owes notes a tick that is owed, if anything is to be done about it.
func (e *entry) owes(t tick.Tick, now time.Time) {
	switch x := e.of(t.At); {
	case foreseen(t, now) && t.At.After(now.Add(-waited)):
		e.foreseen = true
	case x.runsAgain(t, now):
		e.lost = append(e.lost, t)
	case x.catchesUp() && cutOff(t):
		from := now.Add(-x.Spec.Policy.CatchUpWindow)
		x.cutOff = x.cutOff || !t.At.Before(from) && !t.At.Before(x.definition.Since) && !t.At.Before(x.looked.Load().time())
	}
}

// todo are the jobs that have something to be done, as many as one step reads: those first of which something
// is to be run, then the others, by how long they have waited.
func (s *Server) todo(jobs map[string]*entry) (todo []*entry) {
	now := s.backend.passed()
	for e := range maps.Values(jobs) {
		if !e.differs.Load() && e.due(s.backend, now) {
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
	return todo[:min(len(todo), tick.MostLooked)]
}

// due says whether there is something to be done.
func (e *entry) due(p *Backend, now time.Time) bool {
	switch {
	case e.known.Generation != e.generation, !e.known.Since.Equal(e.definition.Since), e.urgent(now):
		return true
	}
	// As tooLate has it, by a clock that is read once for all jobs: there may be a million.
	return e.open != nil && e.open.StartBy(e.openAt).Before(now.Add(-p.Keeper.Margin().TTL)) && !now.Before(e.later)
}

// urgent says whether something is to be run, or to be taken back, which is more than a mark that lags.
func (e *entry) urgent(now time.Time) bool {
	return e.foreseen || len(e.lost) > 0 || liesAhead(e.known, now) ||
		slices.ContainsFunc(e.line(), func(x *entry) bool { return x.cutOff })
}

// liesAhead says whether something about a job lies ahead of the store's clock, and is to be taken back.
func liesAhead(k tick.Job, now time.Time) bool {
	return Ahead(k, now) > 0 || pausedAhead(k, now) || k.Since.After(now.Add(lease.MaxStep))
}

// lookAfter accounts for what is over of one job, as it was registered a moment ago.
func (s *Server) lookAfter(ctx, accept, work context.Context, e *entry, known tick.Job) error {
	now := s.backend.passed()
	switch {
	case e.differs.Load():
		return nil
	case known.Generation != e.generation: // its ticks are not to be settled by our schedule
		s.differs(ctx, e)
		return nil
	case !known.Since.Equal(e.definition.Since): // it was brought back
		s.renew(ctx, e, known)
		return nil
	case !e.due(s.backend, now):
		return nil // another process was faster
	}
	if e.foreseen || liesAhead(known, now) {
		if again, err := s.backend.unsettle(ctx, known, e.Set(), 0); again || err != nil {
			return err // the next sweep goes on
		}
	}
	if err := s.runAgain(ctx, accept, work, e, known); err != nil {
		return err
	}
	for _, x := range e.line() {
		if x.done && !x.cutOff {
			continue
		}
		if busy, err := s.catchUp(ctx, accept, work, x, known.As(x.definition)); busy || err != nil {
			return err
		}
	}
	return s.settleLine(ctx, e, known)
}

// settleLine settles what is over of the oldest of a job's definitions that has open ticks: what came after it,
// the next sweep does.
func (s *Server) settleLine(ctx context.Context, e *entry, known tick.Job) error {
	for _, x := range e.past {
		if _, open := x.Set().Next(known.Mark); !open {
			x.done = true // nothing of it is to be caught up on either
			continue
		}
		return s.settleOne(ctx, e, x, known)
	}
	return s.settleOne(ctx, e, e, known)
}

func (s *Server) settleOne(ctx context.Context, e, x *entry, known tick.Job) error {
	done, err := s.backend.settle(ctx, known.As(x.definition), x.Set(), s.backend.tooLate(x.Job))
	s.Stats.settled.Add(int64(done.rows))
	if e.later = (time.Time{}); done.stuck {
		e.pause = min(max(2*e.pause, 2*s.every()), stuckTTLs*s.backend.Keeper.Margin().TTL)
		e.later = s.backend.passed().Add(e.pause)
	}
	return err
}

// stuckTTLs bounds, in TTLs, how long a mark that an unfinished tick holds up is left alone.
const stuckTTLs = 4

// runAgain runs again, once, the ticks of a job whose run was lost, crashed, or was canceled because its server was
// shut down, where the job asks for that (rule T3).
func (s *Server) runAgain(ctx, accept, work context.Context, e *entry, known tick.Job) error {
	if e.Dormant || accept.Err() != nil || known.Pause.Covers(s.backend.now()) {
		return nil // nothing is begun in a pause
	}
	for _, t := range slices.Backward(e.lost) { // the oldest first
		if err := s.takeOver(ctx, accept, work, e.of(t.At), t, true); err != nil {
			return err
		}
	}
	return nil
}
