package mysql

import (
	"context"
	"database/sql"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// What a transaction of a caller's has keeps nobody from what is behind it, however much that is: tasks of a dead
// worker, tasks of one that leaves, and tasks that have expired.
// Holds: promise 26.
func TestWhatIsBehindLockedTasksIsReached(t *testing.T) {
	const had, free = 3 * chunk, 2 * chunk
	c := queueConfig(t, testserver.MariaDB(t))
	s := mustOpen(t, c)
	db := raw(t, c.URL.String(), nil)
	ctx := t.Context()
	// have locks the first tasks in a state.
	have := func(state int) (release func()) {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		if _, err := tx.Exec("SELECT ver FROM dibs_tasks FORCE INDEX (listed) WHERE ns = ? AND state = ? ORDER BY id LIMIT ? FOR UPDATE", c.Namespace, state, had); err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback() }
	}
	w := joined(t, s)
	id := enqueue(t, s.Queue, spec())[0].ID
	if got := fetchSome(t, s, w, 1).Tasks; len(got) != 1 {
		t.Fatalf("fetched %v", got)
	}
	like(t, db, id, had+free-1, nil)
	unlock := have(3)
	release(t, s, w)
	r, err := s.Queue.Maintain(ctx, driver.MaintainRequest{})
	if err != nil || r.Rescued != free {
		t.Errorf("rescued from a dead worker: %d, %v; %d were free", r.Rescued, err, free)
	}
	unlock()
	if r, err = s.Queue.Maintain(ctx, driver.MaintainRequest{}); err != nil || r.Rescued != had {
		t.Errorf("rescued then: %d, %v", r.Rescued, err)
	}
	exec(t, db, "UPDATE dibs_tasks SET expires = 1, lapses = 1 WHERE ns = ?", c.Namespace)
	unlock = have(1)
	if r, err = s.Queue.Maintain(ctx, driver.MaintainRequest{}); err != nil || r.Expired != free {
		t.Errorf("expired: %d, %v; %d were free", r.Expired, err, free)
	}
	unlock()
	leaver := joined(t, s)
	id = enqueue(t, s.Queue, spec(func(s *task.Spec) { s.Queue = "left" }))[0].ID
	f, err := s.Queue.Fetch(ctx, driver.FetchRequest{Worker: leaver, Queues: []string{"left"}, Max: 1})
	if err != nil || len(f.Tasks) != 1 {
		t.Fatal(f, err)
	}
	like(t, db, id, had+free-1, nil)
	have(3)
	if err := s.Queue.Deregister(context.WithoutCancel(ctx), leaver); err != nil {
		t.Error(err)
	}
	if n := count(t, db, "SELECT COUNT(*) FROM dibs_tasks WHERE ns = ? AND queue = 'left' AND state = 1", c.Namespace); n != free {
		t.Errorf("a worker that left has given %d back; %d were free", n, free)
	}
}
