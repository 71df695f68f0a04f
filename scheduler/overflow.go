package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// mostOverflow bounds what a process keeps in its memory, in items.
const mostOverflow = 10_000

// overflow is what neither the store nor this host's disk accepted. The process delivers it while it lives: the
// claims of its ticks are under the process's own lease, so that nobody else ends them. When the process dies, its
// lease lapses, and others end them.
type overflow struct {
	mu    sync.Mutex
	items []Item
	taken int // how many are being delivered
}

// add keeps an item, and reports whether there was room.
func (f *overflow) add(i Item) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.items)+f.taken >= mostOverflow {
		return false
	}
	f.items = append(f.items, i)
	return true
}

// giveBack keeps again what is left of the items that were taken: before those that came since, for which room was
// kept.
func (f *overflow) giveBack(taken int, left []Item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items, f.taken = slices.Concat(left, f.items), f.taken-taken
}

func (f *overflow) take() []Item {
	f.mu.Lock()
	defer f.mu.Unlock()
	items := f.items
	f.items, f.taken = nil, f.taken+len(items)
	return items
}

// deliverOverflow gives each item to the store, by give, else to the spool. It stops at the first item that neither
// accepts.
func (o *outbox) deliverOverflow(ctx context.Context, give func(Item) error) error {
	items := o.overflow.take()
	var left []Item
	defer func() { o.overflow.giveBack(len(items), left) }()
	for n, i := range items {
		if ctx.Err() != nil {
			left = append(items[n:], left...)
			return ErrEnough
		}
		err := give(i)
		if err == nil || o.put(i) == nil {
			continue
		}
		if errors.Is(err, ErrNotYet) {
			left = append(left, i)
			continue
		}
		left = append(items[n:], left...)
		return err
	}
	return nil
}
