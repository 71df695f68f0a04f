package lease

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-run/dibs/internal/coalesce"
	"github.com/dibs-run/dibs/observe"
)

// Want describes an acquire. Only Key is required.
type Want struct {
	Key Key
	// Holder describes the holder. The Keeper sets its ID.
	Holder Holder
	// Wait is how long to wait for a key that is held. Default 0: do not wait. Negative: wait for ever.
	Wait time.Duration
	// Prove waits until the current holder has renewed since contention began, or has lapsed. So a dead holder
	// costs one TTL at most, and no tick (rule T5).
	Prove bool
	// Unguarded disregards requests of the last holder that may still be at work (`on_lost_request: proceed`, rule
	// L8).
	Unguarded bool
	// Gone proves that the work of a holder on this very host is gone, or ends it, so that its lease can be had at
	// once (rule L6). Nil: never. It is not called while a request of the holder may be at work elsewhere: nothing on
	// this host proves anything about that request (rule L8).
	//
	// Before Gone ends any work, it calls held, once it knows that the holder itself is gone. held says whether the
	// hold is still on record. Work whose lease was released is left alone (rule L7). The acquire waits for Gone, so
	// Gone must return soon after ctx has ended.
	Gone func(ctx context.Context, r Record, held func() bool) bool
	// OnHeldBack is called if the store grants nothing for a while (rule L9). Acquire waits for the end of that,
	// whatever Wait says, since it means neither "held" nor "unavailable". OnHeldBack and OnHeld run on goroutines
	// of their own, one call at a time. No acquire waits for them, and a call may come after Acquire has returned.
	// If calls are slower than the news, only the latest is passed on.
	OnHeldBack func(wait time.Duration)
	// OnHeld is called once for each holder that the acquire waits for.
	OnHeld func(*HeldError)
}

// Acquire gets a lease. If another holder has the key, the error is a *HeldError. If the store does not answer, it
// wraps ErrUnavailable; if the Keeper was closed, ErrClosed. Other errors say why the key cannot be granted, such
// as a TTL that is too long. When ctx ends, Acquire returns its cause and leaves nothing behind. It is safe for
// concurrent use.
func (k *Keeper) Acquire(ctx context.Context, w Want) (*Lease, error) {
	w.Holder.ID = NewNonce()
	a := &attempt{keeper: k, want: w}
	var began time.Duration
	if w.Wait > 0 || k.observe != nil { // else nobody needs it, and asking the clock is a system call
		began = k.clock.Boot()
	}
	if w.Wait > 0 {
		a.deadline = began + w.Wait
	}
	var waiting context.Context
	for {
		l, err := a.try(ctx)
		if err == nil {
			if ctx.Err() != nil {
				_ = l.Release(ctx)
				return nil, context.Cause(ctx)
			}
			if k.observe != nil {
				k.observe(observe.Event{On: observe.Started, Of: observe.Lease, Name: string(w.Key), Wait: k.clock.Boot() - began})
			}
			return l, nil
		}
		if waiting == nil {
			var stop context.CancelFunc
			waiting, stop = context.WithCancel(ctx) // ends the notifications
			defer stop()
		}
		if err := a.pause(waiting, err); err != nil {
			return nil, err
		}
	}
}

// attempt is one call of Acquire.
type attempt struct {
	keeper   *Keeper
	want     Want
	deadline time.Duration // boot instant
	reclaim  Ref
	late     int
	stalled  bool
	polls    int
	holder   Nonce     // the holder last seen
	since    time.Time // the store instant at which contention with it began
	listened bool
	events   <-chan struct{}
	told     struct{ held, heldBack hearer }
}

// errLate is an acquire that reached the store too late.
var errLate = fmt.Errorf("%w: the request arrived too late", ErrUnavailable)

// heldBackError is rule L9's refusal.
type heldBackError struct{ wait time.Duration }

func (e heldBackError) Error() string {
	return fmt.Sprintf("the store is new or was restarted, and grants nothing for another %s", e.wait)
}

// try asks the store once.
func (a *attempt) try(ctx context.Context) (*Lease, error) {
	r, err := a.ask(ctx, a.keeper.margin.TTL)
	var open unansweredError
	switch {
	case errors.As(err, &open):
		return a.settle(ctx, open)
	case err != nil:
		return nil, err
	}
	return a.keeper.granted(r.Record, r.now, r.sent)
}

// ask asks the store once, and returns what it answers to a grant.
func (a *attempt) ask(ctx context.Context, ttl time.Duration) (reply, error) {
	k := a.keeper
	if !k.time.known() {
		if err := k.Sync(ctx); err != nil {
			return reply{}, err
		}
	}
	req := AcquireRequest{Key: a.want.Key, Holder: a.want.Holder, TTL: ttl, Reclaim: a.reclaim, Unguarded: a.want.Unguarded}
	a.reclaim = Ref{}
	r, err := k.acquires.Do(context.Background(), req) // ctx leaves no request behind
	switch {
	case errors.Is(err, coalesce.ErrClosed): // it was never sent
		return reply{}, fmt.Errorf("lease %q: %w", a.want.Key, ErrClosed)
	case err != nil:
		return reply{}, err
	}
	switch r.Status {
	case OK:
		return r, nil
	case Held:
		a.stalled = false // another silence is a first one again
		return reply{}, &HeldError{Record: r.Record, Now: r.now}
	case Late:
		return reply{}, errLate
	case HeldBack:
		a.stalled = false
		k.sawHoldBack(r.now, r.Until)
		return reply{}, heldBackError{r.Until.Sub(r.now)}
	case TooLong:
		return reply{}, fmt.Errorf("lease %q: ttl %s is longer than the store's max_ttl %s; raise it with `dibs init` and ?ttl=%s in the store's address",
			a.want.Key, k.margin.TTL, r.Until.Sub(r.now).Round(time.Millisecond), k.margin.TTL)
	}
	return reply{}, fmt.Errorf("lease %q: the store answered %q to an acquire", a.want.Key, r.Status)
}

// settle finds out what became of an acquire that was not answered. It waits until the request can no longer be
// carried out: only then does reading the record back tell (rule L1). A store that answers this is up again, and
// worth one more try.
func (a *attempt) settle(ctx context.Context, open unansweredError) (*Lease, error) {
	k, cause := a.keeper, open.error
	// The request's not_after ends one rpc timeout after the sending at the latest, by this clock. The margin's rho
	// covers the drift between the clocks.
	if !sleep(context.WithoutCancel(ctx), open.sent+k.margin.RPCTimeout+k.margin.drift()-k.clock.Boot()) {
		return nil, cause
	}
	r, err := k.reads.Do(context.WithoutCancel(ctx), a.want.Key)
	if err != nil {
		return nil, cause
	}
	if rec := r.Record; rec.Owner == a.want.Holder.ID && rec.Live(r.now) {
		return k.granted(rec, r.now, r.sent)
	}
	return nil, stalledError{cause}
}

// unansweredError is a request that was sent at a boot instant and not answered: nobody knows what became of it.
type unansweredError struct {
	sent time.Duration
	error
}

func (e unansweredError) Unwrap() error { return e.error }

// stalledError is an acquire that the store did not carry out while it was silent. The store answers again, so one
// more try is worth it.
type stalledError struct{ error }

func (e stalledError) Unwrap() error { return e.error }

// granted makes a Lease of what the store described at its instant now, in answer to a request sent at a boot
// instant. The record may be that of an earlier request, so only what is left of the lease counts. now lies after the
// sending, so counting from the sending is safe.
//
// A lease that would be lost before its first heartbeat is renewed first; if that fails, it is not handed out. If the
// Keeper was closed meanwhile, the lease is given back, since nobody would watch over it.
func (k *Keeper) granted(r Record, now time.Time, sent time.Duration) (*Lease, error) {
	left := min(r.Expires.Sub(now), k.margin.TTL)
	l := &Lease{keeper: k, ref: r.Ref(), record: r, sent: sent - (k.margin.TTL - left),
		lost: make(chan struct{}), wanted: make(chan struct{})}
	if !l.roomy() {
		k.renewNow(l)
	}
	if !l.roomy() {
		return nil, stalledError{fmt.Errorf("lease %q: %w: it was granted, but expired before it could be used", l.ref.Key, ErrUnavailable)}
	}
	if k.add(l) {
		return l, nil
	}
	_, _ = k.sendReleases([]Ref{l.ref}) // else it lapses
	return nil, fmt.Errorf("lease %q: %w while it was acquired", l.ref.Key, ErrClosed)
}

// pause waits before the next try, or returns the error that ends the call.
func (a *attempt) pause(ctx context.Context, err error) error {
	var (
		held    *HeldError
		back    heldBackError
		stalled stalledError
	)
	switch {
	case errors.As(err, &stalled):
		if a.stalled {
			return stalled.error
		}
		a.stalled = true
		return ctx.Err()
	case errors.As(err, &back):
		a.tellHeldBack(back)
		a.deadline += back.wait
		return a.sleep(ctx, back.wait+time.Millisecond)
	case a.again(err):
		return a.keeper.Sync(ctx)
	case errors.As(err, &held):
		return a.contend(ctx, held)
	}
	return err
}

func (a *attempt) tellHeldBack(back heldBackError) {
	if a.want.OnHeldBack != nil {
		a.told.heldBack.tell(func() { a.want.OnHeldBack(back.wait) })
	}
}

// again reports whether a request only came too late, and not too often.
func (a *attempt) again(err error) bool {
	if errors.Is(err, errLate) {
		a.late++
		return a.late <= 2
	}
	return false
}

// contend decides about a holder that is in the way: take over from a dead one, wait, or give up.
func (a *attempt) contend(ctx context.Context, held *HeldError) error {
	if a.holder != held.Record.Owner {
		a.holder, a.since = held.Record.Owner, held.Now
		if a.want.OnHeld != nil {
			a.told.held.tell(func() { a.want.OnHeld(held) })
		}
	}
	if a.reclaimable(ctx, held) {
		a.reclaim = held.Record.Ref()
		return nil
	}
	a.keeper.trim(ctx, held)
	proven := !a.want.Prove || held.Record.Renewed.After(a.since)
	left := a.deadline - a.keeper.clock.Boot()
	if a.want.Wait >= 0 && left <= 0 && proven {
		return held
	}
	a.listen(ctx)
	wait := a.poll()
	if lapse := held.Record.Expires.Sub(held.Now); lapse > 0 {
		wait = min(wait, lapse) // else something outlives the lease: a request, somebody's named lock
	}
	if a.want.Wait > 0 && left > 0 {
		wait = min(wait, left)
	}
	return a.sleep(ctx, wait)
}

// reclaimable reports whether the holder's work is proven gone. Gone proves it for work on this host. A request may
// be at work in an application, so for that only BusyUntil counts (rule L8).
func (a *attempt) reclaimable(ctx context.Context, held *HeldError) bool {
	// A record of another key is a store's mistake, or a claim by somebody to that key's work.
	if a.want.Gone == nil || held.Record.Key != a.want.Key || a.busy(held.Record, held.Now) {
		return false
	}
	still := func() bool {
		_, r, err := a.keeper.Read(ctx, a.want.Key)
		return err == nil && r.Ref() == held.Record.Ref() && !r.Expires.IsZero()
	}
	if !a.want.Gone(ctx, held.Record, still) {
		return false
	}
	// Until the holder was gone it could still record a request. From now on it cannot.
	now, r, err := a.keeper.Read(ctx, a.want.Key)
	return err == nil && r.Ref() == held.Record.Ref() && !a.busy(r, now)
}

// busy reports whether a request of the holder keeps the lease from being granted.
func (a *attempt) busy(r Record, now time.Time) bool {
	return !a.want.Unguarded && r.BusyUntil.After(now)
}

// poll is the time to the next look: quick at first, then twice a second.
func (a *attempt) poll() time.Duration {
	a.polls++
	d := min(time.Duration(a.polls)*20*time.Millisecond, 500*time.Millisecond)
	return d/2 + rand.N(d/2+1)
}

// listen asks the store for notifications, once. Without them, polling alone finds a free key. A silent store may not
// answer this either, so the acquire does not wait for it.
func (a *attempt) listen(ctx context.Context) {
	if a.listened || a.keeper.notify == nil {
		return
	}
	a.listened = true
	bound := a.keeper.margin.RPCTimeout
	if left := a.deadline - a.keeper.clock.Boot(); a.want.Wait > 0 {
		bound = min(bound, max(left, 0))
	}
	watching, giveUp := context.WithCancel(ctx)
	patience := time.AfterFunc(bound, giveUp)
	if c, err := a.keeper.notify.Watch(watching, a.want.Key); err == nil && patience.Stop() {
		a.events = c
	}
}

func (a *attempt) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case _, ok := <-a.events:
		if !ok {
			a.events = nil
		}
	}
	return nil
}

// sleep waits and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
