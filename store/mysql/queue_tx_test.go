package mysql

import (
	"context"
	"database/sql"
	"errors"
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
	t.Parallel()
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

// The level that counts is the transaction's own, and never that of the one before it on the same connection. The test
// is not parallel to others: some of them ask the server so often for its transactions that it tells nobody of new
// ones.
// Holds: promise 22.
func TestTransactionsOfOtherLevelsAreRefused(t *testing.T) {
	address := testserver.MariaDB(t)
	for name, change := range callers {
		t.Run(name, func(t *testing.T) {
			c := queueConfig(t, address)
			mustOpen(t, c)
			db := raw(t, address, change)
			db.SetMaxOpenConns(1)
			good := sql.LevelReadCommitted
			for _, level := range []sql.IsolationLevel{good, sql.LevelRepeatableRead, good, sql.LevelSerializable, sql.LevelDefault} {
				for n, told := 1, false; !told && n < 50; n++ { // others may have asked just now
					tx, q := beginAt(t, db, c.Namespace, level)
					_, err := q.Enqueue(t.Context(), []task.Spec{spec()})
					if told = err == nil || !strings.Contains(err.Error(), "does not show"); told && errors.Is(err, ErrIsolation) == (level == good) {
						t.Errorf("%s: %v", level, err)
					}
					if _, again := q.Enqueue(t.Context(), []task.Spec{spec()}); errors.Is(err, ErrIsolation) && !errors.Is(again, ErrIsolation) {
						t.Errorf("%s, once more: %v", level, again)
					}
					if n := one(t, tx); n != 1 {
						t.Error("the transaction is of no use any more")
					}
					if err := tx.Rollback(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// asksForLevel is a part of the statement by which the server is asked for a transaction's level.
const asksForLevel = "trx_mysql_thread_id = CONNECTION_ID()"

// A transaction that BeginTx began is taken at once, whoever asks, and whatever rights its user has. Others are
// refused soon, with the cure.
// Holds: promise 22.
func TestTheLevelOfATransactionIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	mustOpen(t, c)
	asking(t, address)
	for name, change := range callers {
		asked := sockets{about: asksForLevel}
		db := raw(t, address, func(c *mysqldriver.Config) { change(c); asked.watch(c) })
		tx, q, err := BeginTx(t.Context(), db, c.Namespace)
		if err != nil {
			t.Fatal(err)
		}
		got := enqueue(t, q, spec())
		if n := asked.seen.Load(); n > 0 {
			t.Errorf("%s: the server was asked for the level %d times", name, n)
		}
		if err := tx.Commit(); err != nil || got[0].Answer != task.New {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for n := 1; ; n++ {
			was := asked.seen.Load()
			_, q = beginAt(t, db, c.Namespace, sql.LevelReadCommitted)
			if _, err = q.Enqueue(t.Context(), []task.Spec{spec()}); err == nil && n < 20 {
				continue // the one who asks all the time was held up
			}
			if !errors.Is(err, ErrIsolation) || !strings.Contains(err.Error(), "mysql.BeginTx") || !strings.Contains(err.Error(), "isolation=%27READ-COMMITTED%27") {
				t.Errorf("%s: %v", name, err)
			}
			if n := asked.seen.Load() - was; n > 4 { // which is half a second or so
				t.Errorf("%s: they were refused after the server was asked %d times", name, n)
			}
			break
		}
	}
}

// asking has somebody ask for the server's transactions all the time, until the test ends: the server tells nobody of
// the present then.
func asking(t *testing.T, address string) {
	t.Helper()
	db := raw(t, address, nil)
	ask := func(ctx context.Context) {
		_, _ = db.ExecContext(ctx, "SELECT COUNT(*) FROM information_schema.innodb_trx")
	}
	ask(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			ask(ctx)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
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
	t.Parallel()
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	mustOpen(t, c)
	level, asked := committedReads(t, address), sockets{about: asksForLevel}
	db := raw(t, address, func(c *mysqldriver.Config) { level(c); asked.watch(c) })
	asking(t, address)
	for range 5 {
		tx, q := beginAt(t, db, c.Namespace, sql.LevelDefault)
		enqueue(t, q, spec())
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.seen.Load(); n > 5 { // it waits before it asks a second time
		t.Errorf("in five transactions the server was asked %d times", n)
	}
}

// What waits for others in a transaction leaves the caller's session as it was, whatever comes of it.
func TestWaitingLeavesTheSessionAsItWas(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	mustOpen(t, c)
	db := raw(t, address, nil)
	wait := func(tx *sql.Tx) (n int) {
		if err := tx.QueryRow("SELECT @@innodb_lock_wait_timeout").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	var (
		tx1, tx2 *sql.Tx
		q1, q2   *Tx
		was      int
	)
	for n := 0; ; n++ {
		tx1, q1 = begin(t, db, c.Namespace)
		tx2, q2 = begin(t, db, c.Namespace)
		was = wait(tx1)
		enqueue(t, q1, spec(uniqueKey("a")))
		got := enqueue(t, q2, spec(uniqueKey("a")), spec(uniqueKey("b")))
		if got[0].Answer == task.Undecided && got[1].Answer == task.New {
			break
		}
		if n == 10 || got[0].Answer != task.Undecided || got[1].Answer != task.Undecided { // both are, of a server that is slow
			t.Fatalf("answers: %+v", got)
		}
		if err := errors.Join(tx2.Rollback(), tx1.Rollback()); err != nil {
			t.Fatal(err)
		}
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
	t.Parallel()
	address := testserver.MariaDB(t)
	c := queueConfig(t, address)
	s, w := smallAt(t, c, 1, new(sockets))
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
	before := tally(t, store.db, "Com_begin")
	if f := fetchSome(t, s, w, 1).Tasks; len(f) != 0 {
		t.Errorf("fetched beside the one that runs: %+v", f)
	}
	n := tally(t, store.db, "Com_begin") - before
	if t.Logf("%d transactions", n); n < 1 || n > 20 {
		t.Errorf("the fetch took %d transactions", n)
	}
	complete(t, s.Queue, w, f...)
	if f := fetchSome(t, s, w, 9).Tasks; len(f) != 1 || f[0].ID != got[0].ID {
		t.Errorf("fetched then: %+v", f)
	}
}
