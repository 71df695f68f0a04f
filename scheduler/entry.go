package scheduler

import (
	"context"
	"hash/maphash"
	"iter"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/tick"
)

// entry is a job that is served, with its next tick.
type entry struct {
	*Job
	generation int64
	next       time.Time             // its next tick; zero: none
	scanned    atomic.Pointer[since] // up to where there is nothing to catch up on but what nobody claimed
	differs    atomic.Bool           // the store holds another definition, from a newer load (rule T11)
	view

	since    time.Time // when its definition came into force
	digest   uint64    // of the definition
	whole    *Job      // the job as it was loaded, whenever it is due
	past     []*entry  // those of the definitions before it that left ticks open, oldest first
	former   *former   // it is one of these; nil: it is the one in force
	returned time.Time // the earliest tick that came back since the definition is being replaced
}

// former is what only the entry of a definition has that is in force no longer.
type former struct {
	definition tick.Job
	main       *entry // whose past it is
	done       bool   // the sweep's own: all its ticks have their outcome
}

// digests are compared within this process only.
var digests = maphash.MakeSeed()

// define notes the definition that the entry is of. There may be a million entries, so none keeps the text of the one
// in force.
func (e *entry) define(d tick.Job) {
	e.since, e.digest = d.Since, maphash.String(digests, d.Definition)
}

// as returns the job's registration as if it had this entry's definition.
func (e *entry) as(known tick.Job) tick.Job {
	if e.former == nil {
		return known
	}
	return known.As(e.former.definition)
}

// until returns when the entry's definition ended; zero if it is in force.
func (e *entry) until() time.Time {
	if e.former == nil {
		return time.Time{}
	}
	return e.former.definition.Until
}

// under returns the job for ticks of another of its definitions: schedules and policy are that definition's; the
// work is today's, which is not part of a definition.
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

// entry makes the entry of a registered job.
func (s *Server) entry(ctx context.Context, j *Job, known tick.Job) *entry {
	e := &entry{Job: j, generation: known.Generation, whole: j}
	e.define(known)
	for _, d := range s.registry.definitions(ctx, known) {
		as, err := j.under(d)
		switch {
		case err != nil:
			s.registry.unreadable(ctx, d, err)
		case d.Until.IsZero():
			e.Job = as
			e.define(d)
		default:
			x := &entry{Job: as, generation: known.Generation, former: &former{definition: d, main: e}}
			x.define(d)
			e.past = append(e.past, x)
		}
	}
	e.refresh(known)
	return e
}

// takeUp starts an entry in place of the one before (nil: there is none), and takes over from that what is neither
// fired nor over.
func (s *Server) takeUp(e, before *entry, now time.Time) {
	from := e.known.mark
	if !e.known.removed && markAhead(e.known.mark, now) > 0 {
		from = now // what is settled beyond it is taken back
	}
	for x := range e.line() {
		s.lookback = max(s.lookback, x.lookback())
		if was := before.like(x); was != nil {
			x.next = was.next
			if !was.returned.IsZero() && (x.next.IsZero() || was.returned.Before(x.next)) {
				x.next = was.returned
			}
			if until := x.until(); !until.IsZero() && !x.next.Before(until) {
				x.next = time.Time{}
			}
		} else if at, ok := x.Set().Next(from); ok {
			x.next = s.startable(x.Job, at, now)
		}
	}
}

// renew makes a job's entry again, because the store has it in another generation, or other times for how long its
// definitions are in force.
func (s *Server) renew(ctx context.Context, e *entry, known tick.Job) {
	fresh, now := s.entry(ctx, e.whole, known), s.b.passed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := e.Spec.Key(); s.jobs[name] == e {
		s.takeUp(fresh, e, now)
		s.jobs[name] = fresh
		s.poke()
	}
}

// line returns the entries of all the job's definitions, oldest first: its own is the last.
func (e *entry) line() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, x := range e.past {
			if !yield(x) {
				return
			}
		}
		yield(e)
	}
}

// root returns the entry of the definition in force.
func (e *entry) root() *entry {
	if e.former != nil {
		return e.former.main
	}
	return e
}

// first reports whether none of the definitions before this one has a tick above the mark: only then may the mark be
// raised.
func (e *entry) first(mark time.Time) bool {
	for x := range e.root().line() {
		if x == e {
			break
		}
		if _, open := x.Set().Next(mark); open {
			return false
		}
	}
	return true
}

// of returns the entry of the definition that a tick was due under.
func (e *entry) of(at time.Time) *entry {
	if e == nil {
		return nil
	}
	for _, x := range e.past {
		if !at.Before(x.since) && at.Before(x.until()) {
			return x
		}
	}
	return e
}

// like returns the entry of the same definition, if it was followed.
func (e *entry) like(x *entry) *entry {
	if e == nil || e.differs.Load() {
		return nil
	}
	for was := range e.line() {
		if was.since.Equal(x.since) && was.digest == x.digest {
			return was
		}
	}
	return nil
}

// handBack returns a tick whose claim was refused because the definition has changed meanwhile: the server that
// loaded the new one continues with it.
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

// differs stops firing a job whose definition in the store is newer than ours (rule T11).
func (s *Server) differs(ctx context.Context, e *entry) {
	if s.loading.Load() > 0 {
		return // it may be the one that is being loaded
	}
	s.mu.Lock()
	first := s.jobs[e.Spec.Key()] == e && e.differs.CompareAndSwap(false, true) // else it was replaced here meanwhile
	for x := range e.line() {
		x.next = time.Time{}
	}
	s.mu.Unlock()
	if first {
		s.recorder.event(ctx, history.Event{Kind: "manifest-differs", Job: e.Spec.Key(),
			Reason: "the store has another definition of this job, from a newer load; this server runs none of its ticks until it loads that one"})
	}
}
