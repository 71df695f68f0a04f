package postgres

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/dibs-run/dibs/internal/testserver"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store"
)

// A transaction of the caller's, of either kind.
type caller struct {
	tx               *Tx
	commit, rollback func() error
	one              func(query string) (int, error)
}

// callers runs a test over pgx and over database/sql.
func callers(t *testing.T, f func(t *testing.T, s *store.Store, begin func(level string) caller)) {
	t.Run("pgx", func(t *testing.T) {
		c := config(t, testserver.Postgres(t))
		f(t, open(t, c), func(level string) caller {
			conn := admin(t, c.URL.String())
			tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)})
			if err != nil {
				t.Fatal(err)
			}
			return caller{QueueTx(tx, c.Namespace),
				func() error { return tx.Commit(context.Background()) }, func() error { return tx.Rollback(context.Background()) },
				func(query string) (n int, err error) { err = tx.QueryRow(t.Context(), query).Scan(&n); return n, err }}
		})
	})
	t.Run("database/sql", func(t *testing.T) {
		c := config(t, testserver.Postgres(t))
		db, err := sql.Open("pgx", c.URL.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		f(t, open(t, c), func(level string) caller {
			o := sql.TxOptions{}
			if level != "" {
				o.Isolation = sql.LevelSerializable
			}
			tx, err := db.BeginTx(context.Background(), &o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			return caller{QueueSQL(tx, c.Namespace), tx.Commit, tx.Rollback,
				func(query string) (n int, err error) { err = tx.QueryRow(query).Scan(&n); return n, err }}
		})
	})
}

func TestEnqueueJoinsTheTransaction(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func(string) caller) {
		w := joined(t, s)
		// All that a spec can say, once.
		full := spec(uniqueKey(`u "1" \ ü`), limitOf("l", 2), func(s *queue.Spec) {
			s.Args, s.Priority, s.Tags, s.ExpiresAt = []byte(`{"a": "b\"\\,{}"}`), 3, []string{"t"}, time.Now().Add(time.Hour)
		})
		c := begin("")
		got := enqueue(t, c.tx, spec(), full, full)
		if got[0].Answer != queue.New || got[1].Answer != queue.New || got[2].Answer != queue.Duplicate || got[2].ID != got[1].ID {
			t.Errorf("answers: %+v", got)
		}
		if f := fetchSome(t, s, w, 10); len(f.Tasks) != 0 {
			t.Errorf("fetched before the commit: %+v", f.Tasks)
		}
		if err := c.commit(); err != nil {
			t.Fatal(err)
		}
		f := fetchSome(t, s, w, 10)
		if len(f.Tasks) != 2 || f.Tasks[0].ID != got[1].ID || string(f.Tasks[0].Args) != string(full.Args) || f.Tasks[0].Unique.Key != full.Unique.Key {
			t.Fatalf("fetched: %+v", f.Tasks)
		}

		// Completion joins it as well.
		c = begin("")
		complete(t, c.tx, w, f.Tasks...)
		if err := c.rollback(); err != nil {
			t.Fatal(err)
		}
		if x, held, _, err := s.Tasks.Task(t.Context(), got[1].ID); err != nil || x.State != queue.Running || len(held.Running) != 1 {
			t.Errorf("after a rollback: %+v, %+v, %v", x, held, err)
		}
		c = begin("")
		complete(t, c.tx, w, f.Tasks...)
		if err := c.commit(); err != nil {
			t.Fatal(err)
		}
		if x, _, _, err := s.Tasks.Task(t.Context(), got[1].ID); err != nil || x.State != queue.Succeeded {
			t.Errorf("after the commit: %+v, %v", x, err)
		}
	})
}

func TestARollbackLeavesNoTrace(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func(string) caller) {
		c := begin("")
		enqueue(t, c.tx, spec(uniqueKey("u")), spec(limitOf("l", 1)), spec())
		if err := c.rollback(); err != nil {
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
	callers(t, func(t *testing.T, _ *store.Store, begin func(string) caller) {
		c := begin("serializable")
		if _, err := c.tx.Enqueue(t.Context(), []queue.Spec{spec()}); !errors.Is(err, ErrIsolation) {
			t.Errorf("serializable: %v", err)
		}
		if n, err := c.one("SELECT 1"); n != 1 || err != nil {
			t.Errorf("the transaction is of no use any more: %v", err)
		}
	})
}

// Waiting for another's uncommitted key is bounded, and the transaction goes on (rule Q2).
func TestAnUncommittedKeyIsUndecided(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func(string) caller) {
		first, second := begin(""), begin("")
		id := enqueue(t, first.tx, spec(uniqueKey("u")))[0].ID
		got := enqueue(t, second.tx, spec(uniqueKey("u")), spec(uniqueKey("v")), spec())
		if got[0].Answer != queue.Undecided || got[1].Answer != queue.New || got[2].Answer != queue.New {
			t.Errorf("answers: %+v", got)
		}
		if n, err := second.one("SELECT 1"); n != 1 || err != nil {
			t.Errorf("the transaction is of no use any more: %v", err)
		}
		// Outside of a transaction as well: the others of the batch are taken in.
		if got := enqueue(t, s.Queue, spec(uniqueKey("u")), spec()); got[0].Answer != queue.Undecided || got[1].Answer != queue.New {
			t.Errorf("answers: %+v", got)
		}
		if err := errors.Join(first.commit(), second.commit()); err != nil {
			t.Fatal(err)
		}
		if got := enqueue(t, s.Queue, spec(uniqueKey("u"))); got[0] != (queue.Enqueued{Answer: queue.Duplicate, ID: id, State: queue.Available}) {
			t.Errorf("after the commit: %+v", got)
		}
	})
}

// A duplicate in a transaction cannot start before the commit: what its caller wrote is there when it does.
func TestADuplicateWaitsForTheCommit(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func(string) caller) {
		for _, x := range []queue.Spec{spec(uniqueKey("u")), spec(uniqueKey("w"), limitOf("l", 1))} {
			w := joined(t, s)
			id := enqueue(t, s.Queue, x)[0].ID
			c := begin("")
			if got := enqueue(t, c.tx, x)[0]; got.Answer != queue.Duplicate || got.ID != id {
				t.Errorf("answer: %+v", got)
			}
			if f := fetchSome(t, s, w, 10); len(f.Tasks) != 0 {
				t.Errorf("fetched before the commit: %+v", f.Tasks)
			}
			if err := c.commit(); err != nil {
				t.Fatal(err)
			}
			f := fetchSome(t, s, w, 10)
			if len(f.Tasks) != 1 || f.Tasks[0].ID != id {
				t.Errorf("fetched after the commit: %+v", f.Tasks)
			}
			// What runs is not held up.
			c = begin("")
			enqueue(t, c.tx, x)
			complete(t, s.Queue, w, f.Tasks...)
			if err := c.rollback(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A transaction that stays open holds no lock on a limit: others of the key go on (rule Q5).
func TestAnOpenTransactionBlocksNoLimit(t *testing.T) {
	callers(t, func(t *testing.T, s *store.Store, begin func(string) caller) {
		w := joined(t, s)
		enqueue(t, s.Queue, spec(limitOf("l", 2)), spec(limitOf("l", 2)), spec(limitOf("l", 2)), spec(limitOf("l", 2)))
		f := fetchSome(t, s, w, 10)
		if len(f.Tasks) != 2 {
			t.Fatalf("%d run under a limit of 2", len(f.Tasks))
		}
		c := begin("")
		complete(t, c.tx, w, f.Tasks[0])
		enqueue(t, c.tx, spec(limitOf("l", 2)))
		if n := len(fetchSome(t, s, w, 10).Tasks); n != 0 {
			t.Errorf("%d more run before the commit", n)
		}
		complete(t, s.Queue, w, f.Tasks[1])
		next := fetchSome(t, s, w, 10)
		if len(next.Tasks) != 1 {
			t.Errorf("%d run in the slot that was freed beside the transaction", len(next.Tasks))
		}
		if err := c.commit(); err != nil {
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
