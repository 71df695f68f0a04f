package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// ServerCommand returns the text that the lease of a process which serves an app has as its Holder.Command. Servers
// recognise each other by it.
func ServerCommand(app string) string { return serves + app }

const serves = "dibs serve "

// servedBy is the reverse.
func servedBy(h lease.Holder) (app string, ok bool) { return strings.CutPrefix(h.Command, serves) }

// turnStep is how much later each further server tries for a tick than the one before it.
const turnStep = 250 * time.Millisecond

// A turn spreads ticks over the servers: for each tick they are ranked in another order, the same on all of them
// (rendezvous hashing), and lower ranks wait a little and look before they claim. So one claim is written per tick,
// and a server that died delays its share by that little until its lease has lapsed. It only saves work: the claim
// decides who wins.
type turn struct {
	mu    sync.Mutex
	peers []lease.Nonce // the live servers, this one among them
	share share
}

// A share is the ticks for which this server ranks first, from when they are due until their claim is answered. If
// there are many, as when thousands are due at one second, the others have many too: a server that is not done with
// its own has no reason to try for those of others, and would only cost one more claim each.
type share struct {
	mu       sync.Mutex
	open     int
	answered int           // so far
	done     chan struct{} // closed when none is open
}

// begin adds a tick; call the returned function when its claim was answered.
func (s *share) begin() (answered func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open++; s.open == 1 {
		s.done = make(chan struct{})
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answered++
		if s.open--; s.open == 0 {
			close(s.done)
		}
	}
}

// state returns a channel that is closed once the share is done (nil: it is), and how many claims were answered.
func (s *share) state() (done chan struct{}, answered int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == 0 {
		return nil, s.answered
	}
	return s.done, s.answered
}

// wait returns when the share is done, or when none of its claims was answered for the time that one request may
// take: a claim that waits for something else delays nothing. It returns false if there was nothing to wait for.
func (s *share) wait(ctx context.Context, within time.Duration) (waited bool) {
	t := time.NewTicker(within)
	defer t.Stop()
	for done, before := s.state(); done != nil; {
		waited = true
		select {
		case <-done:
		case <-t.C:
			now, answered := s.state()
			if answered == before {
				return true
			}
			done, before = now, answered
			continue
		case <-ctx.Done():
		}
		return true
	}
	return waited
}

// among returns how many servers there are.
func (t *turn) among() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.peers)
}

// rank returns how many servers come before this one for a tick.
func (t *turn) rank(job string, at time.Time) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.peers) < 2 {
		return 0
	}
	mine := weight(t.peers[0], job, at)
	for _, p := range t.peers[1:] {
		if weight(p, job, at) < mine {
			n++
		}
	}
	return n
}

func weight(server lease.Nonce, job string, at time.Time) uint64 {
	b := append([]byte(job), server[:]...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(at.UnixMicro())))
	return binary.BigEndian.Uint64(sum[:8])
}

// await waits for this server's turn, and reports whether a server before it has claimed the tick.
func (s *Server) await(ctx context.Context, e *entry, at time.Time, rank int) (claimed bool) {
	late := e.StartBy(at).Sub(at)
	patient, enough := context.WithTimeout(ctx, late/4)
	defer enough()
	// However many servers there are, the last of them is in time.
	step := min(time.Duration(rank)*turnStep, late/4)
	pause(patient, step)
	if s.turn.share.wait(patient, s.b.Keeper.Margin().RPCTimeout) {
		pause(patient, step) // theirs may be a few more
	}
	if ctx.Err() != nil {
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, s.b.Keeper.Margin().RPCTimeout)
	defer cancel()
	if s.begun(bounded, e.Spec.Key(), at) {
		return true
	}
	looks := s.requests.open().scans
	select {
	case looks <- struct{}{}:
		defer func() { <-looks }()
	case <-bounded.Done():
		return false
	}
	rows, err := s.b.History.Ticks(bounded, history.Query{Job: e.Spec.Key(), From: at, To: at.Add(time.Microsecond), Limit: 1})
	// If a server died between its claim and the start, the claim finds out.
	return err == nil && len(rows) == 1 && (rows[0].State != tick.Claimed || rows[0].Live)
}

// begun reports whether a run of a tick was begun; the ticks of many jobs share one read. It does not see a tick
// that is only claimed, or that has ended without a run.
func (s *Server) begun(ctx context.Context, job string, at time.Time) bool {
	runs, err := s.requests.open().recent.Do(ctx, job)
	return err == nil && slices.ContainsFunc(runs, func(r run.Record) bool { return r.Tick.Equal(at) })
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
