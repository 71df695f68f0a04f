package main

import (
	"context"
	"fmt"
	"os"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/store"
)

// addresses are the servers to use: those of the tests, else this machine's.
var addresses = map[string]string{
	"redis":    fromEnv("DIBS_TEST_REDIS", "redis://127.0.0.1:6379/0"),
	"postgres": fromEnv("DIBS_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"),
	"mariadb":  fromEnv("DIBS_TEST_MARIADB", "mysql://root@127.0.0.1:3306/test"),
}

func fromEnv(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// namespace is this process's own in the server, and what it makes there is named after it.
var namespace = fmt.Sprintf("dibs-bench-%d", os.Getpid())

// openKeeper opens a store in our namespace, with the Keeper that dibs itself would have.
func openKeeper(ctx context.Context, url string, open func(context.Context, store.Config) (*store.Store, error)) (*lease.Keeper, func(), error) {
	c, err := store.Parse(url)
	if err != nil {
		return nil, nil, err
	}
	c.Namespace, c.Init = namespace, true
	s, err := open(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	k, err := lease.NewKeeper(lease.Options{Store: s.Leases, Notify: s.Notify, Margin: lease.MarginFor(ttl)})
	if err != nil {
		_ = s.Close()
		return nil, nil, err
	}
	return k, func() { k.Close(); _ = s.Close() }, nil
}

// holder is what dibs run writes beside a lease.
func holder() lease.Holder {
	h := command.Self()
	h.RunID, h.Command = run.NewID(), "php artisan invoices:generate"
	return h
}

// dibs is a cycle through a Keeper: with a token, a holder's record, and heartbeats while it is held.
func dibs(k *lease.Keeper) cycle {
	h := holder()
	return func(ctx context.Context, key string) error {
		l, err := k.Acquire(ctx, lease.Want{Key: lease.Key(key), Holder: h})
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}
}
