package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/postgres"
	"github.com/dibs-run/dibs/store/redis"
)

// heartbeat holds many leases in this process, and tells what their renewal costs it.
func heartbeat(ctx context.Context, w io.Writer, o options, kind string) error {
	open := redis.OpenConfig
	switch kind {
	case "redis":
		client, err := redisClient(addresses[kind])
		if err != nil {
			return err
		}
		defer client.Close()
		defer cleanRedis(client)
	case "postgres":
		open = postgres.OpenConfig
		pool, err := plainPool(ctx, addresses[kind])
		if err != nil {
			return err
		}
		defer pool.Close()
		defer cleanPostgres(pool)
	default:
		return fmt.Errorf("heartbeat %s: want redis or postgres", kind)
	}
	keeper, closeKeeper, err := openKeeper(ctx, addresses[kind], open)
	if err != nil {
		return err
	}
	defer closeKeeper()
	held, err := acquireMany(ctx, keeper, o.leases)
	if err != nil {
		return err
	}
	var renewals atomic.Int64
	for _, l := range held {
		l.OnRenew(func() { renewals.Add(1) })
	}
	select { // the acquiring must not count, nor what the first renewal learns
	case <-time.After(3 * keeper.Margin().Heartbeat):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	renewals.Store(0)
	began, before := time.Now(), cpu()
	select {
	case <-time.After(o.hold):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	used, took := cpu()-before, time.Since(began)
	lost, why := losses(held)
	fmt.Fprintf(w, "\n%s: %d leases held for %s: %.2f %% of a core (%.1f µs per renewal, %d renewals, %d leases lost; goal on Redis: at most 3 %%)\n",
		kind, o.leases, took.Round(time.Second), 100*used.Seconds()/took.Seconds(),
		float64(used.Microseconds())/float64(max(renewals.Load(), 1)), renewals.Load(), lost)
	if renewals.Load() < int64(o.leases) || lost > 0 {
		return fmt.Errorf("%d renewals and %d lost leases: the server did not keep up: %v", renewals.Load(), lost, why)
	}
	return nil
}

// acquireMany acquires n leases, many at once so that they are coalesced.
func acquireMany(ctx context.Context, k *lease.Keeper, n int) ([]*lease.Lease, error) {
	var (
		held  = make([]*lease.Lease, n)
		h     = holder()
		all   sync.WaitGroup
		slots = make(chan struct{}, 500)
	)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			l, err := k.Acquire(ctx, lease.Want{Key: lease.Key(fmt.Sprintf("app/job-%05d", i)), Holder: h})
			if err != nil {
				cancel(err)
			}
			held[i] = l
		})
	}
	all.Wait()
	return held, context.Cause(ctx)
}

// losses counts the leases that were lost, and says why the first one was.
func losses(held []*lease.Lease) (n int, why error) {
	for _, l := range held {
		select {
		case <-l.Lost():
			if n++; n == 1 {
				why = l.Loss().Err
			}
		default:
		}
	}
	return n, why
}

// cpu is the time that this process has spent, in user and system mode.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
