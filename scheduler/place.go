// Package scheduler is the one path of a fire: claim the tick, then the lease, run, record. The
// server that follows a manifest, a single fire, and what comes after a crash all go through it.
package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A Place is where a job's lease, claims and history live, all three together (rule T9): the
// host's own directory for jobs of scope host, the shared store for those of scope global.
type Place struct {
	// Name is what people know it by: "host", or the store's address without its password.
	Name    string
	Keeper  *lease.Keeper
	Book    *tick.Book
	Ticks   tick.Store
	History history.Store
	// Self describes this process as a holder.
	Self lease.Holder
	// Descriptor and Detach are the directory's: see store.Store. Nil elsewhere.
	Descriptor func(lease.Ref) (*os.File, error)
	Detach     func(lease.Ref) error
	// Gone proves that a dead holder's work on this host is gone, so that its lease can be had
	// at once (rule L6). Nil: never.
	Gone func(ctx context.Context, r lease.Record, held func() bool) bool
	// OnHeldBack hears that the store grants nothing for a while (rule L9).
	OnHeldBack func(time.Duration)
	// OnOverrun is lease.Guard's.
	OnOverrun func(*lease.Lease)
	// Spool keeps outcomes that could not be delivered, for any later dibs on this host (rule T9).
	Spool Spool
	// TimeOfDay is this host's own clock, to be compared with the store's; nothing is decided by it.
	// Nil: it is not compared.
	TimeOfDay func() time.Time
	// Log takes one line per event. Default slog.Default().
	Log *slog.Logger
}

// A Spool keeps, on this host and through a crash, what a store could not be told.
type Spool interface {
	// Put returns once the item is on the disk.
	Put(Item) error
	// Deliver hands over each item for this place, oldest first, and forgets those for which
	// give returns nil.
	Deliver(give func(Item) error) error
}

// Item is one thing to tell the store later: an outcome, or that this host could not claim a tick.
type Item struct {
	Close       *tick.CloseRequest `json:"close,omitempty"`
	Unavailable *Unclaimed         `json:"unavailable,omitempty"`
}

// String is the item as JSON.
func (i Item) String() string {
	b, err := json.Marshal(i)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Unclaimed is a tick that this host wanted to claim and could not.
type Unclaimed struct {
	Job string    `json:"job"`
	At  time.Time `json:"tick"`
}

func (p *Place) log() *slog.Logger {
	if p.Log != nil {
		return p.Log
	}
	return slog.Default()
}

// now is the store's time; before the first answer, the zero time.
func (p *Place) now() time.Time {
	t, _ := p.Keeper.Now(context.Background())
	return t
}

// Event records something that nobody should have to guess; history may be down, the log is not.
func (p *Place) Event(ctx context.Context, e history.Event) {
	e.Host = p.Self.Host
	p.log().Info(e.Reason, "event", e.Kind, "job", e.Job, "tick", stamp(e.Tick), "run_id", e.RunID)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.Keeper.Margin().RPCTimeout)
	defer cancel()
	if err := p.History.Append(ctx, []history.Event{e}); err != nil {
		p.log().Warn("could not record an event", "event", e.Kind, "error", err)
	}
}

// Deliver tells the store what it could not be told before: this host's spool. It stops at the first
// item that the store does not take.
func (p *Place) Deliver(ctx context.Context) error {
	if p.Spool == nil {
		return nil
	}
	err := p.Spool.Deliver(func(i Item) error {
		var err error
		switch {
		case i.Close != nil:
			_, err = p.Book.Close(ctx, *i.Close)
		case i.Unavailable != nil:
			err = p.witness(ctx, *i.Unavailable)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("deliver what was kept on this host: %w", err)
	}
	return nil
}

// witness says of a tick that this host could not claim it. If a claim of this very process was
// carried out all the same, unanswered, it is that which ends so.
func (p *Place) witness(ctx context.Context, u Unclaimed) error {
	outcome, reason := run.Unavailable, "store unavailable, seen by "+p.Self.Host
	known, _, err := p.registered(ctx, u.Job)
	if err != nil {
		return err
	}
	if known.Pause.Covers(u.At) { // nobody was to run it, whatever the store did
		outcome, reason = run.Paused, PausedBy(known.Pause)
	}
	a, err := p.Book.Claim(ctx, tick.Want{Job: u.Job, At: u.At, Outcome: outcome, Reason: reason})
	if err != nil || a.Tick.State != tick.Claimed {
		return err
	}
	l, err := p.Book.Server(ctx)
	if err != nil || a.Tick.Lease != l.Ref() {
		return err
	}
	_, err = p.Book.Close(ctx, tick.CloseRequest{Claim: l.Ref(), Run: run.Record{Job: u.Job, Tick: u.At,
		Owner: l.Ref().Owner, Token: l.Token(), Host: p.Self.Host, Outcome: outcome, Reason: reason}})
	return err
}

// spool keeps an item on this host, or says loudly that it could not.
func (p *Place) spool(i Item, cause error) {
	err := errors.New("there is no spool")
	if p.Spool != nil {
		err = p.Spool.Put(i)
	}
	if err != nil {
		p.log().Error("an outcome could not be recorded, here or in the store", "place", p.Name, "item", i.String(), "store", cause, "spool", err)
		return
	}
	p.log().Warn("kept on this host, to be told to the store later", "place", p.Name, "cause", cause)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
