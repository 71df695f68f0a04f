package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

// A release locks its rows in the order of their keys, wherever they lie in the table, as every other
// operation does: it holds none that another transaction comes to, while it waits for an earlier one.
func TestAReleaseLocksInTheOrderOfTheKeys(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	var refs []lease.Ref
	once := string(lease.OnceKey()) // its row goes, where those of others stay
	for _, key := range []string{"zz", once} {
		refs = append(refs, grant(t, s, key).Ref())
	}
	other := superuser(t, c.URL.String())
	lock := func(key string) error {
		_, err := other.Exec(t.Context(), "SELECT 1 FROM dibs.leases WHERE ns = $1 AND key = $2 FOR NO KEY UPDATE", c.Namespace, []byte(key))
		return err
	}
	if _, err := other.Exec(t.Context(), "BEGIN; SET LOCAL lock_timeout = '1s'"); err != nil {
		t.Fatal(err)
	}
	if err := lock(once); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := s.Leases.Release(t.Context(), refs); done <- err }()
	watch := superuser(t, c.URL.String())
	awaitLock(t, watch)
	if err := lock("zz"); err != nil {
		t.Errorf("the release holds a later key while it waits for an earlier one: %v", err)
	}
	if _, err := other.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Unique keys of a batch are taken in one order, whatever the batch's is: two batches cannot wait for each
// other (rule Q2).
func TestABatchTakesItsKeysInOneOrder(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]func(*task.Spec){"keys alone": func(*task.Spec) {}, "with a limit": limitOf("l", 9)} {
		t.Run(name, func(t *testing.T) {
			c := config(t, database(t, testserver.Postgres(t)))
			s := open(t, c)
			db, watch := superuser(t, c.URL.String()), superuser(t, c.URL.String())
			first, second := uniqueKey("a"), uniqueKey("b")
			enqueue(t, s.Queue, spec(first), spec(second))
			if one[bool](t, watch, "SELECT (SELECT uniq FROM dibs.tasks ORDER BY id LIMIT 1) > (SELECT uniq FROM dibs.tasks ORDER BY id DESC LIMIT 1)") {
				first, second = second, first
			}
			if _, err := watch.Exec(t.Context(), "CREATE TABLE kept AS SELECT * FROM dibs.tasks; DELETE FROM dibs.tasks"); err != nil {
				t.Fatal(err)
			}
			tx, err := db.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '300ms'"); err != nil {
				t.Fatal(err)
			}
			takes := func(key string) error {
				_, err := tx.Exec(t.Context(), "INSERT INTO dibs.tasks SELECT * FROM kept ORDER BY uniq "+key+" LIMIT 1")
				return err
			}
			if err := takes("ASC"); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := s.Queue.Enqueue(context.Background(), []task.Spec{spec(second, more), spec(first, more)})
				done <- err
			}()
			awaitLock(t, watch)
			if err := takes("DESC"); err != nil {
				t.Errorf("the batch has the later key while it waits for the earlier one: %v", err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-done // it may have been told to try again: the transaction had its keys
		})
	}
}

// awaitBlocked returns when somebody waits for what a transaction has.
func awaitBlocked(t *testing.T, watch *pgx.Conn, by pgx.Tx) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !blocks(t, watch, by); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody waits for the transaction")
		}
	}
}

// blocks reports whether somebody waits for what a transaction has, as the server sees it.
func blocks(t *testing.T, watch *pgx.Conn, by pgx.Tx) bool {
	t.Helper()
	return one[bool](t, watch, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND $1 = ANY (pg_blocking_pids(pid)))",
		int32(by.Conn().PgConn().PID()))
}

// awaitLock returns when somebody in the database waits for a lock.
func awaitLock(t *testing.T, watch *pgx.Conn) {
	t.Helper()
	for one[int](t, watch, "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
		time.Sleep(5 * time.Millisecond)
	}
}
