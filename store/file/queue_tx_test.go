//go:build linux

package file

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/task"
	"github.com/dibs-run/dibs/tick"
)

func spec(with ...func(*task.Spec)) task.Spec {
	s := task.Spec{Queue: "q", Kind: "k"}
	for _, w := range with {
		w(&s)
	}
	if err := s.Check(); err != nil {
		panic(err)
	}
	return s
}

func uniqueKey(key string) func(*task.Spec) {
	return func(s *task.Spec) { s.Unique = &task.Unique{Key: key} }
}

// An application has its own table in the database of a store.
type application struct {
	*testing.T
	s  *store.Store
	db *sql.DB
}

func newApplication(t *testing.T, dir string) *application {
	t.Helper()
	a := &application{T: t, s: openAt(t, dir)}
	db, err := OpenDB(t.Context(), a.s)
	if err != nil {
		t.Fatal(err)
	}
	a.db = db
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS jobs (name TEXT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *application) begin() (*sql.Tx, *Tx) {
	a.Helper()
	tx, err := a.db.Begin()
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = tx.Rollback() })
	return tx, QueueTx(tx, a.s)
}

func (a *application) insert(tx *sql.Tx, name string) {
	a.Helper()
	if _, err := tx.Exec("INSERT INTO jobs VALUES (?)", name); err != nil {
		a.Fatal(err)
	}
}

// names are the rows that were committed.
func (a *application) names() string {
	a.Helper()
	all, err := query(context.Background(), a.db, func(row scanner) (s string, err error) { return s, row.Scan(&s) }, "SELECT name FROM jobs ORDER BY name")
	if err != nil {
		a.Fatal(err)
	}
	return strings.Join(all, " ")
}

func (a *application) commit(tx *sql.Tx) {
	a.Helper()
	if err := tx.Commit(); err != nil {
		a.Fatal(err)
	}
}

func (a *application) tasks() []driver.Task {
	a.Helper()
	all, err := a.s.Tasks.Tasks(context.Background(), driver.Filter{})
	if err != nil {
		a.Fatal(err)
	}
	return all
}

func enqueue(t testing.TB, to driver.Inserter, specs ...task.Spec) []task.Enqueued {
	t.Helper()
	got, err := to.Enqueue(context.Background(), specs)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// waits checks that a call of the store waits for the transaction that is open, and says so when its time is up.
func waits(t testing.TB, what string, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := call(ctx); !errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("%s beside an open transaction: %v", what, err)
	}
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	storetest.RunTransactions(t, OpenConfig, "file://"+t.TempDir(), storetest.Caller{OneWriter: true,
		Connect: func(t testing.TB, s *store.Store, _ store.Config) storetest.Begin {
			db, err := OpenDB(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return func(ctx context.Context) (storetest.Transaction, error) {
				tx, err := db.BeginTx(ctx, nil)
				return storetest.SQL(tx, QueueTx(tx, s)), err
			}
		}})
}

// Watch sees a commit, and nothing of a rollback.
func TestARollbackIsNoChange(t *testing.T) {
	a := newApplication(t, t.TempDir())
	watch := inside(a.s).pool(1, "_pragma=query_only(1)")
	defer watch.Close()
	version := func() (n int) {
		if err := watch.QueryRow("PRAGMA data_version").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := version()
	tx, q := a.begin()
	enqueue(t, q, spec())
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if version() != before {
		t.Error("a rollback looks like a change")
	}
	tx, q = a.begin()
	enqueue(t, q, spec())
	a.commit(tx)
	if version() == before {
		t.Error("a commit is no change")
	}
}

// A process that is killed in the middle of its transaction leaves no trace either, and no lock.
// Holds: promise 22.
func TestAKilledTransactionLeavesNoTrace(t *testing.T) {
	dir := t.TempDir()
	a := newApplication(t, dir)
	p := play(t, "transact", dir)
	if got := p.line(t); got != "enqueued" {
		t.Fatal(got)
	}
	waits(t, "Enqueue", func(ctx context.Context) error {
		_, err := a.s.Queue.Enqueue(ctx, []task.Spec{spec()})
		return err
	})
	p.kill()
	if got := enqueue(t, a.s.Queue, spec(uniqueKey("u"))); got[0].Answer != task.New {
		t.Errorf("the key is held: %+v", got)
	}
	if all := a.tasks(); len(all) != 1 || a.names() != "" {
		t.Errorf("what is left: %+v, %q", all, a.names())
	}
}

func roleTransact(s *store.Store) error {
	db, err := OpenDB(context.Background(), s)
	if err != nil {
		return err
	}
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	if _, err := tx.Exec("INSERT INTO jobs VALUES ('order')"); err != nil {
		return err
	}
	got, err := QueueTx(tx, s).Enqueue(context.Background(), []task.Spec{spec(uniqueKey("u")), spec()})
	if err != nil {
		return err
	}
	fmt.Println(got[0].Answer)
	wait()
	return nil
}

// roleEnqueue says that it is about to enqueue, and what it was answered.
func roleEnqueue(s *store.Store) error {
	if _, err := s.Tasks.Queues(context.Background()); err != nil { // opens the database
		return err
	}
	fmt.Println("now")
	got, err := s.Queue.Enqueue(context.Background(), []task.Spec{spec(uniqueKey("u"))})
	if err == nil {
		fmt.Println(got[0].Answer, got[0].ID)
	}
	return err
}

// A writer waits for the transaction, in this process and in others: nothing is ever Undecided (rule Q2).
// Holds: promise 22, Q2.
func TestAnUncommittedKeyIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		dir := t.TempDir()
		a := newApplication(t, dir)
		tx, q := a.begin()
		id := enqueue(t, q, spec(uniqueKey("u")))[0].ID
		for what, to := range map[string]driver.Inserter{"by the same store": a.s.Queue, "by another": openAt(t, dir).Queue} {
			waits(t, "Enqueue "+what, func(ctx context.Context) error {
				_, err := to.Enqueue(ctx, []task.Spec{spec(uniqueKey("u"))})
				return err
			})
		}
		waits(t, "a second transaction", func(ctx context.Context) error { _, err := a.db.BeginTx(ctx, nil); return err })
		p := play(t, "enqueue", dir)
		if got := p.line(t); got != "now" {
			t.Fatal(got)
		}
		end, want := tx.Commit, fmt.Sprintf("%s %d", task.Duplicate, id)
		if !commit {
			end, want = tx.Rollback, fmt.Sprintf("%s %d", task.New, id)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if got := p.line(t); got != want {
			t.Errorf("another process, after the end: %s, want %s", got, want)
		}
	}
}

// A transaction that stays open holds up whoever writes, for their time or 5 s, and nobody else: leases go on,
// and looking does.
// Holds: promise 22.
func TestAnOpenTransactionHoldsUpWritersAlone(t *testing.T) {
	t.Parallel()
	a := newApplication(t, t.TempDir())
	w := granted(t, a.s, lease.OnceKey())
	id := enqueue(t, a.s.Queue, spec())[0].ID
	tx, q := a.begin()
	enqueue(t, q, spec())

	ctx := t.Context()
	ref := granted(t, a.s, "k")
	if r, err := a.s.Leases.Renew(ctx, []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}}); err != nil || r.Answers[0].Status != lease.OK {
		t.Errorf("Renew: %+v, %v", r, err)
	}
	if r, err := a.s.Leases.Release(ctx, []lease.Ref{ref}); err != nil || r.Answers[0].Status != lease.OK {
		t.Errorf("Release: %+v, %v", r, err)
	}
	if x, _, _, err := a.s.Tasks.Task(ctx, id); err != nil || x.State != task.Available {
		t.Errorf("Task: %+v, %v", x, err)
	}
	_, err := a.s.Tasks.Queues(ctx)
	_, werr := a.s.Tasks.Workers(ctx)
	_, herr := a.s.History.Events(ctx, history.Query{})
	_, jerr := a.s.Ticks.Jobs(ctx, tick.JobQuery{})
	if err := errors.Join(err, werr, herr, jerr); err != nil {
		t.Errorf("looking: %v", err)
	}
	for what, call := range map[string]func(context.Context) error{
		"Enqueue": func(ctx context.Context) error { _, err := a.s.Queue.Enqueue(ctx, []task.Spec{spec()}); return err },
		"Claim": func(ctx context.Context) error {
			_, err := a.s.Ticks.Claim(ctx, []tick.ClaimRequest{{Job: "j", At: time.Now(), Lease: w}})
			return err
		},
		"Append": func(ctx context.Context) error { return a.s.History.Append(ctx, []history.Event{{Kind: "x"}}) },
	} {
		waits(t, what, call)
	}
	if !testing.Short() {
		began := time.Now()
		_, err := a.s.Queue.Enqueue(ctx, []task.Spec{spec()})
		wantFault(t, "Enqueue", err, inside(a.s).path, "an application's transaction that stays open")
		if took := time.Since(began); took < busyFor {
			t.Errorf("it was given up after %s", took)
		}
	}
	a.commit(tx)
	if n := len(a.tasks()); n != 2 {
		t.Errorf("%d tasks after the commit", n)
	}
}

// A transaction that has only read cannot write once somebody else has, and is told what to do.
// Holds: promise 22.
func TestADeferredTransactionIsToldToBeginAgain(t *testing.T) {
	a := newApplication(t, t.TempDir())
	begin := func(reads bool) (*sql.Tx, *Tx) {
		tx, err := a.db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true}) // the driver begins it DEFERRED, and nothing more
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		if reads {
			usable(t, tx)
		}
		return tx, QueueTx(tx, a.s)
	}
	refused := func(why string, tx *sql.Tx, q *Tx) {
		t.Helper()
		if _, err := q.Enqueue(t.Context(), []task.Spec{spec()}); !errors.Is(err, ErrDeferred) || errors.Is(err, lease.ErrUnavailable) {
			t.Errorf("%s: %v", why, err)
		}
		usable(t, tx)
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
	tx, q := begin(true)
	enqueue(t, a.s.Queue, spec())
	refused("somebody has written since", tx, q)

	tx, q = begin(true)
	writing, _ := a.begin()
	refused("somebody is writing", tx, q)
	if err := writing.Rollback(); err != nil {
		t.Fatal(err)
	}

	for _, reads := range []bool{true, false} { // nobody was in the way
		tx, q = begin(reads)
		enqueue(t, q, spec())
		a.commit(tx)
	}
	if n := len(a.tasks()); n != 3 {
		t.Errorf("%d tasks", n)
	}
}

func usable(t testing.TB, tx *sql.Tx) {
	t.Helper()
	var n int
	if err := tx.QueryRow("SELECT count(*) + 1 FROM jobs").Scan(&n); err != nil || n == 0 {
		t.Errorf("the transaction is of no use any more: %v", err)
	}
}

// A call that fails leaves the transaction as it was before.
// Holds: promise 22.
func TestAFailedStepIsTakenBack(t *testing.T) {
	a := newApplication(t, t.TempDir())
	tx, q := a.begin()
	a.insert(tx, "before")
	first := enqueue(t, q, spec())[0].ID
	if _, err := tx.Exec("CREATE TEMP TRIGGER no BEFORE INSERT ON dibs_tasks WHEN new.priority = 9 BEGIN SELECT RAISE(FAIL, 'no nines'); END"); err != nil {
		t.Fatal(err)
	}
	_, err := q.Enqueue(t.Context(), []task.Spec{spec(uniqueKey("u")), spec(func(s *task.Spec) { s.Priority = 9 })})
	wantFault(t, "Enqueue", err, "dibs.db", "no nines")
	a.insert(tx, "hereafter")
	second := enqueue(t, q, spec(uniqueKey("u")))[0]
	a.commit(tx)
	if all := a.tasks(); len(all) != 2 || all[0].ID != first || all[1].ID != second.ID || second.Answer != task.New || a.names() != "before hereafter" {
		t.Errorf("in the end: %+v, %q", all, a.names())
	}
}

// cancelIt is cancel_it() in SQL.
var cancelIt func()

func init() {
	sqlite.MustRegisterScalarFunction("cancel_it", 0, func(*sqlite.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
		cancelIt()
		return nil, nil
	})
}

// What has begun does not end with its context: SQLite would give up all of the transaction with the write that
// is interrupted.
func TestACallThatHasBegunIsCarriedOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancelIt = cancel
	a := newApplication(t, t.TempDir())
	tx, q := a.begin()
	a.insert(tx, "order")
	if _, err := tx.Exec("CREATE TEMP TRIGGER now BEFORE INSERT ON dibs_tasks BEGIN SELECT cancel_it(); END"); err != nil {
		t.Fatal(err)
	}
	if got, err := q.Enqueue(ctx, []task.Spec{spec(), spec()}); err != nil || got[1].Answer != task.New || ctx.Err() == nil {
		t.Errorf("Enqueue: %+v, %v, %v", got, err, ctx.Err())
	}
	a.commit(tx)
	if len(a.tasks()) != 2 || a.names() != "order" {
		t.Errorf("in the end: %+v, %q", a.tasks(), a.names())
	}
}

// A caller's statements after SQLite gave up the whole transaction are not committed by themselves.
// Holds: promise 22.
func TestATransactionThatSQLiteGaveUpIsOver(t *testing.T) {
	a := newApplication(t, t.TempDir())
	tx, q := a.begin()
	a.insert(tx, "order")
	// As SQLite does by itself where the disk fails.
	if _, err := tx.Exec("CREATE TEMP TRIGGER no BEFORE INSERT ON dibs_tasks BEGIN SELECT RAISE(ROLLBACK, 'all of it'); END"); err != nil {
		t.Fatal(err)
	}
	_, err := q.Enqueue(t.Context(), []task.Spec{spec()})
	wantFault(t, "Enqueue", err, "dibs.db", "all of it")
	if !strings.Contains(err.Error(), "the transaction was rolled back, and is over") {
		t.Error(err)
	}
	if _, err := tx.Exec("INSERT INTO jobs VALUES ('alone')"); !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("the transaction goes on: %v", err)
	}
	if err := tx.Commit(); err == nil {
		t.Error("it could be committed")
	}
	if a.names() != "" {
		t.Errorf("committed: %s", a.names())
	}
}

// A task is not committed by itself after SQLite gave up the transaction in a statement of the application.
// Holds: promise 22.
func TestNothingJoinsWhatSQLiteGaveUp(t *testing.T) {
	for what, lose := range map[string]func(a *application, tx *sql.Tx) error{
		"a conflict that rolls back": func(a *application, tx *sql.Tx) error {
			_, err := tx.Exec("INSERT OR ROLLBACK INTO jobs VALUES ('there')")
			return err
		},
		"a write that was interrupted": func(a *application, tx *sql.Tx) error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			_, err := tx.ExecContext(ctx, "INSERT INTO jobs WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50000000) SELECT 'n' || i FROM n")
			return err
		},
	} {
		a := newApplication(t, t.TempDir())
		if _, err := a.db.Exec("INSERT INTO jobs VALUES ('there')"); err != nil {
			t.Fatal(err)
		}
		tx, q := a.begin()
		a.insert(tx, "order")
		if err := lose(a, tx); err == nil {
			t.Fatalf("%s: it went well", what)
		}
		_, err := q.Enqueue(t.Context(), []task.Spec{spec()})
		_ = tx.Rollback()
		if err == nil {
			t.Errorf("%s: enqueued, in no transaction", what)
		}
		if n := len(a.tasks()); n != 0 {
			t.Errorf("%s: after a rollback %d tasks are there (%q)", what, n, a.names())
		}
	}
}

// A statement that writes and is not at its end lets no step begin, and the transaction goes on.
func TestRowsThatAreStillWrittenComeFirst(t *testing.T) {
	a := newApplication(t, t.TempDir())
	tx, q := a.begin()
	a.insert(tx, "order")
	rows, err := tx.Query("UPDATE jobs SET name = 'paid' RETURNING name")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Enqueue(t.Context(), []task.Spec{spec()}); err == nil || errors.Is(err, lease.ErrUnavailable) || !strings.Contains(err.Error(), "RETURNING") {
		t.Errorf("before its rows were read: %v", err)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	enqueue(t, q, spec())
	a.commit(tx)
	if len(a.tasks()) != 1 || a.names() != "paid" {
		t.Errorf("in the end: %+v, %q", a.tasks(), a.names())
	}
}

func TestTransactionsOnOtherDatabasesAreRefused(t *testing.T) {
	a := newApplication(t, t.TempDir())
	b := newApplication(t, t.TempDir())
	tx, _ := b.begin()
	if _, err := QueueTx(tx, a.s).Enqueue(t.Context(), []task.Spec{spec()}); err == nil || !strings.Contains(err.Error(), inside(a.s).path) || !strings.Contains(err.Error(), inside(b.s).path) {
		t.Errorf("a transaction of another directory: %v", err)
	}
	usable(t, tx)
	m := memory.New(memory.Options{}).Store()
	if _, err := OpenDB(t.Context(), m); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("OpenDB of another store: %v", err)
	}
	if _, err := QueueTx(tx, m).Enqueue(t.Context(), []task.Spec{spec()}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("QueueTx of another store: %v", err)
	}
}

// The application's tables, its user_version and its pragmas are its own.
func TestTheApplicationHasItsOwn(t *testing.T) {
	dir := t.TempDir()
	a := newApplication(t, dir)
	db, err := OpenDB(t.Context(), a.s, "_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, text := range []string{"CREATE TABLE tasks (job TEXT REFERENCES jobs (name))", "CREATE TABLE events (x)", "PRAGMA user_version = 99"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec("INSERT INTO tasks VALUES ('nobody')"); err == nil {
		t.Error("foreign keys are not looked at")
	}
	var full, wal string
	if err := errors.Join(db.QueryRow("PRAGMA synchronous").Scan(&full), db.QueryRow("PRAGMA journal_mode").Scan(&wal)); err != nil || full != "2" || wal != "wal" {
		t.Errorf("synchronous %s, journal %s, %v", full, wal, err)
	}
	enqueue(t, openAt(t, dir).Queue, spec())
	if n := len(a.tasks()); n != 1 {
		t.Errorf("%d tasks", n)
	}
	if _, err := OpenDB(t.Context(), a.s, "_txlock=nonsense&_time_format=nonsense"); err == nil || !strings.Contains(err.Error(), filepath.Base(inside(a.s).path)) {
		t.Errorf("a parameter that the driver does not know: %v", err)
	}
}
