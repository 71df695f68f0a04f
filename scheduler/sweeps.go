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

// sweepTurns are the turns of servers with the same sweep. A lease, held for one sweep, says whose turn it is, and
// its record says when the last one was. So the death of a server between two sweeps loses nothing, and one that
// dies within a sweep delays the next by a TTL, as with all its leases.
//
// Servers have the same sweep if they have the same jobs in the same generations and run the same of them: then each
// can take over every tick that the others could. The turns only save work: several servers may sweep at once.
type sweepTurns struct {
	mu  sync.Mutex
	key lease.Key
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

// take gets the turn until done is called; nil: it is another server's, or somebody has just had it. A server that
// is behind, or whose last sweep failed, stands back: another one can do all of it.
func (t *sweepTurns) take(ctx context.Context, w *sweeper, behind bool) (done func(), err error) {
	t.mu.Lock()
	key := t.key
	t.mu.Unlock()
	keeper := w.b.Keeper
	now, r, err := keeper.Read(ctx, key) // which tells the time as well: nothing is concluded by a clock that has stepped
	if err != nil {
		return nil, fmt.Errorf("look whose turn it is to sweep: %w", err)
	}
	pause := w.every() * 9 / 10 // timers are not exact
	if (behind || w.sick) && w.turn.among() > 1 {
		pause += w.every()
	}
	// A hold, or a sweep, that is too far ahead comes from a clock that was fast.
	live := r.Live(now) && r.Expires.Sub(now) <= keeper.Margin().TTL+lease.MaxStep
	if age := now.Sub(r.Renewed); live || age >= 0 && age < pause {
		return nil, nil
	}
	turn, err := keeper.Acquire(ctx, lease.Want{Key: key, Holder: w.b.Self, OnHeldBack: w.recorder.heldBack})
	switch {
	case errors.As(err, new(*lease.HeldError)):
		return nil, nil
	case err != nil && w.b.holding(): // it is nobody's turn, and nothing that anybody could take over can be started
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("take the turn to sweep: %w", err)
	}
	free := func() { _ = turn.Release(context.WithoutCancel(ctx)) } // else it lapses
	late := context.AfterFunc(ctx, free)                            // whatever the sweep still waits for
	return func() {
		if late() {
			free()
		}
	}, nil
}
