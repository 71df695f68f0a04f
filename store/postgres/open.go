package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// OpenConfig connects to the server of a postgres:// or postgresql:// address, and makes schema and namespace if they
// are missing. The address takes dibs's own parameters and those of libpq and pgxpool, such as sslmode, several
// hosts, and pool_max_conns (default 16).
//
// Its errors wrap lease.ErrUnavailable if the server cannot be reached or is a standby. Close the store when the
// program ends.
func OpenConfig(ctx context.Context, c store.Config) (*store.Store, error) {
	return openKnowing(ctx, c, Migrations)
}

// openKnowing is OpenConfig of a program that knows these migrations.
func openKnowing(ctx context.Context, c store.Config, migrations fs.FS) (*store.Store, error) {
	if c.URL == nil || c.URL.Scheme != "postgres" && c.URL.Scheme != "postgresql" {
		return nil, fmt.Errorf("postgres store: %s is not a postgres:// address", c)
	}
	b := new(behind)
	cfg, err := poolConfig(c, b)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres store %s: %w", c, err)
	}
	s, err := over(ctx, pool, c, b, migrations)
	if err != nil {
		pool.Close()
		return nil, err
	}
	for _, f := range exposed(cfg.ConnConfig) {
		s.Properties.Flaw(f)
	}
	ours := s.Close
	s.Close = func() error {
		err := ours()
		pool.Close()
		return err
	}
	return s, nil
}

// New makes a store over the caller's pool. The pool stays the caller's: Close leaves it open. c.URL is used for
// messages only and may be nil. The connections must default to READ COMMITTED, else New refuses; each operation sets
// everything else that matters for its own transaction. An operation takes one connection, and the queue leaves two
// of the pool's to the leases: give the pool at least three.
func New(ctx context.Context, pool *pgxpool.Pool, c store.Config) (*store.Store, error) {
	return over(ctx, pool, c, nil, Migrations)
}

// over makes a store over a pool. With b the pool is ours, and b says whether it goes through a pooler; nil: it is
// the caller's.
func over(ctx context.Context, pool *pgxpool.Pool, c store.Config, b *behind, migrations fs.FS) (*store.Store, error) {
	if c.Namespace == "" {
		c.Namespace = "dibs"
	}
	if err := store.CheckNamespace(c.Namespace); err != nil {
		return nil, fmt.Errorf("postgres store: %w", err)
	}
	d := &db{send: overPool(pool), foreign: b == nil, behind: b, address: address(c, pool)}
	p := &preparation{db: d, pool: pool, c: c, maxTTL: new(atomic.Int64), migrations: migrations}
	p.maxTTL.Store(c.Longest().Microseconds())
	if b == nil {
		var err error
		if d.behind, err = foreignBehind(ctx, pool); err != nil {
			return nil, d.fail("open", err)
		}
	}
	srv, err := p.server(ctx)
	if errors.Is(err, errPooled) { // now that we know of it
		srv, err = p.server(ctx)
	}
	if err != nil {
		return nil, err
	}
	pooled := d.behind.pooler.Load()
	if pooled && c.Session {
		return nil, fmt.Errorf("postgres store %s: %w", d.address, errPooler)
	}
	if err = p.schema(ctx, &srv); err != nil {
		return nil, err
	}
	n, err := p.namespace(ctx)
	if err != nil {
		return nil, err
	}
	rows := leases{db: d, ns: c.Namespace, maxTTL: p.maxTTL}
	watch := newListener(rows, pool)
	watch.deaf = pooled
	queued := newTasks(&db{send: besideLeases(pool), foreign: d.foreign, behind: d.behind, address: d.address}, c.Namespace, watch)
	s := &store.Store{Kind: "postgres", URL: d.address, Leases: rows, Ticks: ticks{rows}, History: told{d, c.Namespace}, Fleet: processes{d, c.Namespace},
		Queue: queued, Tasks: admin{queued},
		Notify: watch, Properties: n.properties(srv, c.Session), Prepared: p.lines, Close: watch.close}
	if pooled {
		s.Notify = nil // waiters poll
		behindPooler(&s.Properties, d.foreign, pool)
	}
	if c.Session {
		named := newSession(rows, pool, n.maxTTL)
		if err = named.connect(ctx); err != nil {
			return nil, errors.Join(err, named.close())
		}
		s.Leases, s.Ticks = named, sessionTicks{ticks{rows}, named}
		s.Close = func() error { return errors.Join(watch.close(), named.close()) }
	}
	return s, nil
}

// address is the server's, without a password.
func address(c store.Config, pool *pgxpool.Pool) string {
	if c.URL != nil {
		return c.String()
	}
	cc := pool.Config().ConnConfig
	return fmt.Sprintf("postgres://%s:%d/%s", cc.Host, cc.Port, cc.Database)
}

var (
	_ lease.Store    = leases{}
	_ lease.Notifier = (*listener)(nil)
)
