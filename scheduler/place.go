// Package scheduler is the one path of a fire: claim the tick, then the lease, run, record. The
// server that follows a manifest, a single fire, and what comes after a crash all go through it.
package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/aside"
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
	// at once (rule L6), as lease.Want's does: who wants the lease waits for its answer. Nil: never.
	Gone func(ctx context.Context, r lease.Record, held func() bool) bool
	// OnHeldBack hears that the store grants nothing for a while (rule L9). Nobody waits for it. Nil: Log has one line
	// for each time, and history an event.
	OnHeldBack func(time.Duration)
	// OnHeld hears of the holder that a fire waits for, once per holder. Nobody waits for it.
	OnHeld func(*lease.HeldError)
	// OnOverrun is lease.Guard's. Nobody waits for it.
	OnOverrun func(*lease.Lease)
	// Spool keeps outcomes that could not be delivered, for any later dibs on this host (rule T9). A run that
	// has ended holds its lease for a TTL at most while an outcome is put there.
	Spool Spool
	// Hooks are told what happens to jobs. Nobody waits for them: what they do not take in time is not told, and the
	// log has a line for each. Nil: nobody is told.
	Hooks Hooks
	// TimeOfDay is this host's own clock, to be compared with the store's; nothing is decided by it. It is read like a
	// clock, and returns at once. Nil: it is not compared.
	TimeOfDay func() time.Time
	// Log takes one line per event. Nobody waits for it: lines that it does not take in time are dropped, and
	// counted in a line of their own. Default slog.Default().
	Log *slog.Logger

	folds    folds
	together together
	// sweeping says that a Server of this process delivers the spool, several times per TTL.
	sweeping atomic.Bool
	once     sync.Once
	unkept   unkept
	backTold atomic.Int64 // until when the store holds back that was told of last, in ns of the Keeper's Boot
	hanging  atomic.Int64 // writes to this host's disk that were given up, and have not been answered
	printed  printed
	bounded  *slog.Logger // Log, which nobody waits for
	telling  aside.Queue  // Hooks, which nobody waits for
}

// A Spool keeps, on this host and through a crash, what a store could not be told.
type Spool interface {
	// Put returns once the item is on the disk.
	Put(Item) error
	// Deliver hands over each item for this place, oldest first, and forgets those for which
	// give returns nil. One for which it returns ErrNotYet is kept, and holds up nothing; ErrEnough
	// ends the delivery, and keeps all that is left in its place.
	Deliver(give func(Item) error) error
}

// Item is one thing to tell the store later: an outcome, that this host could not claim a tick, or an
// event that nobody waits for.
type Item struct {
	Close       *tick.CloseRequest `json:"close,omitempty"`
	Unavailable *Unclaimed         `json:"unavailable,omitempty"`
	// Event has an ID and an At. Of those that are alike a spool may give one that stands for all,
	// with the ID of the first.
	Event *history.Event `json:"event,omitempty"`
}

// ErrNotYet is returned to a Spool for an item that is to be kept until its time has come.
var ErrNotYet = errors.New("not yet")

// ErrEnough is returned to a Spool that is to stop delivering, and by Deliver when something was left.
var ErrEnough = errors.New("the rest is delivered later")

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
	// Until is when the tick can no longer be started by others: before that it is theirs. Zero: it
	// cannot now.
	Until time.Time `json:"until,omitzero"`
}

func (p *Place) log() *slog.Logger {
	p.once.Do(func() { p.bounded = aside.Logger(cmp.Or(p.Log, slog.Default())) })
	return p.bounded
}

// now is the store's time; before the first answer, the zero time.
func (p *Place) now() time.Time {
	t, _ := p.Keeper.Now(context.Background())
	return t
}

// Event records something that nobody should have to guess; history may be down, the log is not. Of
// many that are alike the first is written at once, and the others are counted.
func (p *Place) Event(ctx context.Context, e history.Event) {
	level := slog.LevelInfo
	switch e.Kind {
	case "run-crashed":
		level = slog.LevelError
	case "clock-offset", "clock-step", "definition-unreadable", "hook-failed", "leftovers", "manifest-differs", "tick-taken-over":
		level = slog.LevelWarn
	}
	args := []any{"event", e.Kind}
	for _, a := range []struct{ name, value string }{{"job", e.Job}, {"tick", stamp(e.Tick)}, {"run_id", e.RunID}} {
		if a.value != "" {
			args = append(args, a.name, a.value)
		}
	}
	p.log().Log(ctx, level, e.Reason, args...)
	p.Record(ctx, e)
}

// Record is Event without the line in the log.
func (p *Place) Record(ctx context.Context, e history.Event) {
	e.Host, e.Reason = p.Self.Host, clean(e.Reason)
	if p.History == nil {
		return
	}
	if e.At = p.now(); !e.At.IsZero() && p.folds.take(e) {
		return
	}
	if _, err := p.batches().events.Do(context.WithoutCancel(ctx), e); err != nil {
		p.log().Warn("could not record an event", "event", e.Kind, "error", err)
	}
}

// Tell records one event at once, or says why it could not; nothing is told where the store keeps no history.
func (p *Place) Tell(ctx context.Context, e history.Event) error {
	e.Host, e.Reason = p.Self.Host, clean(e.Reason)
	if p.History == nil {
		return nil
	}
	return p.History.Append(ctx, []history.Event{e})
}

// Deliver tells the store what it could not be told before: this host's spool. It stops at the first
// item that the store does not take, and when ctx ends: then it returns ErrEnough. An event of which more may come
// is kept for a minute.
func (p *Place) Deliver(ctx context.Context) error { return p.deliver(ctx, false) }

// DeliverAll tells it all of that, for somebody who looks at it now.
func (p *Place) DeliverAll(ctx context.Context) error { return p.deliver(ctx, true) }

func (p *Place) deliver(ctx context.Context, all bool) error {
	var last undeliverable
	unclaimed := map[string]*unrun{}
	give := func(i Item) error {
		if ctx.Err() != nil { // a spool may be long, and whoever delivers it has other things to do
			return ErrEnough
		}
		err := p.deliverOne(ctx, i, all, unclaimed)
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
	err := p.deliverUnkept(ctx, give)
	if err == nil && p.Spool != nil {
		err = p.Spool.Deliver(give)
	}
	for _, u := range unclaimed {
		p.tell(u.Happening)
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

// deliverOne tells the store one item, and hooks what the store took; ticks that nobody could claim are
// gathered first.
func (p *Place) deliverOne(ctx context.Context, i Item, all bool, unclaimed map[string]*unrun) error {
	switch {
	case i.Close != nil:
		_, what, err := p.close(ctx, *i.Close, true)
		p.tellNews(what, i.Close.Run, "", nil)
		return err
	case i.Unavailable != nil:
		return p.witness(ctx, *i.Unavailable, unclaimed)
	case i.Event != nil && !all && p.now().Sub(i.Event.At) < foldFor:
		return ErrNotYet
	case i.Event != nil:
		return p.History.Append(ctx, []history.Event{*i.Event})
	}
	return nil
}

// undeliverable says which item the store did not take, and whether it took some.
type undeliverable struct {
	error
	item string
	some bool
}

func (u *undeliverable) Unwrap() error { return u.error }

// witness says of a tick that this host could not claim it. If a claim of this very process was
// carried out all the same, unanswered, it is that which ends so.
func (p *Place) witness(ctx context.Context, u Unclaimed, told map[string]*unrun) error {
	if now, err := p.Keeper.Now(ctx); err != nil {
		return err
	} else if now.Before(u.Until) {
		return ErrNotYet
	}
	outcome, reason := run.Unavailable, "store unavailable, seen by "+p.Self.Host
	known, ok, err := p.registered(ctx, u.Job)
	if err != nil {
		return err
	}
	if !ok || !p.due(ctx, known, u.At) {
		p.log().Info("a tick that could not be claimed no longer exists: its job's definition has changed", "event", "tick-void", "job", u.Job, "tick", stamp(u.At))
		return nil
	}
	if known.Pause.Covers(u.At) { // nobody was to run it, whatever the store did
		outcome, reason = run.Paused, PausedBy(known.Pause)
	}
	a, err := p.Book.Claim(ctx, tick.Want{Job: u.Job, At: u.At, Generation: known.Generation, Outcome: outcome, Reason: reason})
	switch {
	case err != nil:
		return err
	case a.Status == tick.Differs:
		return fmt.Errorf("%s: its definition has just changed", u.Job) // the next delivery looks again
	case a.Status == tick.Early: // the store's clock has stepped back: the tick may still be run
		return ErrNotYet
	}
	if a.Tick.State == tick.Claimed {
		l, err := p.Book.Server(ctx)
		if err != nil || a.Tick.Lease != l.Ref() {
			return err
		}
		if a, err = p.Book.Close(ctx, tick.CloseRequest{Claim: l.Ref(), Run: run.Record{Job: u.Job, Tick: u.At,
			Owner: l.Ref().Owner, Token: l.Token(), Host: p.Self.Host, Outcome: outcome, Reason: reason}}); err != nil {
			return err
		}
	}
	if a.Status == tick.Won && outcome == run.Unavailable {
		if told[u.Job] == nil {
			told[u.Job] = new(unrun)
		}
		told[u.Job].add(u.Job, u.At, outcome, reason)
	}
	return nil
}

// due says whether an instant is a tick of a registered definition, or lies before it: there the
// store refuses what is settled.
func (p *Place) due(ctx context.Context, known tick.Job, at time.Time) bool {
	since := known.Since
	for _, d := range p.definitions(ctx, known) {
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

// put keeps an item on this host. A disk that does not answer is waited for as long as a process that died
// would keep others from starting; what it takes later is there all the same. Nobody else waits for it until it
// has answered.
func (p *Place) put(i Item) error {
	if p.Spool == nil {
		return errors.New("there is no spool")
	}
	if p.hanging.Load() > 0 {
		return errors.New("this host's disk has not answered yet to an earlier write")
	}
	put := make(chan error, 1)
	go func() { put <- p.Spool.Put(i) }()
	enough := time.NewTimer(p.Keeper.Margin().TTL)
	defer enough.Stop()
	select {
	case err := <-put:
		return err
	case <-enough.C:
	}
	p.hanging.Add(1)
	go func() { <-put; p.hanging.Add(-1) }()
	return fmt.Errorf("it was not on this host's disk after %s; the write may still succeed", p.Keeper.Margin().TTL)
}

// spool keeps an item on this host, or says loudly that it could not, and remembers it.
func (p *Place) spool(i Item, cause error) {
	if err := p.put(i); err != nil {
		remembered := p.unkept.add(i)
		p.log().Error("an outcome could not be recorded, here or in the store", "place", p.Name, "item", i.String(), "store", cause,
			"spool", err, "tried_again", remembered)
		return
	}
	p.log().Warn("kept on this host for later delivery to the store", "place", p.Name, "cause", cause)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
