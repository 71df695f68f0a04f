package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// A contender gets the lease of one fire, as the job's policy asks (rules T5 and T7).
type contender struct {
	*parts
	Fire
}

// acquire gets the lease that the policy asks for, or returns what happens to the tick instead.
func (c *contender) acquire() (*lease.Lease, Result) {
	switch {
	case c.Policy.Concurrency == job.Allow:
		w := c.want(lease.OnceKey())
		return got(c.b.Keeper.Acquire(c.Accept, w))
	case c.Late:
		c.Wait = -1
	case c.Policy.Concurrency == job.Wait:
		return c.waitSlot()
	case c.Policy.Concurrency == job.Replace:
		return c.replace()
	}
	w := c.want(c.Key)
	if w.Wait = c.Wait; w.Wait > 0 {
		w.OnHeld = c.b.OnHeld
	}
	return got(c.b.Keeper.Acquire(c.Accept, w))
}

func (c *contender) want(key lease.Key) lease.Want {
	h := c.b.Self
	if c.Holder != nil {
		h = c.Holder(key, c.RunID)
	}
	h.RunID, h.Command, h.Replaceable = c.RunID, clean(c.Command), c.Policy.Concurrency == job.Replace
	return lease.Want{Key: key, Holder: h, OnHeldBack: c.recorder.heldBack, Gone: c.b.Gone,
		// A tick is skipped only against a holder that is proven alive (rule T5).
		Prove:     !c.Tick.IsZero(),
		Unguarded: c.Policy.OnLostRequest == job.LostRequestProceed}
}

// got turns an acquire's answer into the result of a fire.
func got(l *lease.Lease, err error) (*lease.Lease, Result) {
	var held *lease.HeldError
	switch {
	case err == nil:
		return l, Result{}
	case errors.As(err, &held):
		return nil, Result{Outcome: run.Skipped, Reason: run.ReasonOverlap, Held: held}
	case errors.Is(err, lease.ErrUnavailable), errors.Is(err, lease.ErrLost):
		return nil, Result{Outcome: run.Unavailable, Reason: err.Error(), Err: err, again: true}
	}
	// This process ended the wait: its claim lapses with it, and others may take it over (rule T2).
	return nil, Result{Err: err}
}

// waitSlot waits in the only slot: a lease beside the lease, so that a dead waiter frees it (rule T7). Whoever comes
// while another waits does not ask for the lease itself: at the instant when it is free it would overtake.
func (c *contender) waitSlot() (*lease.Lease, Result) {
	w := c.want(c.Key)
	w.Prove = false
	now, next, err := c.b.Keeper.Read(c.Accept, c.Key.Next())
	if err != nil {
		return got(nil, cmp.Or(context.Cause(c.Accept), err))
	}
	if !next.Live(now) {
		l, err := c.b.Keeper.Acquire(c.Accept, w)
		if held := (*lease.HeldError)(nil); !errors.As(err, &held) {
			return got(l, err)
		}
	}
	place := c.want(c.Key.Next())
	place.Prove = true // a waiter that is dead overtakes nobody, and keeps nobody out
	slot, err := c.b.Keeper.Acquire(c.Accept, place)
	if err != nil {
		l, res := got(nil, err)
		if res.Held != nil {
			res.Reason = run.ReasonQueueFull
		}
		return l, res
	}
	defer slot.Release(context.WithoutCancel(c.Accept)) //nolint:errcheck // it lapses by itself
	ctx, cancel := context.WithCancelCause(c.Accept)
	defer cancel(nil)
	stop := context.AfterFunc(lostContext(ctx, slot), func() { cancel(slot.Loss().Err) })
	defer stop()
	w.Wait, w.OnHeld = -1, c.b.OnHeld
	return got(c.b.Keeper.Acquire(ctx, w))
}

// replace asks the holder to stop and starts only after it has (promise 13).
func (c *contender) replace() (*lease.Lease, Result) {
	w := c.want(c.Key)
	w.Prove = false
	m := c.b.Keeper.Margin()
	patience := m.TTL + max(c.Policy.StopGrace, m.LostGrace) + m.Kill
	begun := c.b.now()
	until := begun.Add(patience)
	for {
		l, err := c.b.Keeper.Acquire(c.Accept, w)
		held := (*lease.HeldError)(nil)
		if !errors.As(err, &held) {
			return got(l, err)
		}
		if !held.Record.Holder.Replaceable {
			return got(c.b.Keeper.Acquire(c.Accept, c.want(c.Key))) // nothing to ask for: as under Forbid
		}
		res := Result{Outcome: run.Skipped, Held: held}
		if held.Record.Acquired.After(begun) { // it came after us, and was faster
			res.Reason = run.ReasonSuperseded
			return nil, res
		}
		switch err := c.ask(held.Record); {
		case err != nil:
			return got(nil, err)
		case !c.b.now().Before(until): // as await has it
			res.Reason = run.ReasonHolderStuck
			return nil, res
		}
		if newer, err := c.await(held.Record, until); err != nil {
			return got(nil, err)
		} else if newer {
			res.Reason = run.ReasonSuperseded
			return nil, res
		}
	}
}

// ask writes the request on the holder's record.
func (c *contender) ask(r lease.Record) error {
	by := c.want(c.Key).Holder
	by.ID = lease.NewNonce()
	ok, err := c.b.Keeper.RequestRelease(c.Accept, r.Ref(), by)
	if ok {
		c.recorder.event(c.Accept, history.Event{Kind: "replace-asked", Key: string(c.Key), Job: string(c.Key), Tick: c.Tick, RunID: c.RunID,
			Reason: fmt.Sprintf("asked %s to stop", r.Holder)})
	}
	return err
}

// await returns when the holder that was asked is gone, when a newer request has displaced this one, or when its
// patience ends.
func (c *contender) await(r lease.Record, until time.Time) (newer bool, err error) {
	for c.b.now().Before(until) {
		now, cur, err := c.b.Keeper.Read(c.Accept, c.Key)
		switch {
		case err != nil:
			return false, err
		case cur.Owner != r.Owner || !cur.Live(now) && !cur.BusyUntil.After(now):
			return false, nil
		case cur.Wanted != nil && cur.Wanted.RunID != c.RunID:
			return true, nil
		}
		select {
		case <-c.Accept.Done():
			return false, context.Cause(c.Accept)
		case <-time.After(min(c.b.Keeper.Margin().Heartbeat/4, 200*time.Millisecond)):
		}
	}
	return false, nil
}

// wantedContext ends when a newcomer asks for the lease.
func wantedContext(ctx context.Context, l *lease.Lease) context.Context { return ends(ctx, l.Wanted()) }

// lostContext ends when the lease is lost.
func lostContext(ctx context.Context, l *lease.Lease) context.Context { return ends(ctx, l.Lost()) }

// ends derives a context that ends without a trace of ctx when c is closed.
func ends(ctx context.Context, c <-chan struct{}) context.Context {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-c:
			cancel()
		case <-ctx.Done():
		}
	}()
	return out
}
