package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/history"
)

// outbox keeps what the store did not accept, on this host's disk (Backend.Spool) or else in memory, and delivers it
// later (rule T9).
type outbox struct {
	b        *Backend
	registry *registry
	notifier *notifier
	outcomes *outcomes
	overflow overflow
	hanging  atomic.Int64 // writes to this host's disk that were given up, and have not been answered
	sweeping atomic.Bool  // a Server of this process delivers, several times per TTL
}

// put keeps an item on this host. If the disk does not answer, it waits as long as a dead process would keep others
// from starting; an item that the disk accepts later is kept all the same. No other caller waits for the disk until
// it has answered.
func (o *outbox) put(i Item) error {
	if o.b.Spool == nil {
		return errors.New("there is no spool")
	}
	if o.hanging.Load() > 0 {
		return errors.New("this host's disk has not answered yet to an earlier write")
	}
	put := make(chan error, 1)
	go func() { put <- o.b.Spool.Put(i) }()
	enough := time.NewTimer(o.b.Keeper.Margin().TTL)
	defer enough.Stop()
	select {
	case err := <-put:
		return err
	case <-enough.C:
	}
	o.hanging.Add(1)
	go func() { <-put; o.hanging.Add(-1) }()
	return fmt.Errorf("it was not on this host's disk after %s; the write may still succeed", o.b.Keeper.Margin().TTL)
}

// keep keeps an item on this host, or logs an error that it could not, and remembers the item.
func (o *outbox) keep(i Item, cause error) {
	if err := o.put(i); err != nil {
		remembered := o.overflow.add(i)
		o.b.log().Error("an outcome could not be recorded, here or in the store", "store", o.b.Name, "item", i.String(), "cause", cause,
			"spool", err, "tried_again", remembered)
		return
	}
	o.b.log().Warn("kept on this host for later delivery to the store", "store", o.b.Name, "cause", cause)
}

// deliver implements Backend.Deliver or, with all, Backend.DeliverAll.
func (o *outbox) deliver(ctx context.Context, all bool) error {
	var last undeliverable
	unclaimed := map[string]*group{}
	give := func(i Item) error {
		if ctx.Err() != nil { // a spool may be long, and whoever delivers it has other things to do
			return ErrEnough
		}
		err := o.deliverOne(ctx, i, all, unclaimed)
		last.some = last.some || err == nil
		switch {
		case err == nil || errors.Is(err, ErrNotYet):
		case ctx.Err() != nil:
			err = ErrEnough // it went unanswered since the time was up
		default:
			last.item, last.error = i.String(), err
		}
		return err
	}
	err := o.deliverOverflow(ctx, give)
	if err == nil && o.b.Spool != nil {
		err = o.b.Spool.Deliver(give)
	}
	for _, u := range unclaimed {
		o.notifier.notify(u.Happening)
	}
	switch {
	case errors.Is(err, ErrEnough):
		last.error = err
		return &last
	case err != nil && last.error != nil:
		return fmt.Errorf("deliver the records on this host: %w", &last)
	case err != nil:
		return fmt.Errorf("deliver the records on this host: %w", err)
	}
	return nil
}

// deliverOne delivers one item to the store, and tells hooks what the store accepted; ticks that nobody could claim
// are gathered first.
func (o *outbox) deliverOne(ctx context.Context, i Item, all bool, unclaimed map[string]*group) error {
	switch {
	case i.Close != nil:
		_, what, err := o.outcomes.close(ctx, *i.Close, true)
		o.notifier.outcome(what, i.Close.Run, "", nil)
		return err
	case i.Unavailable != nil:
		return o.witness(ctx, *i.Unavailable, unclaimed)
	case i.Event != nil && !all && o.b.now().Sub(i.Event.At) < aggregateFor:
		return ErrNotYet
	case i.Event != nil:
		return o.b.History.Append(ctx, []history.Event{*i.Event})
	}
	return nil
}

// undeliverable says which item the store did not accept, and whether it accepted some.
type undeliverable struct {
	error
	item string
	some bool
}

// Unwrap returns the store's error.
func (u *undeliverable) Unwrap() error { return u.error }
