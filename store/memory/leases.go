package memory

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
)

// leases is b's side of lease.Store and lease.Notifier. Each call answers its whole batch at one instant, under one
// lock.
type leases struct{ b *Backend }

// batch answers n items at one instant.
func (l leases) batch(ctx context.Context, n int, item func(i int, now time.Time) lease.Answer) (lease.Reply, error) {
	if err := alive(ctx); err != nil {
		return lease.Reply{}, err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	r := lease.Reply{Now: l.b.now()}
	for i := range n {
		a := item(i, r.Now)
		a.Record = clone(a.Record)
		r.Answers = append(r.Answers, a)
	}
	return r, nil
}

// put stores what a decision made of a record.
func (b *Backend) put(k lease.Key, r lease.Record, s lease.Status) lease.Answer {
	if s == lease.OK {
		b.leases[k] = clone(r)
	}
	return lease.Answer{Status: s, Record: r}
}

func (l leases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	reqs = bounds.Of(reqs)
	epoch := lease.Epoch(0)
	r, err := l.batch(ctx, len(reqs), func(i int, now time.Time) lease.Answer {
		epoch = l.b.identify(lease.Seen(reqs), now)
		return l.b.acquire(reqs[i], now)
	})
	r.Epoch = epoch
	return r, err
}

// identify holds grants back if an asker has seen a later state of this store, and mends a hold-back that was
// taken by a clock which ran ahead (rule L9).
func (b *Backend) identify(seen lease.Epoch, now time.Time) lease.Epoch {
	longest := now.Add(b.maxTTL)
	if b.epoch < seen {
		b.epoch, b.holdUntil = min(max(seen+1, lease.Epoch(now.UnixMicro())), lease.MaxEpoch), longest
	}
	if b.holdUntil.After(longest) {
		b.holdUntil = longest
	}
	return b.epoch
}

func (b *Backend) acquire(req lease.AcquireRequest, now time.Time) lease.Answer {
	r := b.leases[req.Key]
	switch {
	case late(now, req.NotAfter):
		return lease.Answer{Status: lease.Late, Record: r}
	case r.Live(now) && r.Owner == req.Holder.ID:
		return lease.Answer{Status: lease.OK, Record: r} // the answer to its first request was lost
	case req.TTL > b.maxTTL:
		return lease.Answer{Status: lease.TooLong, Record: r, Until: now.Add(b.maxTTL)}
	case b.holdUntil.After(now):
		return lease.Answer{Status: lease.HeldBack, Record: r, Until: b.holdUntil}
	case !free(r, req, now):
		return lease.Answer{Status: lease.Held, Record: r}
	}
	return b.put(req.Key, grant(r, req, now), lease.OK)
}

func (l leases) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	return l.batch(ctx, len(reqs), func(i int, now time.Time) lease.Answer {
		r, s := renew(l.b.leases[reqs[i].Key], reqs[i], now)
		return l.b.put(reqs[i].Key, r, s)
	})
}

func (l leases) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	return l.batch(ctx, len(refs), func(i int, _ time.Time) lease.Answer { return l.b.release(refs[i]) })
}

func (b *Backend) release(ref lease.Ref) lease.Answer {
	r, s := release(b.leases[ref.Key], ref)
	if s == lease.OK {
		b.notify(ref.Key)
	}
	a := b.put(ref.Key, r, s)
	if s == lease.OK && ref.Key.Once() {
		delete(b.leases, ref.Key) // nobody will need its token
	}
	return a
}

func (l leases) RequestRelease(ctx context.Context, ref lease.Ref, by lease.Holder) (lease.Reply, error) {
	by = bounds.Of(by)
	return l.batch(ctx, 1, func(_ int, now time.Time) lease.Answer {
		r, s := ask(l.b.leases[ref.Key], ref, by, now)
		return l.b.put(ref.Key, r, s)
	})
}

func (l leases) Break(ctx context.Context, ref lease.Ref, by lease.Broken) (lease.Reply, error) {
	by = bounds.Of(by)
	return l.batch(ctx, 1, func(_ int, now time.Time) lease.Answer {
		r, s := broken(l.b.leases[ref.Key], ref, by, now)
		if s == lease.OK {
			l.b.notify(ref.Key)
		}
		return l.b.put(ref.Key, r, s)
	})
}

func (l leases) Trim(ctx context.Context, keys []lease.Key) error {
	_, err := step(ctx, l.b, func(now time.Time) bool {
		for _, key := range keys {
			if r := l.b.leases[key]; r.Overlong(now) {
				r.Expires = now.Add(r.TTL)
				l.b.leases[key] = r
			}
		}
		return true
	})
	return err
}

func (l leases) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	return l.batch(ctx, len(keys), func(i int, _ time.Time) lease.Answer {
		r, found := l.b.leases[keys[i]]
		if !found {
			return lease.Answer{Status: lease.Gone}
		}
		return lease.Answer{Status: lease.OK, Record: r}
	})
}

// listed is the most records that List returns.
const listed = 10_000

func (l leases) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	if err := alive(ctx); err != nil {
		return lease.Reply{}, err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	reply := lease.Reply{Now: l.b.now()}
	for k, r := range l.b.leases {
		if strings.HasPrefix(string(k), prefix) && (all || r.Live(reply.Now)) {
			reply.Answers = append(reply.Answers, lease.Answer{Status: lease.OK, Record: clone(r)})
		}
	}
	slices.SortFunc(reply.Answers, func(x, y lease.Answer) int {
		return strings.Compare(string(x.Record.Key), string(y.Record.Key))
	})
	reply.Answers = reply.Answers[:min(len(reply.Answers), listed)]
	return reply, nil
}

func (l leases) Watch(ctx context.Context, key lease.Key) (<-chan struct{}, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	// One waiting hint is as good as many.
	c := make(chan struct{}, 1)
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.b.watchers[key] == nil {
		l.b.watchers[key] = map[chan struct{}]bool{}
	}
	l.b.watchers[key][c] = true
	context.AfterFunc(ctx, func() { l.b.unwatch(key, c) })
	return c, nil
}

func (b *Backend) unwatch(key lease.Key, c chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.watchers[key], c); len(b.watchers[key]) == 0 {
		delete(b.watchers, key)
	}
}

func (b *Backend) notify(key lease.Key) {
	for c := range b.watchers[key] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}
