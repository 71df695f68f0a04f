package mysql

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs/internal/testserver"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store"
)

// callers runs a test over a connection of the store's kind, and over a plain one, which takes one statement at a time,
// prepares it on the server, and has another time zone.
func callers(t *testing.T, f func(t *testing.T, s *store.Store, begin func() (*sql.Tx, *Tx))) {
	for name, change := range map[string]func(*mysqldriver.Config){
		"own": nil,
		"plain": func(c *mysqldriver.Config) {
			c.MultiStatements, c.InterpolateParams = false, false
			c.Params["time_zone"] = "'+07:00'"
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := testserver.MariaDB(t)
			c := queueConfig(t, address)
			db := raw(t, address, change)
			f(t, mustOpen(t, c), func() (*sql.Tx, *Tx) { return beginAt(t, db, c.Namespace, sql.LevelReadCommitted) })
		})
	}
}

func beginAt(t *testing.T, db *sql.DB, namespace string, level sql.IsolationLevel) (*sql.Tx, *Tx) {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx, QueueTx(tx, namespace)
}

func TestEnqueueJoinsTheTransaction(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func() (*sql.Tx, *Tx)) {
		w := joined(t, s)
		// All that a spec can say, once.
		full := spec(uniqueKey(`u "1" \ ü;?`), limitOf("l;?", 2), func(s *queue.Spec) {
			s.Args, s.Priority, s.Tags, s.ExpiresAt = []byte(`{"a": "b;?\"\\,{}"}`), 3, []string{"t"}, time.Now().Add(time.Hour)
		})
		tx, q := begin()
		got := enqueue(t, q, spec(), full, full)
		if got[0].Answer != queue.New || got[1].Answer != queue.New || got[2].Answer != queue.Duplicate || got[2].ID != got[1].ID {
			t.Errorf("answers: %+v", got)
		}
		if f := fetchSome(t, s, w, 10); len(f.Tasks) != 0 {
			t.Errorf("fetched before the commit: %+v", f.Tasks)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		f := fetchSome(t, s, w, 10)
		if len(f.Tasks) != 2 || f.Tasks[0].ID != got[1].ID || string(f.Tasks[0].Args) != string(full.Args) || f.Tasks[0].Unique.Key != full.Unique.Key {
			t.Fatalf("fetched: %+v", f.Tasks)
		}

		// Completion joins it as well.
		tx, q = begin()
		complete(t, q, w, f.Tasks...)
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if x, held, _, err := s.Tasks.Task(t.Context(), got[1].ID); err != nil || x.State != queue.Running || len(held.Running) != 1 {
			t.Errorf("after a rollback: %+v, %+v, %v", x, held, err)
		}
		tx, q = begin()
		complete(t, q, w, f.Tasks...)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if x, _, _, err := s.Tasks.Task(t.Context(), got[1].ID); err != nil || x.State != queue.Succeeded {
			t.Errorf("after the commit: %+v, %v", x, err)
		}
	})
}

func TestARollbackLeavesNoTrace(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func() (*sql.Tx, *Tx)) {
		tx, q := begin()
		enqueue(t, q, spec(uniqueKey("u")), spec(limitOf("l", 1)), spec())
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if all, err := s.Tasks.Tasks(t.Context(), queue.Filter{}); err != nil || len(all) != 0 {
			t.Errorf("tasks: %+v, %v", all, err)
		}
		if got := enqueue(t, s.Queue, spec(uniqueKey("u"))); got[0].Answer != queue.New {
			t.Errorf("the key is held: %+v", got)
		}
	})
}

func TestTransactionsOfOtherLevelsAreRefused(t *testing.T) {
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	mustOpen(t, c)
	db := raw(t, address, nil)
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx, q := beginAt(t, db, c.Namespace, level)
		if _, err := q.Enqueue(t.Context(), []queue.Spec{spec()}); !errors.Is(err, ErrIsolation) {
			t.Errorf("%s: %v", level, err)
		}
		if n := one(t, tx); n != 1 {
			t.Error("the transaction is of no use any more")
		}
	}
}

func one(t testing.TB, tx *sql.Tx) (n int) {
	t.Helper()
	if err := tx.QueryRow("SELECT 1").Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// Waiting for another's uncommitted key is bounded, and the transaction goes on (rule Q2).
func TestAnUncommittedKeyIsUndecided(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func() (*sql.Tx, *Tx)) {
		first, fq := begin()
		second, sq := begin()
		id := enqueue(t, fq, spec(uniqueKey("u")))[0].ID
		var was int
		if err := second.QueryRow("SELECT @@innodb_lock_wait_timeout").Scan(&was); err != nil {
			t.Fatal(err)
		}
		got := enqueue(t, sq, spec(uniqueKey("u")), spec(uniqueKey("v")), spec())
		if got[0].Answer != queue.Undecided || got[1].Answer != queue.New || got[2].Answer != queue.New {
			t.Errorf("answers: %+v", got)
		}
		var is int
		if err := second.QueryRow("SELECT @@innodb_lock_wait_timeout").Scan(&is); err != nil || is != was {
			t.Errorf("lock wait: %d, was %d, %v", is, was, err)
		}
		// Outside of a transaction as well: the others of the batch are taken in.
		if got := enqueue(t, s.Queue, spec(uniqueKey("u")), spec()); got[0].Answer != queue.Undecided || got[1].Answer != queue.New {
			t.Errorf("answers: %+v", got)
		}
		if err := errors.Join(first.Commit(), second.Commit()); err != nil {
			t.Fatal(err)
		}
		if got := enqueue(t, s.Queue, spec(uniqueKey("u"))); got[0] != (queue.Enqueued{Answer: queue.Duplicate, ID: id, State: queue.Available}) {
			t.Errorf("after the commit: %+v", got)
		}
		if got := enqueue(t, s.Queue, spec(uniqueKey("v"))); got[0].Answer != queue.Duplicate {
			t.Errorf("the other key, after the commit: %+v", got)
		}
	})
}

// A duplicate in a transaction cannot start before the commit: what its caller wrote is there when it does.
func TestADuplicateWaitsForTheCommit(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func() (*sql.Tx, *Tx)) {
		for _, x := range []queue.Spec{spec(uniqueKey("u")), spec(uniqueKey("w"), limitOf("l", 1))} {
			w := joined(t, s)
			id := enqueue(t, s.Queue, x)[0].ID
			tx, q := begin()
			if got := enqueue(t, q, x)[0]; got.Answer != queue.Duplicate || got.ID != id {
				t.Errorf("answer: %+v", got)
			}
			if f := fetchSome(t, s, w, 10); len(f.Tasks) != 0 {
				t.Errorf("fetched before the commit: %+v", f.Tasks)
			}
			// An operator is told, and does not wait for ever.
			if got, err := s.Tasks.Act(t.Context(), queue.Action{Act: queue.ActCancel, IDs: []queue.ID{id}}); err != nil || got[0].Answer != queue.Busy {
				t.Errorf("cancel before the commit: %+v, %v", got, err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			f := fetchSome(t, s, w, 10)
			if len(f.Tasks) != 1 || f.Tasks[0].ID != id {
				t.Fatalf("fetched after the commit: %+v", f.Tasks)
			}
			// What runs is not held up.
			tx, q = begin()
			enqueue(t, q, x)
			complete(t, s.Queue, w, f.Tasks...)
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A transaction that stays open holds no lock on a limit: others of the key go on (rule Q5).
func TestAnOpenTransactionBlocksNoLimit(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func() (*sql.Tx, *Tx)) {
		w := joined(t, s)
		enqueue(t, s.Queue, spec(limitOf("l", 2)), spec(limitOf("l", 2)), spec(limitOf("l", 2)), spec(limitOf("l", 2)))
		f := fetchSome(t, s, w, 10)
		if len(f.Tasks) != 2 {
			t.Fatalf("%d run under a limit of 2", len(f.Tasks))
		}
		tx, q := begin()
		complete(t, q, w, f.Tasks[0])
		enqueue(t, q, spec(limitOf("l", 2)))
		if n := len(fetchSome(t, s, w, 10).Tasks); n != 0 {
			t.Errorf("%d more run before the commit", n)
		}
		complete(t, s.Queue, w, f.Tasks[1])
		if n := len(fetchSome(t, s, w, 10).Tasks); n != 1 {
			t.Errorf("%d run in the slot that was freed beside the transaction", n)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := len(fetchSome(t, s, w, 10).Tasks); n != 1 {
			t.Errorf("%d run in the slot that the transaction freed", n)
		}
		if r, err := s.Queue.Tend(t.Context(), queue.TendRequest{}); err != nil || r.Repaired != 0 {
			t.Errorf("repaired %d, %v", r.Repaired, err)
		}
	})
}

// A waiting task that a transaction has is passed over by a freed slot, which the next one gets; it is not forgotten.
func TestASlotPassesOverWhatATransactionHas(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func() (*sql.Tx, *Tx)) {
		w := joined(t, s)
		first := enqueue(t, s.Queue, spec(limitOf("l", 1)), spec(limitOf("l", 1), uniqueKey("u")))
		f := fetchSome(t, s, w, 10)
		if len(f.Tasks) != 1 || f.Tasks[0].ID != first[0].ID {
			t.Fatalf("fetched: %+v", f.Tasks)
		}
		tx, q := begin()
		enqueue(t, q, spec(limitOf("l", 1), uniqueKey("u")))
		complete(t, s.Queue, w, f.Tasks...)
		if n := len(fetchSome(t, s, w, 10).Tasks); n != 0 {
			t.Errorf("%d run before the commit", n)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if f := fetchSome(t, s, w, 10); len(f.Tasks) != 1 || f.Tasks[0].ID != first[1].ID {
			t.Errorf("after the commit: %+v", f.Tasks)
		}
	})
}
