package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/postgres"
)

func postgresCycles(ctx context.Context, w io.Writer, o options) error {
	url := addresses["postgres"]
	pool, err := plainPool(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer cleanPostgres(pool)
	keeper, closeKeeper, err := openKeeper(ctx, url, postgres.OpenConfig)
	if err != nil {
		return err
	}
	defer closeKeeper()
	plain, err := plainCycle(ctx, pool)
	if err != nil {
		return err
	}
	// Sessions stay open for all of it: the client keeps one for an hour.
	m := &meter{pool: pool, by: map[int]time.Duration{}}
	server := func() time.Duration { return m.used(ctx) }
	return compare(ctx, w, o, "PostgreSQL: acquire and release", server, []library{
		{"dibs", dibs(keeper)},
		{"plain table", plain},
	})
}

// plainPool has a connection for each goroutine, so that their commits share an fsync where the
// server can make them.
func plainPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 32
	return pgxpool.NewWithConfig(ctx, cfg)
}

// plainCycle is what a team writes that keeps leases in a table of its own: one row per key, by
// the server's clock, each commit on disk; no token and no holder but its name.
func plainCycle(ctx context.Context, pool *pgxpool.Pool) (cycle, error) {
	table := plainTable()
	_, err := pool.Exec(ctx, `CREATE TABLE `+table+` (key text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL)`)
	if err != nil {
		return nil, err
	}
	acquire := `INSERT INTO ` + table + ` AS l (key, owner, expires) VALUES ($1, $2, clock_timestamp() + $3)
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
WHERE l.expires <= clock_timestamp() RETURNING key`
	release := `UPDATE ` + table + ` SET expires = '-infinity' WHERE key = $1 AND owner = $2`
	return func(ctx context.Context, key string) error {
		owner := lease.NewNonce().String()
		var got string
		if err := pool.QueryRow(ctx, acquire, key, owner, ttl).Scan(&got); err != nil {
			if errors.Is(err, pgx.ErrNoRows) {
				return fmt.Errorf("%s is held", key)
			}
			return err
		}
		_, err := pool.Exec(ctx, release, key, owner)
		return err
	}, nil
}

func plainTable() string { return strings.ReplaceAll(namespace, "-", "_") }

// cleanPostgres removes what this process left in the database, but not dibs's schema, which may
// have been there before.
func cleanPostgres(pool *pgxpool.Pool) {
	ctx := context.Background()
	for _, statement := range []string{
		`DROP TABLE IF EXISTS ` + plainTable(),
		`DELETE FROM dibs.leases WHERE ns = '` + namespace + `'`,
		`DELETE FROM dibs.namespaces WHERE ns = '` + namespace + `'`,
	} {
		_, _ = pool.Exec(ctx, statement) // without the schema there is nothing to delete
	}
}
