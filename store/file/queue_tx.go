//go:build linux

package file

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// OpenDB opens a pool of connections to the database of s for an application that has its own tables there, so that
// its transactions can be joined (QueueTx). The caller closes the pool. Names that begin with dibs_ are dibs's, all
// others the application's.
//
// Transactions are IMMEDIATE, except read-only ones. BeginTx waits for other writers: up to 5 s for those of this
// process that came before, and up to 5 s more for other processes. Then it fails with an error that wraps
// lease.ErrUnavailable. A commit is on disk when it returns (synchronous=FULL). params are more of the driver's
// parameters, such as "_pragma=foreign_keys(1)" or "_time_format=sqlite".
//
// There is one writer at a time. While a transaction of the pool is open, nothing on this host is enqueued, fetched,
// completed or claimed in this namespace; such calls fail after 5 s with ErrUnavailable. Leases are renewed
// meanwhile. So keep transactions short, and call nothing of the store while one is open, except through QueueTx: the
// call would wait for its own caller.
//
// No program may have the file open through two different libraries of SQLite: closing it in one of them drops the
// locks of the other.
func OpenDB(ctx context.Context, s *store.Store, params ...string) (*sql.DB, error) {
	d, err := dbOf(s)
	if err != nil {
		return nil, err
	}
	if _, err := d.open(ctx); err != nil { // which makes dibs's own tables
		return nil, err
	}
	const own = "_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(full)"
	c, err := sqlite.NewConnector(d.address(strings.Join(append([]string{own}, params...), "&")))
	if err != nil {
		return nil, fail("open", d.path, err)
	}
	p := sql.OpenDB(orderly{c, d})
	p.SetMaxIdleConns(4)
	p.SetConnMaxIdleTime(time.Minute) // one that is idle keeps the memory that is shared as it is (torn)
	if err := p.PingContext(ctx); err != nil {
		_ = p.Close()
		return nil, d.fail("open", err)
	}
	return p, nil
}

func dbOf(s *store.Store) (*db, error) {
	if q, ok := s.Queue.(queues); ok {
		return q.db, nil
	}
	return nil, fmt.Errorf("store %s: it is not an embedded directory, and has no SQLite database to share: %w", s.URL, errors.ErrUnsupported)
}

// Tx enqueues and completes tasks as part of a transaction of the caller's. Nothing of it exists before the commit,
// or after a rollback. One goroutine at a time may use it, as the transaction.
//
// No answer is ever Undecided: there is one writer, so BeginTx waits for another's uncommitted key. After an error
// the transaction is as it was before the call, and goes on. The exception is an error at which SQLite gives up all
// of it, such as a full disk; the error then says that it is over.
type Tx struct {
	tx   *sql.Tx
	db   *db
	bad  error // why it is of no use
	stmt func(name string) (*sql.Stmt, error)
	ours bool // its database was looked at
}

// QueueTx is the queue of s in a transaction on its database; begin that with a pool of OpenDB. A transaction on any
// other database is refused when it is used.
func QueueTx(tx *sql.Tx, s *store.Store) *Tx {
	d, err := dbOf(s)
	return &Tx{tx: tx, db: d, bad: err, stmt: preparing(tx)}
}

// Enqueue is driver.Inserter's. Watching workers wake at the commit.
func (x *Tx) Enqueue(ctx context.Context, specs []task.Spec) (answers []task.Enqueued, err error) {
	if len(specs) == 0 {
		return nil, ctx.Err()
	}
	err = x.step(ctx, func(b *txn) error {
		if answers, err = b.enqueueAll(specs); err != nil {
			return err
		}
		return b.countAll(counters.Admissions(specs, answers))
	})
	return answers, err
}

// Finish is driver.Finisher's. The slots are free as soon as it commits.
func (x *Tx) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	if len(ends) == 0 {
		return nil, ctx.Err()
	}
	return answer(ctx, x, ends, func(b *txn, c driver.Completion) (driver.Status, error) { return b.finish(worker, c) })
}

// step does one step in a savepoint, which is given up when it fails. Once begun it does not end with ctx:
// SQLite gives all of a transaction up when one of its writes is interrupted.
func (x *Tx) step(ctx context.Context, do func(*txn) error) error {
	if err := errors.Join(x.bad, ctx.Err()); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if err := x.look(ctx); err != nil {
		return err
	}
	if err := x.goesOn(ctx); err != nil {
		return err
	}
	err := x.exec(ctx, "SAVEPOINT dibs_queue")
	if isBusy(err) {
		return fmt.Errorf("a writing statement of the transaction is not finished: read its rows (RETURNING), or close them, before you call the queue: %w", err)
	}
	if err != nil {
		return x.fail(err)
	}
	if err = x.lock(ctx); err == nil {
		b := x.db.txn(ctx, x.tx, x.stmt)
		if err = do(b); err == nil {
			err = b.settleAll()
		}
		err = x.fail(err)
	}
	if err == nil {
		err = x.fail(x.exec(ctx, "RELEASE dibs_queue"))
	}
	if err == nil {
		return nil
	}
	return x.undo(ctx, err)
}

// goesOn checks that there still is a transaction. SQLite gives up all of it at some errors of the application's
// statements, such as an interrupted write, or a conflict with OR ROLLBACK. A savepoint would then be a transaction
// of its own, and be committed.
func (x *Tx) goesOn(ctx context.Context) error {
	if err := x.exec(ctx, "BEGIN"); err != nil {
		return nil // there is one, in which no other can begin; or what comes next fails as well
	}
	_ = x.tx.Rollback()
	return errors.New("the transaction is over: SQLite rolled all of it back at an earlier error of one of its statements, such as a write that was interrupted")
}

// look checks that the transaction is on this directory's database.
func (x *Tx) look(ctx context.Context) error {
	if x.ours {
		return nil
	}
	files, err := query(ctx, x.tx, func(row scanner) (at [3]string, err error) { return at, row.Scan(&at[0], &at[1], &at[2]) }, "PRAGMA database_list")
	if err != nil {
		return x.fail(err)
	}
	have, want := "", x.db.path
	for _, f := range files {
		if f[1] == "main" {
			have = f[2]
		}
	}
	is, err := os.Stat(want)
	if err != nil {
		return x.fail(err)
	}
	if there, err := os.Stat(have); err != nil || !os.SameFile(is, there) {
		if real, err := filepath.EvalSymlinks(have); err == nil {
			have = real // of a pool of OpenDB's it is that of a descriptor
		}
		return fmt.Errorf("the transaction is on the database %q, and the tasks are in %s: begin it on a pool of OpenDB's for this store", have, want)
	}
	x.ours = true
	return nil
}

// lock makes the transaction the one that writes, before anything is looked at or a clock is read.
func (x *Tx) lock(ctx context.Context) error {
	s, err := x.stmt("write_lock")
	if err == nil {
		_, err = s.ExecContext(ctx)
	}
	if isBusy(err) {
		return fmt.Errorf("%w: %w", ErrDeferred, err)
	}
	return x.fail(err)
}

// undo rolls the savepoint back. If SQLite has given up the whole transaction, later statements would be committed
// one by one: so the transaction is ended.
func (x *Tx) undo(ctx context.Context, why error) error {
	err := x.exec(ctx, "ROLLBACK TO dibs_queue")
	if err == nil {
		err = x.exec(ctx, "RELEASE dibs_queue")
	}
	if err == nil {
		return why
	}
	_ = x.tx.Rollback()
	return fmt.Errorf("the transaction was rolled back, and is over: %w", why)
}

func (x *Tx) exec(ctx context.Context, text string) error {
	_, err := x.tx.ExecContext(ctx, text)
	return err
}

func (x *Tx) fail(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return x.db.fail("join a transaction on", err)
}
