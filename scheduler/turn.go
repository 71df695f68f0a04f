package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// ServerOf is what the lease of a process says that serves an app: by it the servers know each other.
func ServerOf(app string) string { return serves + app }

const serves = "dibs serve "

// servedBy is the reverse.
func servedBy(h lease.Holder) (app string, ok bool) { return strings.CutPrefix(h.Command, serves) }

// turnStep is how much later each further server tries for a tick than the one before it.
const turnStep = 250 * time.Millisecond

// A turn spreads ticks over the servers: for each tick they stand in another order, the same for
// all of them (rendezvous hashing), and who stands behind waits a little and looks before it claims.
// So one claim is written per tick, and a server that died delays its share of them by that little
// until its lease has lapsed. It is a matter of cost alone: who wins is the claim's to decide.
type turn struct {
	mu    sync.Mutex
	peers []lease.Nonce // the live servers, this one among them
}

// learn asks the store which servers live.
func (s *Server) learn(ctx context.Context) error {
	me, err := s.place.Book.Server(ctx)
	if err != nil {
		return err
	}
	live, err := s.place.Keeper.Unshared(ctx)
	if err != nil {
		return err
	}
	peers, apps := []lease.Nonce{me.Ref().Owner}, map[string]bool{s.app: true}
	for owner, h := range live {
		if app, ok := servedBy(h); ok {
			apps[app] = true
			if app == s.app && owner != me.Ref().Owner {
				peers = append(peers, owner)
			}
		}
	}
	s.turn.mu.Lock()
	s.turn.peers = peers
	s.turn.mu.Unlock()
	s.served = apps
	return nil
}

// among is how many servers there are.
func (t *turn) among() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.peers)
}

// rank is how many servers come before this one for a tick.
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

// await waits for this server's turn, and reports whether somebody before it has claimed the tick.
func (s *Server) await(ctx context.Context, e *entry, at time.Time) (claimed bool) {
	rank := s.turn.rank(e.Spec.Key(), at)
	if rank == 0 {
		return false
	}
	// However many they are, the last of them is in time.
	late := e.StartBy(at).Sub(at)
	t := time.NewTimer(min(time.Duration(rank)*turnStep, late/4))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	bounded, cancel := context.WithTimeout(ctx, s.place.Keeper.Margin().RPCTimeout)
	defer cancel()
	looks := s.place.batches().looks
	select {
	case looks <- struct{}{}:
		defer func() { <-looks }()
	case <-bounded.Done():
		return false
	}
	rows, err := s.place.History.Ticks(bounded, history.Query{Job: e.Spec.Key(), From: at, To: at.Add(time.Microsecond), Limit: 1})
	// A claim whose server died before the start is for the claim to find out.
	return err == nil && len(rows) == 1 && (rows[0].State != tick.Claimed || rows[0].Live)
}
