package lease

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// flights bounds how many chunks of one heartbeat are in progress at once.
const flights = 4

// never is a boot instant that does not come.
const never = time.Duration(math.MaxInt64)

// add takes a granted lease into the heartbeat. It returns false if the Keeper was closed.
func (k *Keeper) add(l *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.held[l.ref.Owner] = l
	if !k.beating {
		k.beating = true
		k.goroutines.Go(k.beat)
	}
	return true
}

func (k *Keeper) forget(l *Lease) {
	k.mu.Lock()
	delete(k.held, l.ref.Owner)
	k.mu.Unlock()
}

func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// beat is the heartbeat. It runs on a goroutine of its own, which neither work nor an answer of the store ever holds
// up, and it ends when a whole heartbeat passed without leases. A renewal that was not answered is sent again at once
// after a silence, but never sooner than a quarter of a heartbeat after it was sent: a store that fails fast is not
// flooded.
func (k *Keeper) beat() {
	var (
		due     = k.clock.Boot() + k.margin.Heartbeat
		again   = never       // when what went unanswered is sent again
		began   time.Duration // when the last renewal was sent
		renewed = make(chan struct{}, 1)
		flying  bool
	)
	for {
		now := k.clock.Boot()
		next := k.watch(now)
		if now >= due && !k.alive() {
			return
		}
		if now >= min(due, again) && !flying {
			if all := k.aged(now, now >= due); len(all) > 0 {
				flying, began = true, now
				k.goroutines.Go(func() { k.renew(all); renewed <- struct{}{} })
			}
			again = never
		}
		if now >= due {
			due = now + k.margin.Heartbeat
		}
		// The boot clock moves through a suspend and timers do not: look again now and then, within
		// what is reserved for a kill.
		wait := time.NewTimer(min(min(due, again, next)-now, max(k.margin.Kill, time.Second)))
		select {
		case <-wait.C:
		case <-renewed:
			flying = false
			if len(k.aged(k.clock.Boot(), false)) > 0 {
				again = began + k.margin.Heartbeat/4
			}
		case <-k.wake:
			if !k.alive() {
				wait.Stop()
				return
			}
		}
		wait.Stop()
	}
}

// alive reports whether the heartbeat has anything to do, and otherwise marks it as ended.
func (k *Keeper) alive() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.beating = len(k.held) > 0 && !k.closed
	return k.beating
}

// watch marks leases as lost if they got no answer for too long. It returns the next boot instant at which a lease
// would be lost.
func (k *Keeper) watch(now time.Duration) time.Duration {
	next := now + k.margin.TTL
	for _, l := range k.leases() {
		next = min(next, l.silent(now))
	}
	return max(next, now+time.Millisecond)
}

func (k *Keeper) leases() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*Lease, 0, len(k.held))
	for _, l := range k.held {
		out = append(out, l)
	}
	return out
}

// aged returns the leases whose last renewal is at least half a heartbeat old. A lease that the store refuses to
// renew is among them once per heartbeat only.
func (k *Keeper) aged(now time.Duration, heartbeat bool) []*Lease {
	return slices.DeleteFunc(k.leases(), func(l *Lease) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.ended || now-l.sent < k.margin.Heartbeat/2 || l.refusal && !heartbeat
	})
}

// renew renews leases in chunks, sorted by key.
func (k *Keeper) renew(all []*Lease) {
	slices.SortFunc(all, func(a, b *Lease) int { return strings.Compare(string(a.ref.Key), string(b.ref.Key)) })
	var wg sync.WaitGroup
	slots := make(chan struct{}, flights)
	for chunk := range slices.Chunk(all, maxBatch) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			k.renewChunk(chunk, k.clock.Boot()+k.margin.RPCTimeout)
		})
	}
	wg.Wait()
}

// renewChunk sends one chunk. If the store answers with an error, the chunk is sent again in halves within the same
// heartbeat, so that one item which the store cannot handle costs no other item its lease (rule L4). If the store
// does not answer, that says nothing about the items, and halves would only add requests to a store in trouble.
func (k *Keeper) renewChunk(chunk []*Lease, until time.Duration) {
	reqs := make([]RenewRequest, len(chunk))
	notAfter := k.NotAfter()
	for i, l := range chunk {
		l.mu.Lock()
		reqs[i] = RenewRequest{Ref: l.ref, TTL: k.margin.TTL, NotAfter: notAfter, BusyUntil: l.busy}
		l.mu.Unlock()
	}
	var failed error // as the store put it: call makes all of them ErrUnavailable
	r, sent, err := k.call("renew", len(reqs), func(ctx context.Context) (r Reply, err error) {
		r, failed = k.store.Renew(ctx, reqs)
		return r, failed
	})
	switch {
	case err == nil:
		for i, l := range chunk {
			l.renewed(r.Answers[i], sent)
		}
	case errors.Is(failed, ErrUnavailable) || k.clock.Boot() >= until:
	case len(chunk) == 1:
		chunk[0].choked()
	default:
		half := len(chunk) / 2
		k.renewChunk(chunk[:half], until)
		k.renewChunk(chunk[half:], until)
	}
}
