package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// witness records about a tick that this host could not claim it. If a claim of this very process was carried out
// all the same, unanswered, that claim ends so.
func (o *outbox) witness(ctx context.Context, u Unclaimed, groups map[string]*group) error {
	if now, err := o.b.Keeper.Now(ctx); err != nil {
		return err
	} else if now.Before(u.Until) {
		return ErrNotYet
	}
	outcome, reason := run.Unavailable, "store unavailable, seen by "+o.b.Self.Host
	known, ok, err := o.registry.registered(ctx, u.Job)
	if err != nil {
		return err
	}
	if !ok || !o.due(ctx, known, u.At) {
		o.b.log().Info("the job's definition has changed: dropping a tick that could not be claimed", "event", "tick-void", "job", u.Job, "tick", stamp(u.At))
		return nil
	}
	if known.Pause.Covers(u.At) { // nobody was to run it, whatever the store did
		outcome, reason = run.Paused, PauseText(known.Pause)
	}
	a, err := o.b.Book.Claim(ctx, tick.Want{Job: u.Job, At: u.At, Generation: known.Generation, Outcome: outcome, Reason: reason})
	switch {
	case err != nil:
		return err
	case a.Status == tick.Differs:
		return fmt.Errorf("%s: its definition has just changed", u.Job) // the next delivery looks again
	case a.Status == tick.Early: // the store's clock has stepped back: the tick may still be run
		return ErrNotYet
	}
	if a.Tick.State == tick.Claimed {
		l, err := o.b.Book.Server(ctx)
		if err != nil || a.Tick.Lease != l.Ref() {
			return err
		}
		if a, err = o.b.Book.Close(ctx, tick.CloseRequest{Claim: l.Ref(), Run: run.Record{Job: u.Job, Tick: u.At,
			Owner: l.Ref().Owner, Token: l.Token(), Host: o.b.Self.Host, Outcome: outcome, Reason: reason}}); err != nil {
			return err
		}
	}
	if a.Status == tick.Won {
		o.notifier.observe(run.Record{Job: u.Job, Tick: u.At, Outcome: outcome, Reason: reason}, observe.Skipped, 1)
	}
	if a.Status == tick.Won && outcome == run.Unavailable {
		if groups[u.Job] == nil {
			groups[u.Job] = new(group)
		}
		groups[u.Job].add(u.Job, u.At, outcome, reason)
	}
	return nil
}

// due reports whether an instant is a tick of a registered definition, or is before all of them: there the store
// refuses what is settled.
func (o *outbox) due(ctx context.Context, known tick.Job, at time.Time) bool {
	since := known.Since
	for _, d := range o.registry.definitions(ctx, known) {
		_, set, err := Registered(d)
		if err != nil {
			return true // whoever registered it can read it
		}
		if next, ok := set.Next(at.Add(-time.Microsecond)); ok && next.Equal(at) {
			return true
		}
		if d.Since.Before(since) {
			since = d.Since
		}
	}
	return at.Before(since)
}
