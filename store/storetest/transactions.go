package storetest

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// A Caller is an application that keeps tables of its own in the database of the store under test.
type Caller struct {
	// Connect opens a way of the application's own, for as long as the test runs, to the database in which s
	// has the namespace of c. What it returns begins a transaction there.
	Connect func(t testing.TB, s *store.Store, c store.Config) Begin
	// OneWriter: while a transaction is open, whoever else writes waits for its end. Otherwise only those do
	// who want what it has.
	OneWriter bool
}

// Begin begins a transaction.
type Begin func(context.Context) (Transaction, error)

// A Transaction is one of a Caller's. Count returns the one number that a query results in; to roll back what
// is over may fail.
type Transaction struct {
	Queue            Joined
	Exec             func(ctx context.Context, statement string) error
	Count            func(ctx context.Context, query string) (n int, err error)
	Commit, Rollback func(context.Context) error
}

// Joined is the store's queue as seen from a transaction.
type Joined interface {
	driver.Inserter
	driver.Finisher
}

// SQL is a transaction of database/sql, in which q is the queue.
func SQL(tx *sql.Tx, q Joined) Transaction {
	return Transaction{q,
		func(ctx context.Context, statement string) error {
			_, err := tx.ExecContext(ctx, statement)
			return err
		},
		func(ctx context.Context, query string) (n int, err error) {
			err = tx.QueryRowContext(ctx, query).Scan(&n)
			return n, err
		},
		func(context.Context) error { return tx.Commit() }, func(context.Context) error { return tx.Rollback() }}
}

// RunTransactions checks that the tasks of the store that open opens at url join the transactions of its
// callers (promise 22). A store may be run with several kinds of callers.
func RunTransactions(t *testing.T, open Open, url string, c Caller) {
	t.Helper()
	group(t, "transactions", open, url, c.promises(slices.Concat(joinPromises, linePromises)))
	if !c.OneWriter {
		group(t, "beside-transactions", open, url, c.promises(besidePromises))
	}
}

// A pledge is a promise to somebody who has transactions.
type pledge struct {
	name string
	keep func(*caller)
}

func (c Caller) promises(pledges []pledge) (all []promise) {
	for _, p := range pledges {
		all = append(all, promise{p.name, func(w *world) { p.keep(&caller{w, c, c.Connect(w.T, w.s, w.config)}) }})
	}
	return all
}

// caller is a world in which somebody has transactions.
type caller struct {
	*world
	Caller
	connected Begin
}

// transaction is one that is open.
type transaction struct {
	*caller
	Transaction
}

// open begins a transaction, which is rolled back at the end of the test at the latest.
func (c *caller) open() transaction {
	c.Helper()
	x, err := c.connected(c.ctx)
	c.check("beginning a transaction", err)
	c.Cleanup(func() { _ = x.Rollback(context.Background()) })
	return transaction{c, x}
}

// committed takes specs in with a transaction of their own.
func (c *caller) committed(specs ...task.Spec) []task.Enqueued {
	c.Helper()
	x := c.open()
	defer x.commit()
	return x.enqueue(specs...)
}

func (x transaction) commit()   { x.Helper(); x.check("Commit", x.Commit(x.ctx)) }
func (x transaction) rollback() { x.Helper(); x.check("Rollback", x.Rollback(x.ctx)) }

func (x transaction) exec(statement string) {
	x.Helper()
	x.check(statement, x.Exec(x.ctx, statement))
}

// goesOn checks that a transaction is still of use.
func (x transaction) goesOn() {
	x.Helper()
	n, err := x.Count(x.ctx, "SELECT 1")
	x.check("a query of the caller's own", err)
	equal(x.world, "what it returns", n, 1)
}

func (x transaction) enqueue(specs ...task.Spec) []task.Enqueued {
	x.Helper()
	got, err := queue.EnqueueIn(x.ctx, x.Queue, specs...)
	x.check("EnqueueIn", err)
	if len(got) != len(specs) {
		x.Fatalf("EnqueueIn of %d: %d answers", len(specs), len(got))
	}
	return got
}

// finish ends runs with success, each of which must be answered so.
func (x transaction) finish(worker lease.Ref, want driver.Status, tasks ...driver.Fetched) {
	x.Helper()
	x.finishIn(x.Queue, worker, want, tasks...)
}

// finishes ends runs with success, in no transaction.
func (c *caller) finishes(worker lease.Ref, tasks ...driver.Fetched) {
	c.Helper()
	c.finishIn(c.s.Queue, worker, driver.OK, tasks...)
}

func (w *world) finishIn(in driver.Finisher, worker lease.Ref, want driver.Status, tasks ...driver.Fetched) {
	w.Helper()
	got, err := in.Finish(w.ctx, worker, succeeded(tasks))
	w.check("Finish", err)
	if !slices.Equal(got, slices.Repeat([]driver.Status{want}, len(tasks))) {
		w.Errorf("Finish of tasks %v: got %v, want %v each", ids(tasks), got, want)
	}
}

func succeeded(tasks []driver.Fetched) (ends []driver.Completion) {
	for _, t := range tasks {
		ends = append(ends, driver.Completion{Ref: t.Ref, Verdict: driver.Success})
	}
	return ends
}

// nothing is to be had while a transaction is open that has all there is: a fetch finds nothing, or waits for
// the one that writes.
func (c *caller) nothing(what string, worker lease.Ref) {
	c.Helper()
	if !c.OneWriter {
		c.fetches(what, worker, 10)
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, 50*time.Millisecond)
	defer cancel()
	f, err := c.s.Queue.Fetch(ctx, driver.FetchRequest{Worker: worker, Queues: []string{"q"}, Max: 10})
	if !errors.Is(err, lease.ErrUnavailable) {
		c.Errorf("%s: got %+v, %v; want a fetch that waits for who writes", what, f, err)
	}
}

// table makes the application's own table, and returns its name.
func (c *caller) table() string {
	c.Helper()
	name := "orders_of_" + c.config.Namespace
	alone := func(ctx context.Context, statement string) error {
		x, err := c.connected(ctx)
		if err == nil {
			err = errors.Join(x.Exec(ctx, statement), x.Commit(ctx))
		}
		return err
	}
	c.check("making a table", alone(c.ctx, "CREATE TABLE "+name+" (word VARCHAR(100))"))
	c.Cleanup(func() { _ = alone(context.Background(), "DROP TABLE "+name) })
	return name
}

// rows are how many the application's table has.
func (c *caller) rows(what, table string, want int) {
	c.Helper()
	x := c.open()
	n, err := x.Count(c.ctx, "SELECT count(*) FROM "+table)
	c.check("counting rows", err)
	equal(c.world, what+": rows of the application's", n, want)
	x.rollback()
}

// keyed is some with a unique key and a limit of one, where they are named.
func keyed(key, limit string) task.Spec {
	s := some()
	if key != "" {
		s.Unique = &task.Unique{Key: key}
	}
	if limit != "" {
		s.Limit = &task.Limit{Key: limit, Max: 1}
	}
	return s
}
