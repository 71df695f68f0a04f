package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// ErrIsolation is returned for a transaction that is not READ COMMITTED. At other levels it would not see which
// unique keys were taken since it began (rule Q2). Nothing was done, and the transaction stays usable.
var ErrIsolation = errors.New("the transaction is not READ COMMITTED; begin it at that level to enqueue or complete tasks in it")

// ErrNamespace is returned if the database has no such namespace: tasks would be taken in, and no worker would ever
// fetch them. Nothing was done, and the transaction stays usable.
var ErrNamespace = errors.New("there is no such namespace in this database; use your store's namespace, or create it with dibs init")

// ErrEncoding is returned for a transaction whose client_encoding is not UTF8: the server would keep other characters
// than the program sent. Nothing was done, and the transaction stays usable.
var ErrEncoding = errors.New("the connection's client_encoding is not UTF8; set it to UTF8 to enqueue or complete tasks in it")

// Tx enqueues and completes tasks as part of a transaction of the caller's. Nothing of it exists before the
// commit, or after a rollback. It is used by one goroutine at a time, as the transaction is.
//
// After an error, and after an Undecided answer, the transaction is as it was before the call, and
// goes on.
type Tx struct {
	tasks tasks
	run   func(ctx context.Context, steps []step) error
	undo  func(ctx context.Context) error // gives the savepoint up
	good  bool                            // its isolation and its namespace were looked at
}

// QueueTx is the queue of a namespace as seen from a transaction of pgx.
func QueueTx(tx pgx.Tx, namespace string) *Tx {
	return newTx(namespace, func(ctx context.Context, steps []step) error { return pgxSteps(ctx, tx, steps) },
		func(ctx context.Context) error {
			// In one message: what is prepared in an aborted transaction is refused.
			_, err := tx.Conn().PgConn().Exec(ctx, strings.Join(undo, ";")).ReadAll()
			return err
		})
}

// QueueSQL is the queue of a namespace as seen from a transaction of database/sql, over any driver for PostgreSQL.
func QueueSQL(tx *sql.Tx, namespace string) *Tx {
	return newTx(namespace, func(ctx context.Context, steps []step) error { return sqlSteps(ctx, tx, steps) },
		func(ctx context.Context) error {
			return sqlSteps(ctx, tx, []step{do(undo[0]), do(undo[1])})
		})
}

var undo = []string{"ROLLBACK TO SAVEPOINT dibs_queue", "RELEASE SAVEPOINT dibs_queue"}

func newTx(namespace string, run func(context.Context, []step) error, undo func(context.Context) error) *Tx {
	if namespace == "" {
		namespace = "dibs"
	}
	return &Tx{run: run, undo: undo, tasks: newTasks(&db{address: "(the caller's transaction)"}, namespace, nil)}
}

// Enqueue is driver.Inserter's. Watching workers are notified by the commit.
func (x *Tx) Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	if len(specs) == 0 {
		return nil, ctx.Err()
	}
	a := x.tasks.admission(specs, true)
	guess := allNew(specs)
	steps := append(append(a.named(), a.steps()...), do(sqlEnqueue()[3], a.queues(), true), x.tasks.counting(guess))
	if err := x.do(ctx, "enqueue", steps); err != nil {
		return nil, err
	}
	answers, err := a.answer()
	if err != nil {
		return nil, err
	}
	if counts := corrected(counters.Admissions(specs, answers), guess); len(counts) > 0 {
		err = x.do(ctx, "count", []step{x.tasks.counting(counts)})
	}
	return answers, err
}

// allNew are the counts of specs that are all taken in, as most are: they are sent with the tasks.
func allNew(specs []task.Spec) []driver.Count {
	answers := make([]task.Enqueued, len(specs))
	for i := range answers {
		answers[i].Answer = task.New
	}
	return counters.Admissions(specs, answers)
}

// corrected are the counts that, added to guess, make is.
func corrected(is, guess []driver.Count) (more []driver.Count) {
	sums := map[driver.Count]int64{}
	for i, counts := range [][]driver.Count{is, guess} {
		for _, c := range counts {
			n := c.N
			c.N = 0
			sums[c] += n - 2*n*int64(i)
		}
	}
	for c, n := range sums {
		if n != 0 {
			c.N = n
			more = append(more, c)
		}
	}
	return more
}

// Finish is driver.Finisher's. The slots are free as soon as the transaction commits.
func (x *Tx) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	if len(ends) == 0 {
		return nil, ctx.Err()
	}
	f := x.tasks.finish(worker, ends, true, false)
	if err := x.do(ctx, "finish", f.steps); err != nil {
		return nil, err
	}
	return f.statuses, nil
}

// queues are those of a batch.
func (a *admission) queues() (all []int64) {
	for _, items := range a.rounds {
		all = append(all, column(items, func(m item) int64 { return a.t.names.queue(m.spec.Queue) })...)
	}
	return all
}

// do carries out steps in a savepoint. If one of them fails, the savepoint is rolled back, and the transaction goes
// on.
func (x *Tx) do(ctx context.Context, what string, steps []step) error {
	if err := x.look(ctx, what); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // nothing is sent: to undo what did not begin would end the caller's transaction
		return x.tasks.db.fail(what, err)
	}
	steps = append([]step{do("SAVEPOINT dibs_queue")}, append(steps, do("RELEASE SAVEPOINT dibs_queue"))...)
	if err := x.run(ctx, steps); err != nil {
		return errors.Join(x.tasks.db.fail(what, err), x.undo(context.WithoutCancel(ctx)))
	}
	return nil
}

// look checks, once, that the transaction is READ COMMITTED and in UTF-8, and that its namespace exists.
func (x *Tx) look(ctx context.Context, what string) error {
	if x.good {
		return nil
	}
	level, encoding, there := "", "", false
	err := x.run(ctx, []step{do("SELECT current_setting('transaction_isolation'), current_setting('client_encoding'), EXISTS (SELECT FROM dibs.namespaces WHERE ns = $1)", x.tasks.ns).
		each(func(rows pgx.Rows) error { return rows.Scan(&level, &encoding, &there) })})
	switch {
	case err != nil:
		return x.tasks.db.fail(what, err)
	case level != "read committed":
		return fmt.Errorf("%w (it is %s)", ErrIsolation, strings.ToUpper(level))
	case encoding != "UTF8":
		return fmt.Errorf("%w (it is %s)", ErrEncoding, encoding)
	case !there:
		return fmt.Errorf("namespace %q: %w", x.tasks.ns, ErrNamespace)
	}
	x.good = true
	return nil
}

func pgxSteps(ctx context.Context, tx pgx.Tx, steps []step) error {
	var b pgx.Batch
	for _, s := range steps {
		s.queue(&b)
	}
	return tx.SendBatch(ctx, &b).Close()
}

func sqlSteps(ctx context.Context, tx *sql.Tx, steps []step) error {
	for _, s := range steps {
		if err := sqlStep(ctx, tx, s); err != nil {
			return err
		}
	}
	return nil
}

func sqlStep(ctx context.Context, tx *sql.Tx, s step) error {
	arguments := make([]any, len(s.args))
	for i, a := range s.args {
		arguments[i] = literal(a)
	}
	rows, err := tx.QueryContext(ctx, s.sql, arguments...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() && s.row != nil {
		if err := s.row(sqlRow{rows: rows}); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// sqlRow is a row of database/sql, as far as steps look at rows.
type sqlRow struct {
	pgx.Rows
	rows *sql.Rows
}

func (r sqlRow) Scan(into ...any) error { return r.rows.Scan(into...) }

// literal is an argument in a form that every driver takes: lists are written as PostgreSQL writes them.
func literal(a any) any {
	switch v := a.(type) {
	case []int64:
		return array(v, func(n int64) string { return strconv.FormatInt(n, 10) })
	case []int32:
		return array(v, func(n int32) string { return strconv.FormatInt(int64(n), 10) })
	case []int16:
		return array(v, func(n int16) string { return strconv.FormatInt(int64(n), 10) })
	case []bool:
		return array(v, strconv.FormatBool)
	case []string:
		return array(v, func(s string) string { return `"` + quoting.Replace(s) + `"` })
	case []pgtype.UUID:
		return array(v, func(u pgtype.UUID) string {
			if !u.Valid {
				return "NULL"
			}
			return u.String()
		})
	}
	return a
}

var quoting = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func array[T any](items []T, write func(T) string) any {
	if items == nil {
		return nil
	}
	return "{" + strings.Join(column(items, write), ",") + "}"
}

var (
	_ driver.Inserter = (*Tx)(nil)
	_ driver.Finisher = (*Tx)(nil)
)
