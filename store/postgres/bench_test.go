package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/coalesce"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// benchStore is a store in a database of its own, with a server that keeps fsync.
func benchStore(b *testing.B) (*store.Store, store.Config) {
	c := config(b, database(b, testserver.Postgres(b)))
	return open(b, c), c
}

// BenchmarkCycles counts acquires each followed by a release.
func BenchmarkCycles(b *testing.B) {
	s, c := benchStore(b)
	for _, size := range []int{1, 32, 500} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			for n := 0; b.Loop(); n += size {
				cycle(b, s, size)
			}
			report(b, size)
		})
	}
	b.Run("goroutines=32/coalesced", func(b *testing.B) { coalesced(b, s) })
	b.Run("goroutines=32/plain table", func(b *testing.B) { plain(b, c) })
}

func report(b *testing.B, perLoop int) {
	b.ReportMetric(float64(b.N*perLoop)/b.Elapsed().Seconds(), "cycles/s")
	b.ReportMetric(0, "ns/op")
}

func cycle(b *testing.B, s *store.Store, size int) {
	reqs := make([]lease.AcquireRequest, size)
	for i := range reqs {
		reqs[i] = request(fmt.Sprintf("bench/%d/%d", size, i), 15*time.Second)
	}
	r, err := s.Leases.Acquire(b.Context(), reqs)
	if err != nil {
		b.Fatal(err)
	}
	refs := column(r.Answers, func(a lease.Answer) lease.Ref { return a.Record.Ref() })
	if r, err = s.Leases.Release(b.Context(), refs); err != nil || r.Answers[0].Status != lease.OK {
		b.Fatal(r.Answers[0].Status, err)
	}
}

// coalesced is what 32 goroutines get through one Keeper: calls that come together leave together.
func coalesced(b *testing.B, s *store.Store) {
	ctx := context.Background()
	acquires := coalesce.New(500, 1, func(r lease.AcquireRequest) string { return string(r.Key) },
		func(reqs []lease.AcquireRequest) ([]lease.Answer, error) {
			r, err := s.Leases.Acquire(ctx, reqs)
			return r.Answers, err
		})
	releases := coalesce.New(500, 1, func(r lease.Ref) string { return string(r.Key) },
		func(refs []lease.Ref) ([]lease.Answer, error) {
			r, err := s.Leases.Release(ctx, refs)
			return r.Answers, err
		})
	workers(b, func(key string) error {
		a, err := acquires.Do(ctx, request(key, 15*time.Second))
		if err == nil && a.Status == lease.OK {
			a, err = releases.Do(ctx, a.Record.Ref())
		}
		if err == nil && a.Status != lease.OK {
			err = fmt.Errorf("%s: %s", key, a.Status)
		}
		return err
	})
}

// plain is the usual lease table with one statement per call, and a connection per goroutine.
func plain(b *testing.B, c store.Config) {
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig(c.URL.String())
	if err != nil {
		b.Fatal(err)
	}
	cfg.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if _, err = pool.Exec(ctx, `CREATE TABLE plain (name text PRIMARY KEY, owner text NOT NULL, token bigint NOT NULL, expires timestamptz NOT NULL)`); err != nil {
		b.Fatal(err)
	}
	workers(b, func(key string) error {
		owner := lease.NewNonce().String()
		var token int64
		err := pool.QueryRow(ctx, `INSERT INTO plain VALUES ($1, $2, 1, clock_timestamp() + interval '15 s')
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = plain.token + 1, expires = clock_timestamp() + interval '15 s'
			WHERE plain.expires <= clock_timestamp() RETURNING token`, key, owner).Scan(&token)
		if err == nil {
			_, err = pool.Exec(ctx, `UPDATE plain SET expires = '-infinity' WHERE name = $1 AND owner = $2 AND token = $3`, key, owner, token)
		}
		return err
	})
	_, _ = pool.Exec(ctx, `DROP TABLE plain`)
}

// workers has 32 goroutines do b.N cycles, each on its own key.
func workers(b *testing.B, cycle func(key string) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	for w := range 32 {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := cycle(fmt.Sprintf("worker/%d", w)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	report(b, 1)
}

// BenchmarkRenew renews 10,000 leases in chunks of 500, as a Keeper's heartbeat does.
func BenchmarkRenew(b *testing.B) {
	s, _ := benchStore(b)
	var chunks [][]lease.RenewRequest
	for c := range 20 {
		var reqs []lease.AcquireRequest
		for i := range 500 {
			reqs = append(reqs, request(fmt.Sprintf("renew/%d", c*500+i), 15*time.Second))
		}
		r, err := s.Leases.Acquire(b.Context(), reqs)
		if err != nil {
			b.Fatal(err)
		}
		chunks = append(chunks, column(r.Answers, func(a lease.Answer) lease.RenewRequest {
			return lease.RenewRequest{Ref: a.Record.Ref(), TTL: 15 * time.Second}
		}))
	}
	for b.Loop() {
		for _, reqs := range chunks {
			if r, err := s.Leases.Renew(b.Context(), reqs); err != nil || r.Answers[0].Status != lease.OK {
				b.Fatal(r.Answers[0].Status, err)
			}
		}
	}
}
