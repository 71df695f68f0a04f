package scheduler

import (
	"context"
	"iter"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// longestSleep bounds the timer, which stops while the machine is suspended.
const longestSleep = 30 * time.Second

// follow fires what is due until accept ends.
func (s *Server) follow(accept, work context.Context) {
	for accept.Err() == nil {
		wait := longestSleep
		now, err := s.b.Keeper.Now(accept)
		if err != nil {
			s.log.Warn("the store does not answer with its time", "error", err)
			wait = s.b.Keeper.Margin().Heartbeat
		} else {
			wait = min(wait, s.due(accept, work, now))
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.wake:
		case <-accept.Done():
		}
		t.Stop()
	}
}

// due fires each job whose next tick has come and returns the time to the next one.
func (s *Server) due(accept, work context.Context, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait, back := longestSleep, now.Before(s.followed.Add(-lease.MaxStep))
	s.followed = now
	for e := range s.following() {
		if back && !e.root().differs.Load() {
			e.next = s.again(e.Job, now)
		}
		if !e.next.IsZero() && s.b.startBy(e.Job, e.next).Before(now) {
			e.next = s.startable(e.Job, e.next, now) // after a suspend, say: the rest is settled as missed
		}
		for !e.next.IsZero() && !e.Starts(e.next).After(now) {
			if at := e.next; !e.Dormant && e.Open(at) {
				s.fires.Go(func() { s.fire(accept, work, e, at) })
			}
			at := e.next
			if e.next, _ = e.Set().Next(at); e.next.IsZero() {
				break
			}
		}
		if !e.next.IsZero() {
			wait = min(wait, e.Starts(e.next).Sub(now))
		}
	}
	return wait
}

// following returns the entries of all definitions that have ticks to fire, one by one: there may be a million.
func (s *Server) following() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range s.jobs {
			for _, x := range e.past {
				if !yield(x) {
					return
				}
			}
			if !yield(e) {
				return
			}
		}
	}
}

// startable returns the first tick at or after the given one that may still be started; older ones are settled as
// missed.
func (s *Server) startable(j *Job, at, now time.Time) time.Time {
	ok := true
	since, until := s.b.Keeper.HeldBack()
	for ok && s.b.startBy(j, at).Before(now) {
		// Jump: do not walk through what is further back than any starting deadline.
		from, late := at, j.StartBy(at).Sub(at)
		skip := now.Add(-late).Add(-time.Second)
		if since.Before(skip) && !until.Add(late).Before(now) { // what fell due in a hold-back may still start
			skip = since.Add(-late)
		}
		if skip.After(from) {
			from = skip
		}
		at, ok = j.Set().Next(from)
	}
	if !ok {
		return time.Time{}
	}
	return at
}

// again returns the first tick to fire after the schedules' clock stepped back. Ticks that became due by it
// meanwhile were not fired; ticks that have an outcome already are refused.
func (s *Server) again(j *Job, now time.Time) time.Time {
	at, ok := j.Set().Next(now.Add(-waited))
	if !ok {
		return time.Time{}
	}
	return s.startable(j, at, now)
}

func (s *Server) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
