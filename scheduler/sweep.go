package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// sweep looks, several times per TTL, after what others left behind: outcomes that wait on this
// host, ticks whose server died, and ticks that nobody claimed.
func (s *Server) sweep(ctx, accept, work context.Context) {
	t := time.NewTicker(s.every())
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := s.sweepOnce(ctx, accept, work); err != nil && ctx.Err() == nil {
			s.log.Warn("could not complete a sweep", "error", err)
		}
	}
}

const sweepsPerTTL = 5

// mostTried bounds the items that are waited for.
const mostTried = 10_000

// sweepOnce does what each server does for itself, and what one does for all of them, if it is this one's turn.
func (s *Server) sweepOnce(ctx, accept, work context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.place.Keeper.Margin().TTL) // a silent store must not hold it for ever
	defer cancel()
	undelivered := s.deliver(ctx)
	if err := s.learn(ctx); err != nil {
		clear(s.gone) // who comes and goes now is not seen
		return errors.Join(undelivered, fmt.Errorf("look for the other servers: %w", err))
	}
	s.greet()
	failed := s.patience(undelivered)
	pending := failed != nil
	if errors.Is(failed, ErrEnough) {
		failed = nil
		s.log.Debug("records on this host are being delivered to the store", "event", "delivering")
	}
	turn, err := s.sweeps.take(ctx, s, pending)
	if err != nil {
		return errors.Join(failed, err)
	}
	s.checkClock(ctx)
	s.place.flush(ctx, false)
	if turn == nil {
		return failed
	}
	defer turn()
	err = s.sweepForAll(ctx, accept, work, pending)
	s.sick = err != nil
	return errors.Join(failed, err)
}

// sweepForAll looks after what others left behind, whoever they were. What this host has seen, and has not told yet,
// comes before what can only be concluded.
func (s *Server) sweepForAll(ctx, accept, work context.Context, undelivered bool) error {
	s.mu.Lock()
	jobs := maps.Clone(s.jobs)
	s.mu.Unlock()
	failed := s.adoptAll(ctx, accept, work, jobs, undelivered)
	if undelivered {
		return failed
	}
	// One that could not be ended keeps the mark of its own job back, and of no other.
	return errors.Join(failed, s.lookAround(ctx, accept, work, jobs), s.settleStrays(ctx))
}

// deliver delivers this host's spool for as long as a sweep may take in all: the rest of it looks after others.
func (s *Server) deliver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.place.Keeper.Margin().TTL/sweepsPerTTL)
	defer cancel()
	return s.place.Deliver(ctx)
}

// patience passes on that something on this host could not be delivered although the store answers,
// but not for ever: one item that no store takes must not keep every tick from being settled. It ends
// once each item was tried for a TTL and none was taken: a witness behind many that no store takes
// is heard before anything is settled. (Each sweep that delivers nothing has tried one more.)
func (s *Server) patience(undelivered error) error {
	if undelivered == nil {
		s.undelivered, s.tried = 0, nil
		return nil
	}
	var stuck *undeliverable
	found := errors.As(undelivered, &stuck)
	if found && stuck.some && errors.Is(undelivered, ErrEnough) {
		s.undelivered, s.tried = 0, nil
		return undelivered
	}
	if found {
		if stuck.some || s.tried == nil {
			s.undelivered, s.tried = 0, map[string]bool{}
		}
		again := s.tried[stuck.item] || len(s.tried) >= mostTried
		s.tried[stuck.item] = true
		if !again && len(s.tried) > 1 {
			return undelivered
		}
	}
	if s.undelivered++; s.undelivered <= sweepsPerTTL {
		return undelivered
	}
	if s.undelivered%(100*sweepsPerTTL) == sweepsPerTTL+1 {
		s.log.Error("the store does not take a record of this host; it stays on this host", "event", "undeliverable", "error", undelivered)
	}
	return nil
}
