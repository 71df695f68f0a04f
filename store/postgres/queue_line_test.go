package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/task"
)

// A task that was fetched just before its time was over runs: nobody who wants its key discards it.
func TestWhatWasFetchedInTimeIsNotDiscarded(t *testing.T) {
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	w := joined(t, s)
	end := time.Now().Add(2 * time.Second)
	id := enqueue(t, s.Queue, spec(uniqueKey("u"), func(x *task.Spec) { x.ExpiresAt = end }))[0].ID
	conn := superuser(t, c.URL.String())
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A fetch that takes a while to commit.
	var n int
	err = tx.QueryRow(t.Context(), "SELECT count(*) FROM dibs.queue_fetch($1, $2, $3, $4, 0, $5, NULL, 1, true, true, 1, 0, 0) WHERE task > 0",
		append(append([]any{c.Namespace}, ref(w)...), []int64{number(c.Namespace, false, "q")})...).Scan(&n)
	if err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	time.Sleep(time.Until(end) + 100*time.Millisecond)
	answered := make(chan task.Enqueued, 1)
	go func() { answered <- enqueue(t, s.Queue, spec(uniqueKey("u")))[0] }()
	time.Sleep(300 * time.Millisecond) // in most runs it waits by then; in all it must be right
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
	look := superuser(t, c.URL.String())
	for waits := 0; waits == 0; { // it has x, and waits for y
		if err := look.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'").Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = theirs.Enqueue(context.Background(), []task.Spec{x}) // one of the two is the deadlock's victim
	r := <-done
	if r.err != nil {
		t.Errorf("%+v, %v", r.got, r.err)
	}
	_ = tx.Rollback(context.Background())
}
