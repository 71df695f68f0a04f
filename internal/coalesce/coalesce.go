// Package coalesce turns concurrent calls into batches, the way a database groups commits:
// a call that finds nothing under way leaves at once, and those that arrive meanwhile leave
// together when it returns. Nothing ever waits for a timer.
package coalesce

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrClosed is returned by Do after Close.
var ErrClosed = errors.New("coalesce: closed")

// A Func carries out a batch and answers item i with answer i. An error is the answer to all.
type Func[Q, A any] func([]Q) ([]A, error)

// A Batcher coalesces the calls of its Do. It is safe for concurrent use.
type Batcher[Q, A any] struct {
	do      Func[Q, A]
	key     func(Q) string
	max     int
	mu      sync.Mutex
	queue   []*call[Q, A]
	flying  int
	flights int
	halving time.Duration
	boot    func() time.Duration
	crowd   bool // the last batch was of several calls
	closed  bool
}

type call[Q, A any] struct {
	q    Q
	a    A
	err  error
	done chan struct{}
}

// New makes a Batcher that calls do with at most max items. Items with the same key never
// travel in the same batch; where key is nil any may. At most flights batches are under way at once.
func New[Q, A any](max, flights int, key func(Q) string, do Func[Q, A]) *Batcher[Q, A] {
	return &Batcher[Q, A]{do: do, key: key, max: max, flights: flights}
}

// Limit has later batches be of n items at most.
func (b *Batcher[Q, A]) Limit(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.max = n
}

// Do submits one item and waits for its answer. When ctx ends first, Do returns its error and
// the item's fate is unknown: it may still be carried out.
func (b *Batcher[Q, A]) Do(ctx context.Context, q Q) (A, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		var zero A
		return zero, ErrClosed
	}
	if b.flying < b.flights && len(b.queue) == 0 && !b.crowd && ctx.Done() == nil {
		b.flying++
		b.mu.Unlock()
		return b.alone(q)
	}
	c := &call[Q, A]{q: q, done: make(chan struct{})}
	b.queue = append(b.queue, c)
	lead := b.flying < b.flights
	if lead {
		b.flying++
	}
	b.mu.Unlock()
	switch {
	case lead && ctx.Done() == nil:
		b.fly() // nothing can call this goroutine away, so it needs no other to wait for
	case lead:
		go b.fly()
	}
	select {
	case <-c.done:
		return c.a, c.err
	case <-ctx.Done():
		var zero A
		return zero, ctx.Err()
	}
}

// Close refuses further calls. Those already submitted are answered.
func (b *Batcher[Q, A]) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
}

// fly sends one batch. If calls are waiting then, another goroutine goes on with them: the goroutine that led this
// batch had a call of its own, and must not wait for the others' calls.
func (b *Batcher[Q, A]) fly() {
	b.mu.Lock()
	if b.crowd {
		// Other goroutines run first: callers that the last answers woke, of this Batcher or of
		// another, are about to call again, and so travel together instead of one by one.
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
	batch := b.take()
	b.crowd = len(batch) > 1
	b.mu.Unlock()
	b.send(batch)
	b.land()
}

// land ends a flight, or hands it to the calls that are waiting by now.
func (b *Batcher[Q, A]) land() {
	b.mu.Lock()
	more := len(b.queue) > 0
	if !more {
		b.flying--
	}
	b.mu.Unlock()
	if more {
		go b.fly()
	}
}

// alone carries out one call on its own goroutine. It makes nothing that others would wait for: nobody does.
func (b *Batcher[Q, A]) alone(q Q) (a A, err error) {
	as, err := b.ask([]Q{q})
	if err == nil {
		a = as[0]
	}
	b.land()
	return a, err
}

// take removes the next batch from the queue: the oldest calls first, no key twice, sorted by key
// so that batches of several processes lock in the same order (rule L4).
func (b *Batcher[Q, A]) take() []*call[Q, A] {
	if len(b.queue) == 1 {
		batch := b.queue
		b.queue = nil
		return batch
	}
	if b.key == nil {
		n := min(len(b.queue), b.max)
		batch, rest := b.queue[:n:n], b.queue[n:]
		b.queue = append(make([]*call[Q, A], 0, len(rest)+n), rest...) // most likely as many come again
		return batch
	}
	seen := make(map[string]bool, min(len(b.queue), b.max))
	var batch, rest []*call[Q, A]
	for _, c := range b.queue {
		k := b.key(c.q)
		if len(batch) == b.max || seen[k] {
			rest = append(rest, c)
			continue
		}
		seen[k] = true
		batch = append(batch, c)
	}
	b.queue = rest
	slices.SortFunc(batch, func(x, y *call[Q, A]) int { return strings.Compare(b.key(x.q), b.key(y.q)) })
	return batch
}

func (b *Batcher[Q, A]) send(batch []*call[Q, A]) {
	if len(batch) == 0 {
		return // another flight took it
	}
	if b.halving > 0 {
		b.sendInHalves(batch)
		return
	}
	as, err := b.carryOut(batch)
	answer(batch, as, err)
}

func (b *Batcher[Q, A]) carryOut(batch []*call[Q, A]) ([]A, error) {
	qs := make([]Q, len(batch))
	for i, c := range batch {
		qs[i] = c.q
	}
	return b.ask(qs)
}

func (b *Batcher[Q, A]) ask(qs []Q) ([]A, error) {
	as, err := b.do(qs)
	if err == nil && len(as) != len(qs) {
		err = fmt.Errorf("coalesce: %d of %d items were answered", len(as), len(qs))
	}
	return as, err
}

func answer[Q, A any](batch []*call[Q, A], as []A, err error) {
	for i, c := range batch {
		if err != nil {
			c.err = err
		} else {
			c.a = as[i]
		}
		close(c.done)
	}
}
