package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/tick"
)

// Of ticks that were due before a change, the definition then in force decides (rule T11): the store keeps it until
// all of them have their outcome. A job is a line of definitions: those that ended, and the one in force.

// mostPast bounds the definitions that a job keeps beside the one in force.
const mostPast = 8

// definitions are the job's, oldest first. A past that cannot be read is recorded, and is none.
func (p *Place) definitions(ctx context.Context, known tick.Job) []tick.Job {
	all, err := known.Definitions()
	if err != nil {
		p.unreadable(ctx, known, err)
	}
	return all
}

func (p *Place) unreadable(ctx context.Context, known tick.Job, err error) {
	p.Event(ctx, history.Event{Kind: "definition-unreadable", Job: known.Name,
		Reason: fmt.Sprintf("%v; its ticks after %s cannot be computed, so unclaimed ones get no outcome", err, stamp(known.Mark))})
}

// leave completes the request that changes a definition: what of it has open ticks before the change is kept.
// Where a job changes so often that more is kept than may be, the oldest of them end now: a tick that nobody
// claimed is missed.
func (p *Place) leave(ctx context.Context, known tick.Job, req tick.JobRequest) (tick.JobRequest, error) {
	var open []tick.Job
	all := p.definitions(ctx, known)
	all[len(all)-1].Until = req.Since
	for _, d := range all {
		spec, set, err := p.readable(ctx, d)
		if err != nil {
			return req, err
		}
		if spec != nil && hasOpen(set, known.Mark, req.Since) {
			open = append(open, d)
		}
	}
	if len(open) > mostPast {
		var err error
		if open, err = p.unaccounted(ctx, open); err != nil {
			return req, err
		}
	}
	for ; len(open) > mostPast; open = open[1:] {
		if _, err := p.concludeOne(ctx, open[0], req.Since); err != nil {
			return req, err
		}
	}
	req.Past, req.Of = tick.PastOf(open), known.Generation
	return req, nil
}

// hasOpen says whether there is a tick above the mark and before an instant.
func hasOpen(set schedule.Set, mark, until time.Time) bool {
	at, ok := set.Next(mark)
	return ok && at.Before(until)
}

// unaccounted are those definitions of which some tick has no row: of the others nothing is to be decided any more.
func (p *Place) unaccounted(ctx context.Context, ended []tick.Job) (open []tick.Job, err error) {
	for _, d := range ended {
		_, set, err := Registered(d)
		if err != nil {
			continue // it is recorded
		}
		some, err := p.lacks(ctx, d, set)
		if err != nil {
			return nil, err
		}
		if some {
			open = append(open, d)
		}
	}
	return open, nil
}

// lacks says whether some tick of a definition that ended has no row, however many ticks with one come before it.
func (p *Place) lacks(ctx context.Context, d tick.Job, set schedule.Set) (bool, error) {
	for {
		due, rows, err := p.open(ctx, d, set, func(time.Time) bool { return true })
		if err != nil || len(due) == 0 {
			return false, err
		}
		if len(tick.Unaccounted(due, rows)) > 0 {
			return true, nil
		}
		d.Mark = due[len(due)-1]
	}
}

// under is the job as it is to be run for ticks of another of its definitions: when and how is that one's, what it
// runs is today's, which is no part of a definition.
func (j *Job) under(d tick.Job) (*Job, error) {
	if d.Past == "" && d.Until.IsZero() {
		return j, nil // there is no other
	}
	spec, set, err := Registered(d)
	if err != nil {
		return nil, err
	}
	as := &Job{Spec: j.Spec, given: &set, Target: j.Target, Holder: j.Holder, Output: j.Output, When: j.When, Dormant: j.Dormant}
	as.Spec.Schedules, as.Spec.Timezone, as.Spec.DST, as.Spec.Policy = spec.Schedules, spec.Timezone, spec.DST, spec.Policy
	return as, as.Check()
}

// entry makes that of a registered job.
func (s *Server) entry(ctx context.Context, j *Job, known tick.Job) *entry {
	e := &entry{Job: j, generation: known.Generation, definition: known, whole: j}
	for _, d := range s.place.definitions(ctx, known) {
		as, err := j.under(d)
		switch {
		case err != nil:
			s.place.unreadable(ctx, d, err)
		case d.Until.IsZero():
			e.Job, e.definition = as, d
		default:
			e.past = append(e.past, &entry{Job: as, generation: known.Generation, definition: d, main: e})
		}
	}
	e.saw(known)
	return e
}

// takeUp has an entry begin, in place of the one before (nil: there is none), of which it goes on with what is neither
// fired nor over.
func (s *Server) takeUp(e, before *entry, now time.Time) {
	from := e.definition.Mark
	if Ahead(e.definition, now) > 0 {
		from = now // what is settled beyond it is taken back
	}
	for _, x := range e.line() {
		if was := before.like(x); was != nil {
			x.next = was.next
			if !was.returned.IsZero() && (x.next.IsZero() || was.returned.Before(x.next)) {
				x.next = was.returned
			}
			if until := x.definition.Until; !until.IsZero() && !x.next.Before(until) {
				x.next = time.Time{}
			}
		} else if at, ok := x.Set().Next(from); ok {
			x.next = s.startable(x.Job, at, now)
		}
	}
}

// renew makes a job's entry anew, because the store says otherwise how long its definitions are in force.
func (s *Server) renew(ctx context.Context, e *entry, known tick.Job) {
	fresh, now := s.entry(ctx, e.whole, known), s.place.passed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := e.Spec.Key(); s.jobs[name] == e {
		s.takeUp(fresh, e, now)
		s.jobs[name] = fresh
		s.poke()
	}
}

// line are the entries of all the job's definitions, oldest first: its own is the last.
func (e *entry) line() []*entry { return append(e.past[:len(e.past):len(e.past)], e) }

// root is the entry of the definition in force.
func (e *entry) root() *entry {
	if e.main != nil {
		return e.main
	}
	return e
}

// first says whether none of the definitions before this one has a tick above the mark: only then may it be raised.
func (e *entry) first(mark time.Time) bool {
	for _, x := range e.root().line() {
		if x == e {
			break
		}
		if _, open := x.Set().Next(mark); open {
			return false
		}
	}
	return true
}

// of is the entry of the definition that a tick was due under.
func (e *entry) of(at time.Time) *entry {
	if e == nil {
		return nil
	}
	for _, x := range e.past {
		if !at.Before(x.definition.Since) && at.Before(x.definition.Until) {
			return x
		}
	}
	return e
}

// like is the entry of the same definition, if it was followed.
func (e *entry) like(x *entry) *entry {
	if e == nil || e.differs.Load() {
		return nil
	}
	for _, was := range e.line() {
		if was.definition.Since.Equal(x.definition.Since) && was.definition.Definition == x.definition.Definition {
			return was
		}
	}
	return nil
}

// handBack returns a tick whose claim was refused because the definition has changed meanwhile: whoever loaded that
// goes on with it.
func (s *Server) handBack(e *entry, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.jobs[e.Spec.Key()]
	switch {
	case now == nil:
	case now == e.root(): // until it is replaced
		if e.returned.IsZero() || at.Before(e.returned) {
			e.returned = at
		}
	default:
		if x := now.of(at); x.next.IsZero() || at.Before(x.next) {
			if due, ok := x.Set().Next(at.Add(-time.Microsecond)); ok && due.Equal(at) {
				x.next = at
				s.poke()
			}
		}
	}
}
