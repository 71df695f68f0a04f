package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// overlap gets the lease that the policy asks for, or says what becomes of the tick instead.
func (p *Backend) overlap(f Fire) (*lease.Lease, Result) {
	switch {
	case f.Policy.Concurrency == job.Allow:
		w := p.want(f, lease.OnceKey())
		return p.got(p.Keeper.Acquire(f.Accept, w))
	case f.Late:
		f.Wait = -1
	case f.Policy.Concurrency == job.Wait:
		return p.waitSlot(f)
	case f.Policy.Concurrency == job.Replace:
		return p.replace(f)
	}
	w := p.want(f, f.Key)
	if w.Wait = f.Wait; w.Wait > 0 {
		w.OnHeld = p.OnHeld
	}
	return p.got(p.Keeper.Acquire(f.Accept, w))
}

func (p *Backend) want(f Fire, key lease.Key) lease.Want {
	h := p.Self
	if f.Holder != nil {
		h = f.Holder(key, f.RunID)
	}
	h.RunID, h.Command, h.Replaceable = f.RunID, clean(f.Command), f.Policy.Concurrency == job.Replace
	return lease.Want{Key: key, Holder: h, OnHeldBack: p.heldBack, Gone: p.Gone,
		// A tick is skipped only against a holder that is proven alive (rule T5).
		Prove:     !f.Tick.IsZero(),
		Unguarded: f.Policy.OnLostRequest == job.LostRequestProceed}
}

// got turns an acquire's answer into the result of a fire.
func (p *Backend) got(l *lease.Lease, err error) (*lease.Lease, Result) {
	var held *lease.HeldError
	switch {
	case err == nil:
		return l, Result{}
	case errors.As(err, &held):
		return nil, Result{Outcome: run.Skipped, Reason: run.ReasonOverlap, Held: held}
	case errors.Is(err, lease.ErrUnavailable), errors.Is(err, lease.ErrLost):
		return nil, Result{Outcome: run.Unavailable, Reason: err.Error(), Err: err, again: true}
	}
	// The wait was ended from here: what was claimed lapses with this process, and others may
	// take it over (rule T2).
	return nil, Result{Err: err}
}

// waitTurn waits in the one slot there is: a lease beside the lease, so that a dead waiter frees
// it (rule T7).
func (p *Backend) waitSlot(f Fire) (*lease.Lease, Result) {
	w := p.want(f, f.Key)
	w.Prove = false
	l, err := p.Keeper.Acquire(f.Accept, w)
	if held := (*lease.HeldError)(nil); !errors.As(err, &held) {
		return p.got(l, err)
	}
	slot, err := p.Keeper.Acquire(f.Accept, p.want(f, f.Key.Next()))
	if err != nil {
		l, res := p.got(nil, err)
		if res.Held != nil {
			res.Reason = run.ReasonQueueFull
		}
		return l, res
	}
	defer slot.Release(context.WithoutCancel(f.Accept)) //nolint:errcheck // it lapses by itself
	ctx, cancel := context.WithCancelCause(f.Accept)
	defer cancel(nil)
	stop := context.AfterFunc(lostContext(ctx, slot), func() { cancel(slot.Loss().Err) })
	defer stop()
	w.Wait, w.OnHeld = -1, p.OnHeld
	return p.got(p.Keeper.Acquire(ctx, w))
}

// replace asks the holder to stop and starts only after it has (promise 13).
func (p *Backend) replace(f Fire) (*lease.Lease, Result) {
	w := p.want(f, f.Key)
	w.Prove = false
	m := p.Keeper.Margin()
	patience := m.TTL + max(f.Policy.StopGrace, m.LostGrace) + m.Kill
	begun := p.now()
	until := begun.Add(patience)
	for {
		l, err := p.Keeper.Acquire(f.Accept, w)
		held := (*lease.HeldError)(nil)
		if !errors.As(err, &held) {
			return p.got(l, err)
		}
		if !held.Record.Holder.Replaceable {
			return p.got(p.Keeper.Acquire(f.Accept, p.want(f, f.Key))) // nothing to ask for: as under Forbid
		}
		res := Result{Outcome: run.Skipped, Held: held}
		if held.Record.Acquired.After(begun) { // it came after us, and was faster
			res.Reason = run.ReasonSuperseded
			return nil, res
		}
		switch err := p.ask(f, held.Record); {
		case err != nil:
			return p.got(nil, err)
		case !p.now().Before(until): // as await has it
			res.Reason = run.ReasonHolderStuck
			return nil, res
		}
		if newer, err := p.await(f, held.Record, until); err != nil {
			return p.got(nil, err)
		} else if newer {
			res.Reason = run.ReasonSuperseded
			return nil, res
		}
	}
}

// ask writes the request on the holder's record.
func (p *Backend) ask(f Fire, r lease.Record) error {
	by := p.want(f, f.Key).Holder
	by.ID = lease.NewNonce()
	ok, err := p.Keeper.Ask(f.Accept, r.Ref(), by)
	if ok {
		p.Event(f.Accept, history.Event{Kind: "replace-asked", Key: string(f.Key), Job: string(f.Key), Tick: f.Tick, RunID: f.RunID,
			Reason: fmt.Sprintf("asked %s to stop", r.Holder)})
	}
	return err
}

// await returns when the holder asked is gone, when a newer request has displaced ours, or when
// patience ends.
func (p *Backend) await(f Fire, r lease.Record, until time.Time) (newer bool, err error) {
	for p.now().Before(until) {
		now, cur, err := p.Keeper.Read(f.Accept, f.Key)
		switch {
		case err != nil:
			return false, err
		case cur.Owner != r.Owner || !cur.Live(now) && !cur.BusyUntil.After(now):
			return false, nil
		case cur.Wanted != nil && cur.Wanted.RunID != f.RunID:
			return true, nil
		}
		select {
		case <-f.Accept.Done():
			return false, context.Cause(f.Accept)
		case <-time.After(min(p.Keeper.Margin().Heartbeat/4, 200*time.Millisecond)):
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

func skipEvent(f Fire, res Result) history.Event {
	return history.Event{Kind: "tick-skipped", Key: string(f.Key), Job: string(f.Key), Tick: f.Tick,
		Reason: fmt.Sprintf("%s: held by %s since %s", res.Reason, res.Held.Record.Holder, stamp(res.Held.Record.Acquired))}
}
