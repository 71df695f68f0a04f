package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// sweepTurns are the turns of servers with the same sweep. A turn lasts almost until the next sweep, and nobody gives
// it back, so that it costs one request. So the death of a server delays no sweep, and a sweep that lasts longer than
// its turn does not keep another server from the next one.
//
// Servers have the same sweep if they have the same jobs in the same generations and run the same of them: then each
// can take over every tick that the others could. The turns only save work: several servers may sweep at once.
type sweepTurns struct {
	mu  sync.Mutex
	key lease.Key
	had bool // the sweep's own: the last turn was this server's
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

// take reports whether it is this server's turn. If not, it is another server's, or nobody can be granted anything. A
// server that is behind, whose last sweep failed, or that could not start a tick stands back: another one can do all
// of it.
func (t *sweepTurns) take(ctx context.Context, w *sweeper, behind bool) (mine bool, err error) {
	key, span := t.current(), w.every()*9/10 // timers are not exact
	if w.b.holding() {
		return false, nil // what could be taken over could not be started
	}
	aside := (behind || w.sick || w.brakes.on()) && w.turn.among() > 1
	if aside || !t.had { // then it is probably another's, and a look is cheaper than a refusal
		t.had = false
		now, r, err := w.b.Keeper.Read(ctx, key)
		if err != nil {
			return false, fmt.Errorf("look whose turn it is to sweep: %w", err)
		}
		age := now.Sub(r.Renewed) // below zero: a clock was fast
		if r.Live(now) && !r.Overlong(now) || aside && age >= 0 && age < span+w.every() {
			return false, nil
		}
	}
	mine, err = w.b.Keeper.Turn(ctx, lease.Want{Key: key, Holder: w.b.Self, OnHeldBack: w.recorder.heldBack}, span)
	if t.had = mine; err != nil {
		return false, fmt.Errorf("take the turn to sweep: %w", err)
	}
	return mine, nil
}

func (t *sweepTurns) current() lease.Key {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.key
}
