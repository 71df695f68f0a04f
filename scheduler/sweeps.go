package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// sweepTurns are the turns of servers with the same sweep. A lease says whose turn it is. The server that has it keeps
// it from one sweep to the next, for as long as its sweeps succeed, and so asks the store for nothing. If that server
// dies, the next sweep comes after a TTL, which is when all that it held can be taken over.
//
// Servers have the same sweep if they have the same jobs in the same generations and run the same of them: then each
// can take over every tick that the others could. The turns only save work: several servers may sweep at once.
type sweepTurns struct {
	mu   sync.Mutex
	key  lease.Key
	mine *lease.Lease // nil: it is not this server's turn
}

// among sets what this server serves now.
func (t *sweepTurns) among(app string, jobs map[string]*entry) {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		fmt.Fprintf(sum, "%q %d %t\n", name, jobs[name].generation, jobs[name].Dormant)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key = lease.Key(app + "@" + hex.EncodeToString(sum.Sum(nil)[:8])).Sweep()
}

// every returns the time from one sweep to the next.
func (w *sweeper) every() time.Duration {
	return max(w.b.Keeper.Margin().TTL/sweepsPerTTL, 50*time.Millisecond)
}

// take reports whether it is this server's turn. If not, it is another server's, or somebody has just had it. A server
// that is behind, or whose last sweep failed, stands back: another one can do all of it.
func (t *sweepTurns) take(ctx context.Context, w *sweeper, behind bool) (mine bool, err error) {
	key, aside := t.current(), (behind || w.sick) && w.turn.among() > 1
	if t.has(key) && !aside {
		return true, nil
	}
	t.leave()
	keeper := w.b.Keeper
	now, r, err := keeper.Read(ctx, key)
	if err != nil {
		return false, fmt.Errorf("look whose turn it is to sweep: %w", err)
	}
	pause := w.every() * 9 / 10 // timers are not exact
	if aside {
		pause += w.every()
	}
	// A hold, or a sweep, that is too far ahead comes from a clock that was fast.
	live := r.Live(now) && r.Expires.Sub(now) <= keeper.Margin().TTL+lease.MaxStep
	if age := now.Sub(r.Renewed); live || age >= 0 && age < pause {
		return false, nil
	}
	turn, err := keeper.Acquire(ctx, lease.Want{Key: key, Holder: w.b.Self, OnHeldBack: w.recorder.heldBack})
	switch {
	case errors.As(err, new(*lease.HeldError)):
		return false, nil
	case err != nil && w.b.holding(): // it is nobody's turn, and nothing that anybody could take over can be started
		return false, nil
	case err != nil:
		return false, fmt.Errorf("take the turn to sweep: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mine = turn
	return true, nil
}

func (t *sweepTurns) current() lease.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.key
}

// has reports whether this server has the turn of a key.
func (t *sweepTurns) has(key lease.Key) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mine == nil || t.mine.Key() != key {
		return false
	}
	select {
	case <-t.mine.Lost():
		return false
	default:
		return true
	}
}

// leave lets another server have the turn. Without an answer of the store it lapses.
func (t *sweepTurns) leave() {
	t.mu.Lock()
	turn := t.mine
	t.mine = nil
	t.mu.Unlock()
	if turn != nil {
		_ = turn.Release(context.Background())
	}
}
