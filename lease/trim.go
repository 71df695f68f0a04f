package lease

import (
	"context"
	"slices"
	"time"
)

// Overlong reports whether a hold lasts longer than a renewal at now would make it: it was renewed while the store's
// clock was further ahead (rule L12).
func (r Record) Overlong(now time.Time) bool { return r.Expires.Sub(now) > r.TTL+MaxStep }

// steadied is called when the store's clock has kept to its line for a minute. If the clock had stepped back before,
// holds of dead holders would last until it has caught up with itself: they are shortened.
func (k *Keeper) steadied() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.goroutines.Go(k.trimAll)
	}
}

// trimAll shortens all overlong holds. If it fails, it tries again a minute later: nobody contends for the key of a
// dead process, since that key is never granted again.
func (k *Keeper) trimAll() {
	ctx, cancel := context.WithTimeout(context.Background(), k.margin.RPCTimeout)
	defer cancel()
	r, err := k.store.List(ctx, "", false)
	if err != nil {
		k.time.tellAgain()
		return
	}
	var keys []Key
	for _, a := range r.Answers {
		if a.Record.Overlong(r.Now) {
			keys = append(keys, a.Record.Key)
		}
	}
	for some := range slices.Chunk(keys, maxBatch) {
		if k.store.Trim(ctx, some) != nil {
			k.time.tellAgain()
			return
		}
	}
}

// trim shortens the hold that is in a contender's way, if it is overlong and the store's clock can be believed.
func (k *Keeper) trim(ctx context.Context, held *HeldError) {
	if !held.Record.Overlong(held.Now) || !k.time.steady() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.margin.RPCTimeout)
	defer cancel()
	_ = k.store.Trim(ctx, []Key{held.Record.Key}) // else the next look does
}
