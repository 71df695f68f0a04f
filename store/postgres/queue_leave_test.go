package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// slowFetch is a fetch of one task that takes a while to commit: the server goes on with one whose client has gone.
func slowFetch(t *testing.T, c store.Config, w lease.Ref) pgx.Tx {
	t.Helper()
	tx, err := superuser(t, c.URL.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	err = tx.QueryRow(t.Context(), "SELECT count(*) FROM dibs.queue_fetch($1, $2, $3, $4, 0, $5, NULL, 1, true, true, 1, 0, 0) WHERE task > 0",
		append(append([]any{c.Namespace}, ref(w)...), []int64{number(c.Namespace, false, "q")})...).Scan(&n)
	if err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	return tx
}

// What a fetch gives to a worker that is just leaving is rescued with the rest of what that worker has.
//
// Holds: Q4.
func TestAFetchIsUnderWayWhenItsWorkerLeaves(t *testing.T) {
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	w, other := joined(t, s), joined(t, s)
	id := enqueue(t, s.Queue, spec())[0].ID
	tx := slowFetch(t, c, w)
	left := make(chan error, 1)
	go func() { left <- s.Queue.Deregister(context.Background(), w) }()
	time.Sleep(200 * time.Millisecond) // in most runs it waits by then; in all it must be right
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
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	w := joined(t, s)
	id := enqueue(t, s.Queue, spec())[0].ID
	tx := slowFetch(t, c, w)
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
