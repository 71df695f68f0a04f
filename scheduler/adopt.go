package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/tick"
)

const (
	// adoptShare is the fraction of a TTL in which one sweep takes over from dead processes, step by step; the next
	// sweep continues.
	adoptShare = 3
	// adoptWide is how many ticks are taken over concurrently: each sends a few requests to the store.
	adoptWide = 8
)

// adopter takes over, or ends, the ticks of its app whose process is gone (rules T2 and T3). Only the sweep uses it.
type adopter struct {
	*Server
	next tick.Spot // where it goes on among the unfinished ticks
}

// adoptAll looks through the unfinished ticks of this server's app for those whose server or run is gone. It leaves
// out ticks of this host whose end may be among the undelivered items here.
func (d *adopter) adoptAll(ctx, accept, work context.Context, jobs map[string]*entry, undelivered bool) error {
	enough, cancel := context.WithTimeout(ctx, d.b.Keeper.Margin().TTL/adoptShare)
	defer cancel()
	for enough.Err() == nil {
		found, err := d.b.Ticks.Orphans(ctx, tick.Look{Prefix: d.app + "/", After: d.next})
		if err != nil {
			return fmt.Errorf("look for orphaned ticks: %w", err)
		}
		n, err := sideBySide(enough, found.Ticks, func(t tick.Tick) error {
			if undelivered && t.Claimant.Host == d.b.Self.Host {
				return nil
			}
			return d.adopt(ctx, accept, work, jobs[t.Job].of(t.At), t)
		})
		if n < len(found.Ticks) {
			if n > 0 {
				d.next = found.Ticks[n-1].Spot()
			}
			return err
		}
		if d.next = found.Next; err != nil || !found.More() {
			return err
		}
	}
	return nil
}

// sideBySide calls do for each of all, several at a time, until enough ends, and returns how many it has done.
func sideBySide[T any](enough context.Context, all []T, do func(T) error) (n int, err error) {
	var (
		mu     sync.Mutex
		failed []error
		under  sync.WaitGroup
		slots  = make(chan struct{}, adoptWide)
	)
	for n < len(all) && enough.Err() == nil {
		slots <- struct{}{}
		item := all[n]
		n++
		under.Go(func() {
			defer func() { <-slots }()
			if err := do(item); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
		})
	}
	under.Wait()
	return n, errors.Join(failed...)
}

// adopt decides about a tick whose lease lapsed. If it was claimed but not started, it certainly ran nothing: it is
// run, or missed if it is too late for that (rule T2). If it was started, it has crashed: it is run again if its job
// asks for that (rule T3), even if the process that was to run it again died before it began.
func (d *adopter) adopt(ctx, accept, work context.Context, e *entry, t tick.Tick) error {
	now := d.b.passed()
	if e == nil && !strings.HasPrefix(t.Job, d.app+"/") {
		return nil // another application's: its own servers know its policy
	}
	mine := e != nil && !e.root().differs.Load() && !e.Dormant && accept.Err() == nil
	rerun := t.State == tick.Started && e != nil && e.Spec.Policy.OnCrash == job.CrashRerun && t.Reruns < maxReruns &&
		now.Sub(t.At) <= e.Spec.Policy.CatchUpWindow
	switch {
	case t.State == tick.Started && !rerun:
		return d.reaper.crashed(ctx, t)
	case t.State == tick.Claimed && e == nil && now.Sub(t.At) > maxLate:
		return d.reaper.overdue(ctx, t)
	case t.State == tick.Started && !mine, e == nil:
		return nil
	case t.State == tick.Claimed && now.After(d.b.Keeper.Extend(t.At, e.takeBy(t))):
		return d.reaper.overdue(ctx, t)
	case !mine, d.brakes.try(t.Job) > 0: // another server may start it, or this one later
		return nil
	}
	switch known, _, err := d.registry.registered(ctx, t.Job); { // nothing is begun in a pause
	case err != nil:
		return err
	case known.Pause.Covers(now) && t.State == tick.Claimed:
		return nil
	case known.Pause.Covers(now): // it may be run again after the pause
		return d.reaper.crashed(ctx, t)
	}
	return d.takeOver(ctx, accept, work, e, t, rerun)
}

// takeOver takes a tick from a server that is gone, and carries it out. It refuses a tick that is in hand here,
// since a store takes a second takeover under the same lease for a repetition of the first one.
func (d *adopter) takeOver(ctx, accept, work context.Context, e *entry, t tick.Tick, rerun bool) error {
	letGo, first := d.hold(t.Job, t.At)
	if !first {
		letGo()
		return nil
	}
	a, err := d.reaper.take(ctx, t, rerun)
	if err != nil || a.Status != tick.Won {
		letGo()
		return err
	}
	d.Stats.taken.Add(1)
	d.fires.Go(func() { // which does not wait for history
		defer letGo()
		d.carryOut(accept, work, e, a.Tick, false)
	})
	d.recorder.event(ctx, history.Event{Kind: "tick-taken-over", Job: t.Job, Tick: t.At, RunID: t.RunID,
		Reason: fmt.Sprintf("taken over from %s (%s)", t.Claimant, ended(t))})
	return nil
}

// ended says how far the tick had come.
func ended(t tick.Tick) string {
	if t.Outcome != "" {
		return string(t.Outcome)
	}
	if t.State == tick.Claimed {
		return "it is gone or could not start the tick"
	}
	return "gone, " + string(t.State)
}
