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
	// abandoned is for how long an app must have had no server before others settle what it left unfinished
	// (rule T15). It can be short: what is settled as crashed is run again all the same, if somebody comes who
	// is to do that.
	abandoned = 10 * time.Minute
	// mostStrays is how many such ticks one sweep settles at most.
	mostStrays = 50
)

// settleStrays looks at one step of all unfinished ticks, and settles those that belong to nobody.
func (s *Server) settleStrays(ctx context.Context) error {
	found, err := s.place.Ticks.Orphans(ctx, tick.Look{After: s.strayed})
	if err != nil {
		return fmt.Errorf("look for abandoned ticks: %w", err)
	}
	if s.strayed == (tick.Spot{}) {
		s.seen = map[string]bool{}
	}
	var strays []tick.Tick
	for _, t := range found.Ticks {
		if s.isNobodys(t) && len(strays) < mostStrays {
			strays = append(strays, t)
		}
	}
	if s.strayed = found.Next; !found.More() {
		for name := range s.gone { // a round has ended: what was not met in it is settled
			if !s.seen[name] {
				delete(s.gone, name)
			}
		}
	}
	return s.settleAll(ctx, strays)
}

// greet forgets for how long the apps were missed that have a live server now. Each server does so in each of
// its sweeps, whoever's turn it is to settle: else it would take one that came back in the meantime for one
// that was never there.
func (s *Server) greet() {
	for name := range s.served {
		delete(s.gone, name)
	}
}

// isNobodys says whether no server has been there for the job of an orphan for long enough, as far as this one has
// watched.
func (s *Server) isNobodys(t tick.Tick) bool {
	name := tick.AppOf(t.Job)
	if name == "" {
		name = t.Job // a key of dibs run
	}
	if s.served[name] {
		return false
	}
	now := s.place.passed()
	since, known := s.gone[name]
	switch s.seen[name] = true; {
	case known:
		return now.Sub(since) >= abandoned
	case len(s.gone) < tick.MostLooked:
		s.gone[name] = now
	}
	return false
}

func (s *Server) settleAll(ctx context.Context, strays []tick.Tick) error {
	if len(strays) == 0 {
		return nil
	}
	var names []string
	for _, t := range strays {
		names = append(names, t.Job)
	}
	known, err := s.place.Ticks.Jobs(ctx, tick.JobQuery{Names: names})
	if err != nil {
		return fmt.Errorf("read the definitions of abandoned jobs: %w", err)
	}
	jobs := map[string]tick.Job{}
	for _, k := range known {
		jobs[k.Name] = k
	}
	var failed error
	for _, t := range strays {
		if s.place.passed().Before(s.place.Keeper.Extend(t.At, waitsUntil(t, jobs[t.Job]))) {
			continue
		}
		if t.State == tick.Started {
			failed = errors.Join(failed, s.place.crashed(ctx, t))
		} else {
			failed = errors.Join(failed, s.place.overdue(ctx, t))
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
