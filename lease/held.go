package lease

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/observe"
)

// A Lease is a hold that its Keeper renews until it is released, dropped or lost. It is safe for concurrent use.
//
// Invariant: SafeUntil only moves forward, and only after the store has answered a renewal. It counts from the
// sending of the request, so the store's own expiry is never earlier (rule L4).
type Lease struct {
	keeper *Keeper
	ref    Ref

	lost   chan struct{} // closed when the work must stop
	wanted chan struct{} // closed when a newcomer asks for the lease

	mu      sync.Mutex
	record  Record
	sent    time.Duration // boot instant of the last answered request
	busy    time.Time     // BusyUntil to keep stored
	loss    Loss
	ended   bool // released, dropped: renewals stop
	ending  bool // see Ending
	refusal bool // the last renewal was refused: it is not worth more than one per heartbeat
	onRenew map[int]func()
	hooked  int // how many functions OnRenew was given, ever
}

// Loss says how a lease was lost.
type Loss struct {
	// Err wraps ErrLost and says why.
	Err error
	// Kill is the boot instant by which the work must be gone; zero means at once.
	Kill time.Duration
}

// Ref returns the identity of the hold: key, owner and token. Pass it to everything that checks the hold.
func (l *Lease) Ref() Ref { return l.ref }

// Key returns the lease's key.
func (l *Lease) Key() Key { return l.ref.Key }

// Token returns the fencing token.
func (l *Lease) Token() Token { return l.ref.Token }

// Record returns the store's record as of its last answer. It may be one heartbeat old.
func (l *Lease) Record() Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record
}

// Lost returns a channel that is closed when the work must stop, because the lease is lost or about to be: the
// store did not answer for too long, refused a renewal (rule L2), or the Keeper was closed. Renewals continue until
// Release, Drop or Keeper.Close.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Wanted returns a channel that is closed when a newcomer with the policy Replace asks for the lease (rule T7).
func (l *Lease) Wanted() <-chan struct{} { return l.wanted }

// Loss says how the lease was lost, once the channel of Lost is closed. Before that it is zero.
func (l *Lease) Loss() Loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loss
}

// Deadlines returns the boot instants (Keeper.Boot) at which the work is told to stop, and at which it is killed,
// if the store does not answer any more. Each renewal moves them.
func (l *Lease) Deadlines() (term, kill time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent + l.keeper.margin.TermAfter(), l.sent + l.keeper.margin.KillAfter()
}

// SafeUntil returns the boot instant until which the store cannot have granted the lease to anybody else.
func (l *Lease) SafeUntil() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent + l.keeper.margin.Safe()
}

// roomy reports whether the lease outlasts its first heartbeat and the answer to it, and so can be handed out.
func (l *Lease) roomy() bool {
	m := l.keeper.margin
	term, _ := l.Deadlines()
	return l.keeper.clock.Boot()+m.Heartbeat+m.RPCTimeout <= term
}

// OnRenew has f called after each renewal, until forget is called. f runs on the Keeper's goroutine, so it must not
// block.
func (l *Lease) OnRenew(f func()) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onRenew == nil {
		l.onRenew = map[int]func(){}
	}
	l.hooked++
	n := l.hooked
	l.onRenew[n] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.onRenew, n)
	}
}

// BusyFor records that a request which nobody can stop may be at work for d from now (rule L8). Send the request
// only after BusyFor has returned nil: the store has then recorded it. Until d is over, the lease is granted to
// nobody else, unless it is released. The error wraps ErrUnavailable; the store may have recorded the time all the
// same.
func (l *Lease) BusyFor(d time.Duration) error {
	now, _ := l.keeper.time.now()
	until := now.Add(d)
	l.mu.Lock()
	l.busy = until
	l.mu.Unlock()
	l.keeper.renewNow(l)
	if l.Record().BusyUntil.Before(until.Truncate(time.Microsecond)) {
		return fmt.Errorf("lease %q: %w: the request was not sent, because it could not be recorded first", l.ref.Key, ErrUnavailable)
	}
	return nil
}

// Check asks the store at once whether it still has the hold, instead of at the next heartbeat. It returns when the
// store has answered, or after one RPC timeout. After a refusal, the channel of Lost is closed.
func (l *Lease) Check() { l.keeper.renewNow(l) }

// Release frees the lease and stops its renewal. If the hold was gone, the error wraps ErrLost. If the store did
// not answer, it wraps ErrUnavailable, and the lease lapses by itself. The end of ctx does not end Release; the RPC
// timeout bounds it.
func (l *Lease) Release(_ context.Context) error {
	l.Drop()
	r, err := l.keeper.releases.Do(context.Background(), l.ref)
	switch {
	case err != nil:
		return fmt.Errorf("lease %q: %w", l.ref.Key, err)
	case r.Status != OK:
		return fmt.Errorf("lease %q: %w before it was released", l.ref.Key, ErrLost)
	}
	return nil
}

// Ending says that the work is over, and that another atomic step which releases the lease is about to be sent: if a
// renewal is refused meanwhile, that is no loss to an observer. The lease is renewed until Drop all the same.
func (l *Lease) Ending() {
	l.mu.Lock()
	l.ending = true
	l.mu.Unlock()
}

// Drop stops the renewal without releasing the lease. Use it if another atomic step releases the lease, such as
// tick.Store.Close.
func (l *Lease) Drop() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.keeper.forget(l)
}

// renewed takes in the store's answer to a renewal.
func (l *Lease) renewed(a Answer, sent time.Duration) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	var told []func()
	switch a.Status {
	case OK:
		l.refusal = false
		l.sent = max(l.sent, sent)
		l.record = a.Record
		told = slices.Collect(maps.Values(l.onRenew))
		if a.Record.Wanted != nil {
			closeOnce(l.wanted)
		}
	case Gone:
		l.refusal = true
		l.refused(a.Record)
	}
	l.mu.Unlock()
	for _, f := range told {
		f()
	}
}

// refused decides what a refusal of the store means. A broken lease is granted to nobody before it expires, so the
// work still has its margin (rule L5). After any other refusal it has none (L2).
func (l *Lease) refused(r Record) {
	mine := r.Owner == l.ref.Owner && r.Token == l.ref.Token
	switch {
	case mine && r.Broken != nil:
		l.record = r
		loss := Loss{Err: fmt.Errorf("%w: broken by %s", ErrLost, because(r.Broken))}
		if !r.Broken.Now {
			loss.Kill = l.sent + l.keeper.margin.KillAfter()
		}
		l.lose(loss)
	case mine:
		l.lose(Loss{Err: fmt.Errorf("%w: it lapsed before it was renewed", ErrLost)})
	default:
		l.lose(Loss{Err: fmt.Errorf("%w: it is held by %s now", ErrLost, r.Holder)})
	}
}

func because(b *Broken) string {
	if b.Why == "" {
		return b.By
	}
	return b.By + ": " + b.Why
}

// silent tells the work to stop if nothing was heard for too long. It returns the boot instant at which to look
// again.
func (l *Lease) silent(now time.Duration) (next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	term := l.sent + l.keeper.margin.TermAfter()
	if now < term {
		return term
	}
	l.lose(Loss{
		Err:  fmt.Errorf("%w: no answer from the store for %s", ErrLost, (now - l.sent).Round(time.Millisecond)),
		Kill: l.sent + l.keeper.margin.KillAfter(),
	})
	return now + l.keeper.margin.Heartbeat
}

// choked notes that the store answered the renewal of this very lease with an error.
func (l *Lease) choked() {
	l.mu.Lock()
	l.refusal = true
	l.mu.Unlock()
}

// abandoned tells the work to stop because nobody renews the lease any more.
func (l *Lease) abandoned() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.lose(Loss{Err: fmt.Errorf("%w: %w", ErrLost, ErrClosed), Kill: l.sent + l.keeper.margin.KillAfter()})
	}
}

// lose sets the loss once; a refusal after silence makes it immediate.
func (l *Lease) lose(loss Loss) {
	if l.loss.Err == nil {
		l.loss = loss
		if l.keeper.observe != nil && !l.ending { // the lease's mutex is held
			go l.keeper.observe(observe.Event{On: observe.Lost, Of: observe.Lease, Name: string(l.ref.Key), Reason: loss.Err.Error()})
		}
	} else if loss.Kill == 0 {
		l.loss.Kill = 0
	}
	closeOnce(l.lost)
}

// closeOnce is called with the lease's mutex held.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
