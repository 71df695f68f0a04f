package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/task"
)

// A task that was fetched just before its time was over runs: nobody who wants its key discards it.
func TestWhatWasFetchedInTimeIsNotDiscarded(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	w := joined(t, s)
	var id task.ID
	var end time.Time
	var tx pgx.Tx
	for in, n := 300*time.Millisecond, 0; n == 0; in *= 2 { // until there was time to fetch it
		end = now(t, s).Add(in)
		id = enqueue(t, s.Queue, spec(uniqueKey("u"), func(x *task.Spec) { x.ExpiresAt = end }))[0].ID
		if tx, n = slowFetch(t, c, w); n == 0 { // it has discarded the task, whose key nobody gets before it ends
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for !now(t, s).After(end) {
		time.Sleep(10 * time.Millisecond)
	}
	answered := make(chan task.Enqueued, 1)
	go func() { answered <- enqueue(t, s.Queue, spec(uniqueKey("u")))[0] }()
	awaitBlocked(t, superuser(t, c.URL.String()), tx)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-answered; a.Answer != task.Duplicate || a.ID != id {
		t.Errorf("answer: %+v", a)
	}
	if x, _, _, err := s.Tasks.Task(t.Context(), id); err != nil || x.State != task.Running {
		t.Errorf("%+v, %v", x, err)
	}
}

// A deadlock with a transaction that takes its keys one by one is somebody's key under way: undecided, and no error.
func TestADeadlockOverKeysIsUndecided(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	q := s.Queue.(tasks)
	keys := []string{"a", "b"}
	x, y := spec(uniqueKey(keys[0])), spec(uniqueKey(keys[1]))
	hx, hy := q.hashed(x.Unique.Hash(x.Kind)), q.hashed(y.Unique.Hash(y.Kind))
	if string(hx.Bytes[:]) > string(hy.Bytes[:]) {
		x, y = y, x
	}
	tx, err := superuser(t, c.URL.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	theirs := QueueTx(tx, c.Namespace)
	enqueue(t, theirs, y)
	type result struct {
		got []task.Enqueued
		err error
	}
	done := make(chan result, 1)
	go func() {
		got, err := s.Queue.Enqueue(context.Background(), []task.Spec{x, y})
		done <- result{got, err}
	}()
	// It has x, and waits for y.
	awaitBlocked(t, superuser(t, c.URL.String()), tx)
	_, _ = theirs.Enqueue(context.Background(), []task.Spec{x}) // one of the two is the deadlock's victim
	r := <-done
	if r.err != nil {
		t.Errorf("%+v, %v", r.got, r.err)
	}
	_ = tx.Rollback(context.Background())
}
