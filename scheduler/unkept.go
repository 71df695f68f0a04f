package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// mostUnkept bounds what a process remembers in its memory, in items.
const mostUnkept = 10_000

// unkept is what neither the store nor this host's disk took. The process tells it again for as long as it lives: the
// claims of its ticks stand under the process's own lease, so that nobody else ends them. When it dies its lease
// lapses, and others do.
type unkept struct {
	mu    sync.Mutex
	items []Item
	taken int // how many are being told
}

// add remembers an item, and says whether there was room.
func (u *unkept) add(i Item) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.items)+u.taken >= mostUnkept {
		return false
	}
	u.items = append(u.items, i)
	return true
}

// giveBack remembers again what was left of those that were taken: in front of what came since, for which room
// was kept.
func (u *unkept) giveBack(taken int, left []Item) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.items, u.taken = slices.Concat(left, u.items), u.taken-taken
}

func (u *unkept) take() []Item {
	u.mu.Lock()
	defer u.mu.Unlock()
	items := u.items
	u.items, u.taken = nil, u.taken+len(items)
	return items
}

// deliverUnkept gives each item to the store, by give, else to the spool. It stops at the first one that
// neither takes.
func (p *Backend) deliverUnkept(ctx context.Context, give func(Item) error) error {
	items := p.unkept.take()
	var left []Item
	defer func() { p.unkept.giveBack(len(items), left) }()
	for n, i := range items {
		if ctx.Err() != nil {
			left = append(items[n:], left...)
			return ErrEnough
		}
		err := give(i)
		if err == nil || p.put(i) == nil {
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
