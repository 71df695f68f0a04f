package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// catchUps runs ticks that were missed because no process was there (rule T8).
type catchUps struct{ *Server }

// catchUp runs a job's missed ticks, if its policy asks for that: the oldest first, one at a time, each as an
// ordinary tick (rule T8). It returns false if there is nothing to run, so that what is left can be settled as
// missed.
func (c *catchUps) catchUp(ctx, accept, work context.Context, e *entry, known tick.Job) (bool, error) {
	if !e.catchesUp() || accept.Err() != nil {
		return false, nil
	}
	if e.Dormant {
		return true, nil // for those who run it
	}
	if known.Pause.Covers(c.b.now()) {
		return true, nil // what was missed before the pause waits for its end
	}
	if todo, err := c.missed(ctx, e, known); err != nil || len(todo) == 0 {
		return false, err
	}
	if c.brakes.left(known.Name) > 0 {
		return true, nil // another server may start them, or this one later
	}
	// One server at a time catches up on a job; a lease beside the job's key excludes the others.
	turn, err := c.b.Keeper.Acquire(ctx, lease.Want{Key: e.key().CatchUp(), Holder: c.b.Self, Gone: c.b.Gone, OnHeldBack: c.recorder.heldBack})
	if err != nil {
		return true, nil //nolint:nilerr // another server is at it, or the store is down, which others report
	}
	// The server that had the turn before may have run some of it.
	begun, err := c.begin(ctx, accept, work, e, turn)
	if !begun {
		_ = turn.Release(ctx)
	}
	return true, err
}

// begin settles what is not to be caught up, and starts the rest under turn.
func (c *catchUps) begin(ctx, accept, work context.Context, e *entry, turn *lease.Lease) (bool, error) {
	known, ok, err := c.registry.registered(ctx, e.Spec.Key())
	if err != nil || !ok || known.Generation != e.generation {
		return false, err
	}
	known = e.as(known)
	todo, err := c.missed(ctx, e, known)
	if err != nil || len(todo) == 0 {
		return false, err
	}
	if e.first(known.Mark) {
		if _, err := c.settler.settle(ctx, known, e.Set(), func(at time.Time) bool { return at.Before(todo[0].At) }); err != nil {
			return false, err
		}
	}
	c.fires.Go(func() {
		defer turn.Release(context.WithoutCancel(ctx)) //nolint:errcheck // it lapses by itself
		for _, t := range todo {
			c.one(accept, work, e, t, turn)
		}
		c.joined(accept, work, e, todo[len(todo)-1].At, turn)
	})
	return true, nil
}

// joined carries out what fell due while a catch-up was under way: it joined the end (rule T8).
func (c *catchUps) joined(accept, work context.Context, e *entry, last time.Time, turn *lease.Lease) {
	for at, ok := e.Set().Next(last); ok && !e.Starts(at).After(c.b.now()); at, ok = e.Set().Next(at) {
		if e.Open(at) && !c.b.Keeper.Jumped(at) {
			c.one(accept, work, e, tick.Tick{At: at}, turn)
		}
	}
}

// catchesUp reports whether missed ticks of the job are run later.
func (j *Job) catchesUp() bool {
	return j.Spec.Policy.CatchUp == job.CatchUpLatest || j.Spec.Policy.CatchUp == job.CatchUpAll
}

// underWay reports whether an on-time tick must wait for a catch-up in progress. Under Allow it never does.
func (c *catchUps) underWay(ctx context.Context, e *entry) bool {
	if !e.catchesUp() || e.Spec.Policy.Concurrency == job.Allow {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, c.b.Keeper.Margin().RPCTimeout)
	defer cancel()
	now, turn, err := c.b.Keeper.Read(ctx, e.key().CatchUp())
	return err == nil && turn.Live(now)
}

// join waits while a catch-up of the job is in progress, which carries this tick out in its turn. It returns true if
// the catch-up still goes on at the end of the tick's time to start: the tick is then left to the catch-up, or as
// missed to the next one.
func (c *catchUps) join(ctx context.Context, e *entry, at time.Time) bool {
	for c.underWay(ctx, e) {
		if c.b.now().After(c.b.startBy(e.Job, at)) {
			return true
		}
		select {
		case <-ctx.Done():
			return true
		case <-time.After(c.b.Keeper.Margin().Heartbeat):
		}
	}
	return false
}

// missed returns the ticks of a job that must be caught up: those that nobody claimed, and those that were claimed,
// or could not be, and ended without a run though nobody decided that.
func (c *catchUps) missed(ctx context.Context, e *entry, known tick.Job) ([]tick.Tick, error) {
	due, rows, err := c.settler.open(ctx, known, e.Set(), c.settler.tooLate(e.Job))
	if err != nil {
		return nil, err
	}
	from := c.b.now().Add(-e.Spec.Policy.CatchUpWindow)
	var todo []tick.Tick
	for _, at := range tick.Unaccounted(due, rows) {
		if !at.Before(from) && !known.Pause.Covers(at) && e.Open(at) && !c.b.Keeper.Jumped(at) {
			todo = append(todo, tick.Tick{Job: known.Name, At: at})
		}
	}
	if e.cutOff {
		failed, err := c.cutOff(ctx, e, known, from)
		if err != nil {
			return nil, err
		}
		todo = append(todo, failed...)
	}
	slices.SortFunc(todo, func(x, y tick.Tick) int { return x.At.Compare(y.At) })
	if n := len(todo); e.Spec.Policy.CatchUp == job.CatchUpLatest && n > 1 {
		return todo[n-1:], nil
	}
	return todo, nil
}

// cutOff returns the ticks since an instant that ended unavailable, or missed after they had been claimed, if they
// still belong to this definition. Under `latest` it leaves out a tick that a later run has made up for. Rows no
// longer appear below the mark: what was looked through once need not be read again.
func (c *catchUps) cutOff(ctx context.Context, e *entry, known tick.Job, from time.Time) ([]tick.Tick, error) {
	looked := e.scanned.Load()
	for _, t := range []time.Time{known.Since, looked.time()} {
		if from.Before(t) {
			from = t
		}
	}
	rows, err := c.b.History.Ticks(ctx, history.Query{Job: known.Name, From: from, To: known.Until, Limit: settleBatch})
	if err != nil {
		return nil, fmt.Errorf("read the ticks of %s: %w", known.Name, err)
	}
	var found []tick.Tick
look:
	for _, t := range rows { // the latest first
		switch {
		case cutOff(t):
			if !known.Pause.Covers(t.At) && e.Open(t.At) {
				found = append(found, t)
			}
		case e.Spec.Policy.CatchUp != job.CatchUpLatest:
		case t.State != tick.Closed:
			return found, nil // it may come to nothing yet
		case t.Outcome.Ran():
			break look
		}
	}
	if len(found) == 0 {
		e.scanned.CompareAndSwap(looked, &since{known.Mark})
	}
	return found, nil
}

// cutOff reports whether a tick was claimed, or could not be, and ended without a run though nobody decided that.
func cutOff(t tick.Tick) bool {
	return t.Fillable() && t.Outcome != run.Skipped && !t.Claimed.IsZero() && !strings.HasPrefix(t.Reason, gaveUp)
}

// since is an instant that may not be there.
type since struct{ at time.Time }

func (s *since) time() time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.at
}

func (c *catchUps) one(accept, work context.Context, e *entry, t tick.Tick, turn *lease.Lease) {
	select {
	case <-turn.Lost():
		return
	case <-accept.Done():
		return
	default:
	}
	if c.brakes.try(e.Spec.Key()) > 0 {
		return
	}
	a, err := c.claimLate(accept, e, t)
	if err != nil || a.Status != tick.Won {
		return // the next sweep looks again
	}
	c.log.Info("catching up on a missed tick", "event", "catch-up", "job", e.key(), "tick", stamp(t.At))
	c.carryOut(accept, work, e, a.Tick, true)
	e.scanned.Store(nil) // it may have come to nothing once more
}

// claimLate claims a tick that nobody has, or one that ended without a run.
func (c *catchUps) claimLate(ctx context.Context, e *entry, t tick.Tick) (tick.Answer, error) {
	if t.State != tick.Closed {
		return c.b.Book.Claim(ctx, tick.Want{Job: e.Spec.Key(), At: t.At, Generation: e.generation})
	}
	known, ok, err := c.registry.registered(ctx, e.Spec.Key())
	if err != nil || !ok || known.Generation != e.generation || known.Pause.Covers(c.b.now()) {
		return tick.Answer{}, err
	}
	return c.b.Book.Fill(ctx, t)
}
