package mysql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/task"
)

// callers are connections of the store's kind, and plain ones, which take one statement at a time, prepare it
// on the server, and have another time zone.
var callers = map[string]func(*mysqldriver.Config){
	"own": func(*mysqldriver.Config) {},
	"plain": func(c *mysqldriver.Config) {
		c.MultiStatements, c.InterpolateParams = false, false
		c.Params["time_zone"] = "'+07:00'"
	},
}

// committedReads has sessions be READ COMMITTED, whatever the server calls it.
func committedReads(t testing.TB, address string) func(*mysqldriver.Config) {
	t.Helper()
	var name, level string
	if err := raw(t, address, nil).QueryRow(statements()["session-isolation"]).Scan(&name, &level); err != nil {
		t.Fatal(err)
	}
	return func(c *mysqldriver.Config) { c.Params[name] = "'READ-COMMITTED'" }
}

func TestTransactions(t *testing.T) {
	for name, change := range callers {
		t.Run(name, func(t *testing.T) {
			address := testserver.MariaDB(t)
			level := committedReads(t, address)
			storetest.RunTransactions(t, OpenConfig, address, storetest.Caller{Connect: func(t testing.TB, _ *store.Store, c store.Config) storetest.Begin {
				db := raw(t, address, func(c *mysqldriver.Config) { change(c); level(c) })
				return func(ctx context.Context) (storetest.Transaction, error) {
					tx, err := db.BeginTx(ctx, nil)
					return storetest.SQL(tx, QueueTx(tx, c.Namespace)), err
				}
			}})
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

func begin(t *testing.T, db *sql.DB, namespace string) (*sql.Tx, *Tx) {
	t.Helper()
	tx, q, err := BeginTx(context.Background(), db, namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx, q
}

// The level that counts is the transaction's own, and never that of the one before it on the same connection.
// Holds: promise 22.
func TestTransactionsOfOtherLevelsAreRefused(t *testing.T) {
	address := testserver.StartMariaDB(t).URL // nobody else asks there
	for name, change := range callers {
		t.Run(name, func(t *testing.T) {
			c := queueConfig(t, address)
			mustOpen(t, c)
			db := raw(t, address, change)
			db.SetMaxOpenConns(1)
			good := sql.LevelReadCommitted
			for _, level := range []sql.IsolationLevel{good, sql.LevelRepeatableRead, good, sql.LevelSerializable, sql.LevelDefault} {
				tx, q := beginAt(t, db, c.Namespace, level)
				if _, err := q.Enqueue(t.Context(), []task.Spec{spec()}); errors.Is(err, ErrIsolation) != (level != good) || level == good && err != nil {
					t.Errorf("%s: %v", level, err)
				}
				if n := one(t, tx); n != 1 {
					t.Error("the transaction is of no use any more")
				}
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A transaction that BeginTx began is taken at once, whoever asks, and whatever rights its user has. Others are
// refused soon, with the cure.
// Holds: promise 22.
func TestTheLevelOfATransactionIsNotWaitedFor(t *testing.T) {
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	mustOpen(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	asking, over := raw(t, address, nil), make(chan struct{})
	asked := make(chan struct{}, 1)
	go func() { // nobody is told of the present then
		defer close(over)
		for ctx.Err() == nil {
			_, _ = asking.ExecContext(ctx, "SELECT COUNT(*) FROM information_schema.innodb_trx")
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	defer func() { cancel(); <-over }()
	<-asked
	for name, change := range callers {
		db := raw(t, address, change)
		tx, q, err := BeginTx(t.Context(), db, c.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		var took []time.Duration // a slow machine may hold up one of them, who waits for an answer all
		var got []task.Enqueued
		for len(took) == 0 || slices.Min(took) > lockWait/2 && len(took) < 10 {
			begun := time.Now()
			got = enqueue(t, q, spec())
			took = append(took, time.Since(begun))
		}
		if slices.Min(took) > lockWait/2 {
			t.Errorf("%s: they took %v", name, took)
		}
		if err := tx.Commit(); err != nil || got[0].Answer != task.New {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		_, q = beginAt(t, db, c.Namespace, sql.LevelReadCommitted)
		took = nil
		for len(took) == 0 || slices.Min(took) > lockWait/2 && len(took) < 10 {
			begun := time.Now()
			_, err = q.Enqueue(t.Context(), []task.Spec{spec()})
			took = append(took, time.Since(begun))
		}
		if !errors.Is(err, ErrIsolation) || !strings.Contains(err.Error(), "mysql.BeginTx") || !strings.Contains(err.Error(), "isolation=%27READ-COMMITTED%27") {
			t.Errorf("%s: %v", name, err)
		}
		if slices.Min(took) > lockWait/2 {
			t.Errorf("%s: they were refused after %v", name, took)
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

// However many ask of their transactions at once, one of a session that is at the right level is not refused,
// nor kept waiting.
func TestTheLevelOfASessionIsEnough(t *testing.T) {
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	mustOpen(t, c)
	db := raw(t, address, committedReads(t, address))
	asking := raw(t, address, nil)
	ctx, cancel := context.WithCancel(t.Context())
	asked, over := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			_, _ = asking.ExecContext(ctx, "SELECT COUNT(*) FROM information_schema.innodb_trx")
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	defer func() { cancel(); <-over }()
	<-asked
	begun := time.Now()
	for range 5 {
		tx, q := beginAt(t, db, c.Namespace, sql.LevelDefault)
		enqueue(t, q, spec())
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begun); took > 3*lockWait { // who waits for what is told of transactions takes more than a second for each
		t.Errorf("five transactions took %v", took)
	}
}

// What waits for others in a transaction leaves the caller's session as it was, whatever comes of it.
func TestWaitingLeavesTheSessionAsItWas(t *testing.T) {
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	mustOpen(t, c)
	db := raw(t, address, nil)
	tx1, q1 := begin(t, db, c.Namespace)
	tx2, q2 := begin(t, db, c.Namespace)
	wait := func(tx *sql.Tx) (n int) {
		if err := tx.QueryRow("SELECT @@innodb_lock_wait_timeout").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	was := wait(tx1)
	enqueue(t, q1, spec(uniqueKey("a")))
	if got := enqueue(t, q2, spec(uniqueKey("a")), spec(uniqueKey("b"))); got[0].Answer != task.Undecided || got[1].Answer != task.New {
		t.Errorf("answers: %+v", got)
	}
	if n := wait(tx2); n != was {
		t.Errorf("after an undecided key it waits for %d s, and did for %d", n, was)
	}
	done := make(chan error, 1)
	go func() {
		_, err := q1.Enqueue(context.Background(), []task.Spec{spec(uniqueKey("b"))})
		done <- err
	}()
	_, err := q2.Enqueue(context.Background(), []task.Spec{spec(uniqueKey("a"))})
	if other := <-done; err == nil && other == nil {
		t.Error("there was no deadlock")
	}
	if n, m := wait(tx1), wait(tx2); n != was || m != was {
		t.Errorf("after a deadlock they wait for %d s and %d s, and did for %d", n, m, was)
	}
}

// A line that nobody has put in order is put so by the fetch that meets it, also those of it that it reads later.
func TestAFetchPutsALineInOrder(t *testing.T) {
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	s := mustOpen(t, c)
	w := joined(t, s)
	enqueue(t, s.Queue, spec(limitOf("l", 1)))
	f := fetchSome(t, s, w, 1).Tasks
	tx, q := begin(t, raw(t, address, nil), c.Namespace)
	var many []task.Spec
	for range 15 {
		many = append(many, spec(limitOf("l", 1)))
	}
	got := enqueue(t, q, many...)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	store := s.Queue.(queues)
	exec(t, store.db, "DELETE FROM dibs_task_wakes WHERE ns = ?", store.ns) // as if it had committed after the fetch had looked
	begun := time.Now()
	if f := fetchSome(t, s, w, 1).Tasks; len(f) != 0 {
		t.Errorf("fetched beside the one that runs: %+v", f)
	}
	if took := time.Since(begun); took > lockWait {
		t.Errorf("the fetch took %v", took)
	}
	complete(t, s.Queue, w, f...)
	if f := fetchSome(t, s, w, 9).Tasks; len(f) != 1 || f[0].ID != got[0].ID {
		t.Errorf("fetched then: %+v", f)
	}
}
