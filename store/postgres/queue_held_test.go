package postgres

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Fetches that meet another server wait for each other at its namespace's row before they have locked anything.
// Holds: Q5.
func TestFetchesOfAnotherServerDoNotDeadlock(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	w := joined(t, s)
	l := &task.Limit{Key: "l", Max: 1, Shared: true}
	enqueue(t, s.Queue, spec(func(s *task.Spec) { s.Queue, s.Limit = "q1", l }),
		spec(func(s *task.Spec) { s.Queue, s.Limit, s.Delay = "q2", l, 10*time.Millisecond }))
	time.Sleep(20 * time.Millisecond)
	holder := superuser(t, c.URL.String())
	do := func(sql string, args ...any) {
		t.Helper()
		if _, err := holder.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	do("UPDATE dibs.namespaces SET identity = 'another' WHERE ns = $1", c.Namespace)
	do("INSERT INTO dibs.queue_notes SELECT ns, lim, 0 FROM dibs.queue_limits WHERE ns = $1", c.Namespace)
	do("BEGIN")
	do("SELECT FROM dibs.queue_limits WHERE ns = $1 FOR NO KEY UPDATE", c.Namespace)
	// What is held back has no limit locked, and so waits for nobody who has one.
	for _, q := range []string{"q1", "q2"} {
		f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{q}, Max: 5})
		if err != nil || len(f.Tasks) > 0 {
			t.Errorf("fetch from %s: %+v, %v", q, f, err)
		}
	}
	do("COMMIT")
}
