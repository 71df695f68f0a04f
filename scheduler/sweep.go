package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// sweep looks, several times per TTL, after what others left behind: outcomes that wait on this
// host, ticks whose server died, and ticks that nobody claimed.
func (s *Server) sweep(ctx, accept, work context.Context) {
	every := s.place.Keeper.Margin().TTL / sweepsPerTTL
	t := time.NewTicker(max(every, 50*time.Millisecond))
	defer t.Stop()
	pruning := time.NewTicker(pruneEvery)
	defer pruning.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pruning.C:
			s.place.prune(ctx)
			continue
		case <-t.C:
		}
		if err := s.sweepOnce(ctx, accept, work); err != nil && ctx.Err() == nil {
			s.log.Warn("could not look after what others left", "error", err)
		}
	}
}

const sweepsPerTTL = 5

// mostTried bounds the items that are waited for.
const mostTried = 10_000

// pruneEvery is how often a server looks for history that is too old.
const pruneEvery = time.Hour

func (s *Server) sweepOnce(ctx, accept, work context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.place.Keeper.Margin().TTL) // a silent store must not hold it for ever
	defer cancel()
	undelivered := s.deliver(ctx)
	if err := s.learn(ctx); err != nil {
		return errors.Join(undelivered, fmt.Errorf("look for the other servers: %w", err))
	}
	_ = s.place.Keeper.Sync(ctx) // nothing is concluded by a clock that has stepped meanwhile
	s.checkClock(ctx)
	s.place.flush(ctx, false)
	if !s.place.Keeper.Steady() {
		for _, e := range s.entries() {
			e.timely = false
		}
	}
	orphans, err := s.place.Ticks.Orphans(ctx, "", 100)
	if err != nil {
		return errors.Join(undelivered, fmt.Errorf("look for orphaned ticks: %w", err))
	}
	jobs := map[string]*entry{}
	for _, e := range s.entries() {
		jobs[e.Spec.Key()] = e
	}
	failed := s.patience(undelivered)
	more := errors.Is(failed, ErrEnough)
	if more {
		failed = nil
		s.log.Debug("what is kept on this host is being delivered", "event", "delivering")
	}
	pending := failed != nil || more
	for _, t := range orphans {
		if pending && t.Claimant.Host == s.place.Self.Host {
			continue // how it ended may be among what is kept here
		}
		failed = errors.Join(failed, s.adopt(ctx, accept, work, jobs[t.Job], t))
	}
	if failed != nil || more {
		return failed // what this host has seen comes before what can only be concluded
	}
	known, err := s.place.Ticks.Jobs(ctx, s.app+"/") // after the entries, which must not be newer
	if err != nil {
		return fmt.Errorf("read the registered jobs at %s: %w", s.place.Name, err)
	}
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] }) // none is always the last
	for _, k := range known {
		if e := jobs[k.Name]; e != nil && k.Removed.IsZero() {
			failed = errors.Join(failed, s.lookAfter(ctx, accept, work, e, k))
		}
	}
	return failed
}

// deliver delivers this host's spool for as long as a sweep may take in all: the rest of it looks after others.
func (s *Server) deliver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.place.Keeper.Margin().TTL/sweepsPerTTL)
	defer cancel()
	return s.place.Deliver(ctx)
}

// patience passes on that something on this host could not be delivered although the store answers,
// but not for ever: one item that no store takes must not keep every tick from being settled. It ends
// once each item was tried for a TTL and none was taken: a witness behind many that no store takes
// is heard before anything is settled. (Each sweep that delivers nothing has tried one more.)
func (s *Server) patience(undelivered error) error {
	if undelivered == nil {
		s.undelivered, s.tried = 0, nil
		return nil
	}
	var stuck *undeliverable
	found := errors.As(undelivered, &stuck)
	if found && stuck.some && errors.Is(undelivered, ErrEnough) {
		s.undelivered, s.tried = 0, nil
		return undelivered
	}
	if found {
		if stuck.some || s.tried == nil {
			s.undelivered, s.tried = 0, map[string]bool{}
		}
		again := s.tried[stuck.item] || len(s.tried) >= mostTried
		s.tried[stuck.item] = true
		if !again && len(s.tried) > 1 {
			return undelivered
		}
	}
	if s.undelivered++; s.undelivered <= sweepsPerTTL {
		return undelivered
	}
	if s.undelivered%(100*sweepsPerTTL) == sweepsPerTTL+1 {
		s.log.Error("something that this host was to tell the store is not taken; it stays on this host", "event", "undeliverable", "error", undelivered)
	}
	return nil
}

// lookAfter accounts for what is over of one job, as it was registered a moment ago.
func (s *Server) lookAfter(ctx, accept, work context.Context, e *entry, known tick.Job) error {
	if e.differs.Load() {
		return nil
	}
	if known.Generation != e.generation { // its ticks are not to be settled by our schedule
		s.differs(ctx, e)
		return nil
	}
	if !e.timely || Ahead(known, s.place.passed()) > 0 {
		if again, err := s.place.unsettle(ctx, known, e.Set, 0); again || err != nil {
			return err // the next sweep goes on
		}
		e.timely = s.place.Keeper.Steady()
	}
	if err := s.rerunEnded(ctx, accept, work, e); err != nil {
		return err
	}
	if busy, err := s.catchUp(ctx, accept, work, e, known); busy || err != nil {
		return err
	}
	n, err := s.place.settle(ctx, known, e.Set, s.place.tooLate(e.Job))
	s.Stats.settled.Add(int64(n))
	return err
}

// adopt decides about a tick whose lease lapsed. One that was claimed and not started provably ran
// nothing: it is run, or missed if that is too late (rule T2). One that was started has crashed:
// it is run again if its job asks for that (rule T3), also if who was to do so died before it began.
func (s *Server) adopt(ctx, accept, work context.Context, e *entry, t tick.Tick) error {
	now := s.place.passed()
	if e == nil && !strings.HasPrefix(t.Job, s.app+"/") {
		return nil // another application's: its own servers know its policy
	}
	mine := e != nil && !e.differs.Load() && !e.Dormant && accept.Err() == nil
	rerun := t.State == tick.Started && e != nil && e.Spec.Policy.OnCrash == job.CrashRerun && t.Reruns < maxReruns &&
		now.Sub(t.At) <= e.Spec.Policy.CatchUpWindow
	switch {
	case t.State == tick.Started && !rerun:
		return s.place.crashed(ctx, t)
	case t.State == tick.Claimed && e == nil && now.Sub(t.At) > maxLate:
		return s.place.overdue(ctx, t)
	case t.State == tick.Started && !mine, e == nil:
		return nil
	case t.State == tick.Claimed && now.After(e.takeBy(t)):
		return s.place.overdue(ctx, t)
	case !mine:
		return nil
	case t.State == tick.Claimed:
		known, _, err := s.place.registered(ctx, t.Job)
		if err != nil || known.Pause.Covers(now) {
			return err // nothing is begun in a pause
		}
	}
	return s.takeOver(ctx, accept, work, e, t, rerun)
}

// takeOver takes a tick from a server that is gone, and carries it out.
func (s *Server) takeOver(ctx, accept, work context.Context, e *entry, t tick.Tick, rerun bool) error {
	a, err := s.place.take(ctx, t, rerun)
	if err != nil || a.Status != tick.Won {
		return err
	}
	s.Stats.taken.Add(1)
	s.fires.Go(func() { s.carryOut(accept, work, e, a.Tick, false) }) // which does not wait for history
	s.place.Event(ctx, history.Event{Kind: "tick-taken-over", Job: t.Job, Tick: t.At, RunID: t.RunID,
		Reason: fmt.Sprintf("taken over from %s (%s)", t.Claimant, ended(t))})
	return nil
}

// ended says how far the tick had come.
func ended(t tick.Tick) string {
	if t.Outcome != "" {
		return string(t.Outcome)
	}
	return "gone, " + string(t.State)
}

// crashed records the end of a run whose lease lapsed without an outcome. The run's own late
// report amends it.
func (p *Place) crashed(ctx context.Context, t tick.Tick) error {
	gone := fmt.Sprintf("%s is gone without a report", t.Claimant)
	r := run.Record{ID: t.RunID, Job: t.Job, Tick: t.At, Owner: t.Lease.Owner, Token: t.Lease.Token, Host: t.Claimant.Host,
		Started: t.Started, Ended: p.now(), Outcome: run.Crashed, Inferred: true, Reason: p.concluded(gone)}
	a, err := p.Book.Close(ctx, tick.CloseRequest{Claim: t.Lease, Run: r})
	if err != nil {
		return err
	}
	if mine, err := p.stands(ctx, a, r); err != nil || !mine {
		return err
	}
	p.Event(ctx, history.Event{Kind: "run-crashed", Job: t.Job, Tick: t.At, RunID: t.RunID, Reason: gone})
	p.tellEnd(r, "", nil)
	return nil
}

// overdue closes a claim that nobody started in time: nothing ran, but for the run before it where the
// tick was to be run again.
func (p *Place) overdue(ctx context.Context, t tick.Tick) error {
	r := run.Record{Job: t.Job, Tick: t.At, Host: p.Self.Host, Outcome: run.Missed,
		Reason: fmt.Sprintf("claimed by %s, which died before it started it", t.Claimant)}
	if t.Reruns > 0 {
		last, err := p.lastRun(ctx, t.Job, t.At)
		if err != nil {
			return err
		}
		r = notAgain(r, last)
	}
	a, err := p.Book.Take(ctx, t, false)
	if err != nil || a.Status != tick.Won {
		return err
	}
	r.Owner, r.Token = a.Tick.Lease.Owner, a.Tick.Lease.Token
	a, err = p.Book.Close(ctx, tick.CloseRequest{Claim: a.Tick.Lease, Run: r})
	if err == nil && a.Status == tick.Won {
		p.tellEnd(r, "", nil)
	}
	return err
}

// recent are the latest ticks of a job, no older than window.
func (p *Place) recent(ctx context.Context, name string, window time.Duration) ([]tick.Tick, error) {
	rows, err := p.History.Ticks(ctx, history.Query{Job: name, From: p.now().Add(-window), Limit: 20})
	if err != nil {
		return nil, fmt.Errorf("read the latest ticks of %s: %w", name, err)
	}
	return rows, nil
}
