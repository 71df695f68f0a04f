package mysql

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Long lists leave a session as it was: a connection of the pool, which the caller may use as well, and that of a
// caller's transaction, whether the call succeeds or not.
// Holds: Q2.
func TestLongListsLeaveTheSessionAsItWas(t *testing.T) {
	t.Parallel()
	const own = "777" // as a caller may have set it
	c := queueConfig(t, testserver.MariaDB(t))
	mustOpen(t, c) // which makes the namespace
	pool := raw(t, c.URL.String(), nil)
	pool.SetMaxOpenConns(1)
	s, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "SET SESSION in_predicate_conversion_threshold = "+own)
	same := func(when string, q interface{ QueryRow(string, ...any) *sql.Row }) {
		t.Helper()
		var is string
		if err := q.QueryRow("SELECT @@in_predicate_conversion_threshold").Scan(&is); err != nil || is != own {
			t.Errorf("%s: %q, %v", when, is, err)
		}
	}
	var specs []task.Spec
	for i := range longList {
		specs = append(specs, spec(func(s *task.Spec) { s.Unique = &task.Unique{Key: fmt.Sprint(i), Until: task.UntilFinished} }))
	}
	enqueue(t, s.Queue, specs...)
	same("after a batch", pool)
	w := joined(t, s)
	var got []driver.Fetched
	for range 2 * longList / mostGiven {
		got = append(got, fetchSome(t, s, w, longList-len(got)).Tasks...)
	}
	if len(got) != longList {
		t.Fatalf("fetched %d", len(got))
	}
	tx, q, err := BeginTx(t.Context(), pool, c.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	complete(t, q, w, got...)
	same("in a transaction", tx)
	p := new(packet).add("lock-tasks", make(list, longList)) // which fails: it is over
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := q.send(t.Context(), p, nil); err == nil {
		t.Error("a transaction that is over takes a packet")
	}
	same("after a call that failed", pool)
}

// Processes that make the same limits at once do not fail for it.
// Holds: promise 18.
func TestTheSameNewLimitsMadeAtOnce(t *testing.T) {
	t.Parallel()
	const many, limits = 6, 3 * chunk
	c := queueConfig(t, testserver.MariaDB(t))
	s := mustOpen(t, c)
	var all sync.WaitGroup
	for n := range many {
		all.Go(func() {
			var specs []task.Spec
			for i := range limits {
				specs = append(specs, spec(limitOf(fmt.Sprint("l", (i+n*limits/many)%limits), 1)))
			}
			if got, err := s.Queue.Enqueue(t.Context(), specs); err != nil || len(got) != limits {
				t.Errorf("%d, %v", len(got), err)
			}
		})
	}
	all.Wait()
	db := raw(t, c.URL.String(), nil)
	if n := count(t, db, "SELECT COUNT(*) FROM dibs_task_limits WHERE ns = ?", c.Namespace); n != limits {
		t.Errorf("%d limits", n)
	}
	if n := count(t, db, "SELECT COUNT(*) FROM dibs_tasks WHERE ns = ? AND state = 1", c.Namespace); n != limits {
		t.Errorf("%d are available, want one under each limit", n)
	}
}
