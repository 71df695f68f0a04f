// Package sim puts a faulty network between a process and a store, for tests in virtual time
// (testing/synctest): latency, lost requests, lost replies and partitions, drawn from a seed.
package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// A Link is one process's way to the store. Its methods are safe for concurrent use.
type Link struct {
	lease.Store
	// Latency is the longest time that a message takes in either direction.
	Latency time.Duration
	// Loss is the probability that a message does not arrive.
	Loss float64

	mu  sync.Mutex
	rng *rand.Rand
	cut bool
	// Calls counts requests that reached the store, by name.
	calls map[string]int
}

// NewLink makes a link to a store whose faults follow from the seed.
func NewLink(s lease.Store, seed uint64) *Link {
	return &Link{Store: s, rng: rand.New(rand.NewPCG(seed, seed)), calls: map[string]int{}}
}

// Cut separates the process from the store, or joins them again.
func (l *Link) Cut(cut bool) {
	l.mu.Lock()
	l.cut = cut
	l.mu.Unlock()
}

// Calls is how many requests of that name reached the store.
func (l *Link) Calls(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[name]
}

var errLost = fmt.Errorf("%w: the message was lost", lease.ErrUnavailable)

// travel is one message's way. A lost one is noticed only by its absence: at the caller's deadline.
func (l *Link) travel(ctx context.Context) error {
	l.mu.Lock()
	lost := l.cut || l.rng.Float64() < l.Loss
	delay := time.Duration(0)
	if l.Latency > 0 {
		delay = time.Duration(l.rng.Int64N(int64(l.Latency)))
	}
	l.mu.Unlock()
	if lost {
		<-ctx.Done()
		return errors.Join(errLost, ctx.Err())
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return errors.Join(errLost, ctx.Err())
	}
}

// through carries a request to the store and its reply back. A request that has arrived is carried
// out whether or not the caller still waits.
func through(l *Link, ctx context.Context, name string, f func(context.Context) (lease.Reply, error)) (lease.Reply, error) {
	if err := l.travel(ctx); err != nil {
		return lease.Reply{}, err
	}
	l.mu.Lock()
	l.calls[name]++
	l.mu.Unlock()
	r, err := f(context.WithoutCancel(ctx))
	if err != nil {
		return r, err
	}
	if err := l.travel(ctx); err != nil {
		return lease.Reply{}, err
	}
	return r, nil
}

// Acquire is lease.Store's, through the network; so are the others.
func (l *Link) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	return through(l, ctx, "acquire", func(ctx context.Context) (lease.Reply, error) { return l.Store.Acquire(ctx, reqs) })
}

// Renew renews.
func (l *Link) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	return through(l, ctx, "renew", func(ctx context.Context) (lease.Reply, error) { return l.Store.Renew(ctx, reqs) })
}

// Release releases.
func (l *Link) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	return through(l, ctx, "release", func(ctx context.Context) (lease.Reply, error) { return l.Store.Release(ctx, refs) })
}

// Read reads.
func (l *Link) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	return through(l, ctx, "read", func(ctx context.Context) (lease.Reply, error) { return l.Store.Read(ctx, keys) })
}
