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
	// abandonedAfter is how long an app must have had no server before others settle what it left unfinished (rule
	// T15). It can be short: what is settled as crashed is still run again if a server comes that must do that.
	abandonedAfter = 10 * time.Minute
	// mostAbandoned is how many such ticks one sweep settles at most.
	mostAbandoned = 50
)

// abandoned settles the unfinished ticks of apps that have no server. Only the sweep uses it.
type abandoned struct {
	*Server
	next   tick.Spot            // where it goes on among the unfinished ticks of all apps
	served map[string]bool      // the apps that have a live server
	gone   map[string]time.Time // apps that nobody serves, and since when they are missed
	seen   map[string]bool      // those that were met in this round
}

// settle reads one step of all unfinished ticks, and settles those whose app has no server.
func (g *abandoned) settle(ctx context.Context) error {
	found, err := g.b.Ticks.Orphans(ctx, tick.Look{After: g.next})
	if err != nil {
		return fmt.Errorf("look for abandoned ticks: %w", err)
	}
	if g.next == (tick.Spot{}) {
		g.seen = map[string]bool{}
	}
	var orphans []tick.Tick
	for _, t := range found.Ticks {
		if g.has(t) && len(orphans) < mostAbandoned {
			orphans = append(orphans, t)
		}
	}
	if g.next = found.Next; !found.More() {
		for name := range g.gone { // a round has ended: what was not met in it is settled
			if !g.seen[name] {
				delete(g.gone, name)
			}
		}
	}
	return g.settleAll(ctx, orphans)
}

// clearServed forgets how long the apps were missed that have a live server now. Each server does so in each of its
// sweeps, even when another server settles: otherwise it would treat an app whose server came back in the meantime
// as one without a server.
func (g *abandoned) clearServed() {
	for name := range g.served {
		delete(g.gone, name)
	}
}

// has reports whether the job of an orphan has had no server for long enough, as far as this server has watched.
func (g *abandoned) has(t tick.Tick) bool {
	name := tick.AppOf(t.Job)
	if name == "" {
		name = t.Job // a key of dibs run
	}
	if g.served[name] {
		return false
	}
	now := g.b.passed()
	since, known := g.gone[name]
	switch g.seen[name] = true; {
	case known:
		return now.Sub(since) >= abandonedAfter
	case len(g.gone) < tick.MaxRows:
		g.gone[name] = now
	}
	return false
}

// settleAll settles the ticks that no server can run any more, by the registered policy of their jobs.
func (g *abandoned) settleAll(ctx context.Context, orphans []tick.Tick) error {
	if len(orphans) == 0 {
		return nil
	}
	var names []string
	for _, t := range orphans {
		names = append(names, t.Job)
	}
	known, err := g.b.Ticks.Jobs(ctx, tick.JobQuery{Names: names})
	if err != nil {
		return fmt.Errorf("read the definitions of abandoned jobs: %w", err)
	}
	jobs := map[string]tick.Job{}
	for _, k := range known {
		jobs[k.Name] = k
	}
	var failed error
	for _, t := range orphans {
		if g.b.passed().Before(g.b.Keeper.Extend(t.At, waitsUntil(t, jobs[t.Job]))) {
			continue
		}
		if t.State == tick.Started {
			failed = errors.Join(failed, g.reaper.crashed(ctx, t))
		} else {
			failed = errors.Join(failed, g.reaper.overdue(ctx, t))
		}
	}
	return failed
}

// waitsUntil returns until when a server may still run an unfinished tick, by its job's registered policy.
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
