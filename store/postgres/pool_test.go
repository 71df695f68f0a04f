package postgres

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// However many calls of the queue wait for a transaction of somebody's, the leases find a connection at once.
func TestRenewalsDoNotWaitForTheQueue(t *testing.T) {
	t.Parallel()
	const conns = 4
	c := config(t, testserver.Postgres(t))
	pool := warmPool(t, c, conns)
	s, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	w := joined(t, s)
	id := enqueue(t, s.Queue, spec(uniqueKey("there")))[0].ID
	tx, err := superuser(t, c.URL.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	theirs := QueueTx(tx, c.Namespace)
	enqueue(t, theirs, spec(uniqueKey("u")), spec(uniqueKey("there")))
	done := make(chan struct{})
	var waiting sync.WaitGroup
	for i := range 12 {
		waiting.Go(func() {
			for n := i; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				var err error
				if n%2 == 0 {
					_, err = s.Queue.Enqueue(t.Context(), []task.Spec{spec(uniqueKey("u"))})
				} else {
					_, err = s.Tasks.Operate(t.Context(), driver.OpRequest{Operation: driver.OpCancel, IDs: []task.ID{id}, By: "t"})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for watch := superuser(t, c.URL.String()); pool.Stat().AcquiredConns() < conns-forLeases || !blocks(t, watch, tx); {
		time.Sleep(time.Millisecond)
	}
	waited := pool.Stat().EmptyAcquireCount()
	for range 20 {
		r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: w, TTL: time.Minute}})
		if err != nil || r.Answers[0].Status != lease.OK {
			t.Errorf("a renewal: %+v, %v", r, err)
			break
		}
	}
	if n := pool.Stat().EmptyAcquireCount() - waited; n > 0 {
		t.Errorf("%d of the calls waited for a connection", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	close(done)
	waiting.Wait()
}

// warmPool is a pool of n connections, which are open.
func warmPool(t *testing.T, c store.Config, n int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := poolConfig(c, new(behind))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = n
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for range n {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	return pool
}
