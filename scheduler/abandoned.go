package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/tick"
)

const (
	// abandonedAfter is for how long an app must have had no server before others settle what it left unfinished
	// (rule T15). It can be short: what is settled as crashed is run again all the same, if somebody comes who
	// is to do that.
	abandonedAfter = 10 * time.Minute
	// mostAbandoned is how many such ticks one sweep settles at most.
	mostAbandoned = 50
)

// settleAbandoned looks at one step of all unfinished ticks, and settles those that belong to nobody.
func (s *Server) settleAbandoned(ctx context.Context) error {
	found, err := s.b.Ticks.Orphans(ctx, tick.Look{After: s.abandonedAt})
	if err != nil {
		return fmt.Errorf("look for ticks that belong to nobody: %w", err)
	}
	if s.abandonedAt == (tick.Spot{}) {
		s.seen = map[string]bool{}
	}
	var left []tick.Tick
	for _, t := range found.Ticks {
		if s.isAbandoned(t) && len(left) < mostAbandoned {
			left = append(left, t)
		}
	}
	if s.abandonedAt = found.Next; !found.More() {
		for name := range s.gone { // a round has ended: what was not met in it is settled
			if !s.seen[name] {
				delete(s.gone, name)
			}
		}
	}
	return s.settleAll(ctx, left)
}

// clearServed forgets for how long the apps were missed that have a live server now. Each server does so in each of
// its sweeps, whoever's turn it is to settle: else it would take one that came back in the meantime for one
// that was never there.
func (s *Server) clearServed() {
	for name := range s.served {
		delete(s.gone, name)
	}
}

// isAbandoned says whether no server has been there for the job of an orphan for long enough, as far as this one has
// watched.
func (s *Server) isAbandoned(t tick.Tick) bool {
	name := tick.AppOf(t.Job)
	if name == "" {
		name = t.Job // a key of dibs run
	}
	if s.served[name] {
		return false
	}
	now := s.b.passed()
	since, known := s.gone[name]
	switch s.seen[name] = true; {
	case known:
		return now.Sub(since) >= abandonedAfter
	case len(s.gone) < tick.MostLooked:
		s.gone[name] = now
	}
	return false
}

func (s *Server) settleAll(ctx context.Context, left []tick.Tick) error {
	if len(left) == 0 {
		return nil
	}
	var names []string
	for _, t := range left {
		names = append(names, t.Job)
	}
	known, err := s.b.Ticks.Jobs(ctx, tick.JobQuery{Names: names})
	if err != nil {
		return fmt.Errorf("read how jobs that nobody serves are registered: %w", err)
	}
	jobs := map[string]tick.Job{}
	for _, k := range known {
		jobs[k.Name] = k
	}
	var failed error
	for _, t := range left {
		if s.b.passed().Before(s.b.Keeper.Extend(t.At, waitsUntil(t, jobs[t.Job]))) {
			continue
		}
		if t.State == tick.Started {
			failed = errors.Join(failed, s.reaper.crashed(ctx, t))
		} else {
			failed = errors.Join(failed, s.reaper.overdue(ctx, t))
		}
	}
	return failed
}

// waitsUntil is until when somebody may come and run an unfinished tick after all, by its job's registered policy.
func waitsUntil(t tick.Tick, known tick.Job) time.Time {
	spec, set, err := Registered(known)
	if err != nil || !known.Removed.IsZero() {
		return t.At.Add(maxLate)
	}
	j := &Job{Spec: *spec, given: &set}
	switch {
	case t.State == tick.Claimed:
		return j.takeBy(t).Add(spec.Policy.Jitter) // which job's share of it is not registered
	case spec.Policy.OnCrash == job.CrashRerun && t.Reruns < maxReruns:
		return t.At.Add(spec.Policy.CatchUpWindow)
	}
	return time.Time{}
}
