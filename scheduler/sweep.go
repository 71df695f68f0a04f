package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// sweeper looks after what others left behind (rule T15).
type sweeper struct {
	*Server
	turns       sweepTurns
	undelivered int             // sweeps in a row that could not deliver this host's spool
	tried       map[string]bool // what was tried in them
	sick        bool            // the last sweep that it made for all failed
	clockOff    time.Duration   // the offset of the clock that was reported last
}

// run looks, several times per TTL, for what others left behind: outcomes that wait on this host, ticks whose server
// died, and ticks that nobody claimed.
func (w *sweeper) run(ctx, accept, work context.Context) {
	t := time.NewTicker(w.every())
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := w.once(ctx, accept, work); err != nil && ctx.Err() == nil {
			w.log.Warn("could not complete a sweep", "error", err)
		}
	}
}

const sweepsPerTTL = 5

// mostTried bounds the items that are waited for.
const mostTried = 10_000

// once does what each server does for itself, and, if it is this server's turn, what one server does for all.
func (w *sweeper) once(ctx, accept, work context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.b.Keeper.Margin().TTL) // a silent store must not hold it for ever
	defer cancel()
	undelivered := w.deliver(ctx)
	if err := w.readPeers(ctx); err != nil {
		clear(w.abandoned.gone) // who comes and goes now is not seen
		return errors.Join(undelivered, fmt.Errorf("look for the other servers: %w", err))
	}
	w.abandoned.clearServed()
	if err := w.restorer.look(ctx); err != nil {
		return errors.Join(undelivered, fmt.Errorf("compare the jobs of this server with those that are registered: %w", err))
	}
	failed := w.patience(undelivered)
	pending := failed != nil
	if errors.Is(failed, ErrEnough) {
		failed = nil
		w.log.Debug("records on this host are being delivered to the store", "event", "delivering")
	}
	mine, err := w.turns.take(ctx, w, pending)
	if err != nil {
		return errors.Join(failed, err)
	}
	w.checkClock(ctx)
	w.recorder.flush(ctx, false)
	if !mine {
		return failed
	}
	err = w.forAll(ctx, accept, work, pending)
	w.sick = err != nil
	return errors.Join(failed, err)
}

// forAll handles what any server left behind. What this host has seen but not delivered yet comes before what can
// only be concluded.
func (w *sweeper) forAll(ctx, accept, work context.Context, undelivered bool) error {
	w.mu.Lock()
	jobs := maps.Clone(w.jobs)
	w.mu.Unlock()
	failed := w.adopter.adoptAll(ctx, accept, work, jobs, undelivered)
	if undelivered {
		return failed
	}
	// A tick that could not be ended holds back the mark of its own job only.
	return errors.Join(failed, w.maintainer.maintainAll(ctx, accept, work, jobs), w.abandoned.settle(ctx))
}

// deliver delivers this host's spool for as long as a sweep may take in all; the rest of the sweep handles what
// others left.
func (w *sweeper) deliver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.b.Keeper.Margin().TTL/sweepsPerTTL)
	defer cancel()
	return w.outbox.deliver(ctx, false)
}

// patience returns an error if something on this host could not be delivered although the store answers, but not for
// ever: an item that no store accepts must not keep all ticks from being settled. It ends once each item was tried
// for a TTL and none was accepted, so that a witness behind many items that no store accepts is still tried before
// anything is settled. (Each sweep that delivers nothing has tried one more.)
func (w *sweeper) patience(undelivered error) error {
	if undelivered == nil {
		w.undelivered, w.tried = 0, nil
		return nil
	}
	var stuck *undeliverable
	found := errors.As(undelivered, &stuck)
	if found && stuck.some && errors.Is(undelivered, ErrEnough) {
		w.undelivered, w.tried = 0, nil
		return undelivered
	}
	if found {
		if stuck.some || w.tried == nil {
			w.undelivered, w.tried = 0, map[string]bool{}
		}
		again := w.tried[stuck.item] || len(w.tried) >= mostTried
		w.tried[stuck.item] = true
		if !again && len(w.tried) > 1 {
			return undelivered
		}
	}
	if w.undelivered++; w.undelivered <= sweepsPerTTL {
		return undelivered
	}
	if w.undelivered%(100*sweepsPerTTL) == sweepsPerTTL+1 {
		w.log.Error("the store refused a record of this host; it stays on this host", "event", "undeliverable", "error", undelivered)
	}
	return nil
}

// readPeers asks the store which servers are live. The answer tells the time as well: nothing is concluded by a clock
// that has stepped.
func (w *sweeper) readPeers(ctx context.Context) error {
	me, err := w.b.Book.Server(ctx)
	if err != nil {
		return err
	}
	w.presence.Under(me.Ref())
	live, err := w.b.Keeper.Unshared(ctx)
	if err != nil {
		return err
	}
	peers, apps := []lease.Nonce{me.Ref().Owner}, map[string]bool{w.app: true}
	for owner, h := range live {
		if app, ok := servedBy(h); ok {
			apps[app] = true
			if app == w.app && owner != me.Ref().Owner {
				peers = append(peers, owner)
			}
		}
	}
	w.turn.mu.Lock()
	w.turn.peers = peers
	w.turn.mu.Unlock()
	w.abandoned.served = apps
	return nil
}
