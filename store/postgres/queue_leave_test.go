package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// slowFetch is a fetch of one task that takes a while to commit, and how many it got: the server goes on with one
// whose client has gone.
func slowFetch(t *testing.T, c store.Config, w lease.Ref) (tx pgx.Tx, n int) {
	t.Helper()
	tx, err := superuser(t, c.URL.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = tx.QueryRow(t.Context(), "SELECT count(*) FROM dibs.queue_fetch($1, $2, $3, $4, 0, $5, NULL, 1, true, true, 1, 0, 0) WHERE task > 0",
		append(append([]any{c.Namespace}, ref(w)...), []int64{number(c.Namespace, false, "q")})...).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return tx, n
}

// What a fetch gives to a worker that is just leaving is rescued with the rest of what that worker has.
//
// Holds: Q4.
func TestAFetchIsUnderWayWhenItsWorkerLeaves(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	w, other := joined(t, s), joined(t, s)
	id := enqueue(t, s.Queue, spec())[0].ID
	tx, n := slowFetch(t, c, w)
	if n != 1 {
		t.Fatalf("%d tasks are fetched", n)
	}
	left := make(chan error, 1)
	go func() { left <- s.Queue.Deregister(context.Background(), w) }()
	awaitBlocked(t, superuser(t, c.URL.String()), tx)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	if got := fetchSome(t, s, other, 1); len(got.Tasks) != 1 || got.Tasks[0].ID != id {
		t.Errorf("another worker gets %+v", got)
	}
}

// The same of a worker that is found dead: it is looked at again.
//
// Holds: Q4.
func TestAFetchIsUnderWayWhenItsWorkerIsFoundDead(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	w := joined(t, s)
	id := enqueue(t, s.Queue, spec())[0].ID
	tx, n := slowFetch(t, c, w)
	if n != 1 {
		t.Fatalf("%d tasks are fetched", n)
	}
	release(t, s, w)
	maintain := func() driver.Maintained {
		t.Helper()
		m, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := maintain(); m.Rescued != 0 {
		t.Errorf("before the commit: %+v", m)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := maintain(); m.Rescued != 1 {
		t.Errorf("after the commit: %+v", m)
	}
	if x, _, _, err := s.Tasks.Task(t.Context(), id); err != nil || x.State != task.Available {
		t.Errorf("%+v, %v", x, err)
	}
	maintain()
	if all := one[int](t, superuser(t, c.URL.String()), "SELECT count(*) FROM dibs.queue_workers WHERE ns = $1 AND gone = 0", c.Namespace); all != 0 {
		t.Errorf("%d workers are still thought to be there", all)
	}
}
