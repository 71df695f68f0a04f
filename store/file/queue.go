//go:build linux

package file

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// queues fulfils driver.Store, admin driver.Admin. A writing transaction has the database to itself, so Go decides
// between reading and writing rows.
type (
	queues struct{ db *db }
	admin  struct{ db *db }
)

//go:embed queries/queue.sql
var queueSQL string

// statements are those of queries/queue.sql by name, read when first needed.
var statements = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, part := range strings.Split(queueSQL, "-- name: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		all[name] = withoutComments(text)
	}
	all["task_get"] = all["task_columns"] + " WHERE t.id = ?"
	all["task_by_key"] = all["task_columns"] + " WHERE t.ukey = ? AND t.ukey IS NOT NULL"
	return all
})

// withoutComments leaves out the lines that are comments: a statement is parsed for each transaction of a caller's.
func withoutComments(text string) string {
	var code strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			code.WriteString(line)
		}
	}
	return strings.TrimSpace(code.String())
}

// prepare has the writer's connection parse the queue's statements once: parsing is most of what a small one costs.
func (p *pools) prepare(ctx context.Context) (map[string]*sql.Stmt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prepared != nil {
		return p.prepared, nil
	}
	all := make(map[string]*sql.Stmt, len(statements()))
	for name, text := range statements() {
		s, err := p.writer.PrepareContext(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = s
	}
	p.prepared = all
	return all, nil
}

// txn is one step of one transaction on the queues.
type txn struct {
	ctx  context.Context
	db   *db
	tx   *sql.Tx
	now  time.Time
	stmt func(name string) (*sql.Stmt, error) // a statement of this transaction

	looks bool // and changes nothing

	limits  map[int64]*limit
	workers map[int64]driver.Process
	alive   map[lease.Ref]bool
	subs    map[subQueueName]int64

	doors  int // how many sub-queues it may still bring in order, beside those of its tasks
	turned int // how many tasks it has made available or blocked there
	flips  int // how many it has made available or blocked anywhere
}

// A subQueueName is a queue and a kind.
type subQueueName struct{ queue, kind string }

func (s *db) txn(ctx context.Context, tx *sql.Tx, stmt func(string) (*sql.Stmt, error)) *txn {
	return &txn{ctx: ctx, db: s, tx: tx, now: instantNow().time(), stmt: stmt, limits: map[int64]*limit{},
		workers: map[int64]driver.Process{}, alive: map[lease.Ref]bool{}, subs: map[subQueueName]int64{},
		doors: mostAtOnce}
}

// step does one atomic step on the queues.
func (s *db) step(ctx context.Context, do func(b *txn) error) error {
	p, err := s.open(ctx)
	if err != nil {
		return err
	}
	prepared, err := p.prepare(ctx)
	if err != nil {
		return s.fail("prepare", err)
	}
	// The statements are short, and do not listen to ctx: for one that can end, each would start goroutines. The
	// transaction ends with it.
	alone := context.WithoutCancel(ctx)
	return s.write(ctx, func(tx *sql.Tx) error {
		known := map[string]*sql.Stmt{}
		b := s.txn(alone, tx, func(name string) (*sql.Stmt, error) {
			st := known[name]
			if st == nil {
				st = tx.StmtContext(alone, prepared[name])
				known[name] = st
			}
			return st, nil
		})
		if err := do(b); err != nil {
			return err
		}
		return b.settleAll()
	})
}

// preparing prepares statements for a transaction on any connection, as they are asked for. They end with it.
func preparing(tx *sql.Tx) func(name string) (*sql.Stmt, error) {
	known := map[string]*sql.Stmt{}
	return func(name string) (*sql.Stmt, error) {
		if s := known[name]; s != nil {
			return s, nil
		}
		s, err := tx.Prepare(statements()[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		known[name] = s
		return s, nil
	}
}

// stepper does steps in transactions of its own, or of the caller's.
type stepper interface {
	step(ctx context.Context, do func(*txn) error) error
}

// answer answers items one by one, in one step.
func answer[Q, A any](ctx context.Context, in stepper, items []Q, one func(*txn, Q) (A, error)) (answers []A, err error) {
	err = in.step(ctx, func(b *txn) error {
		answers = make([]A, 0, len(items))
		for _, item := range items {
			a, err := one(b, item)
			if err != nil {
				return err
			}
			answers = append(answers, a)
		}
		return nil
	})
	return answers, err
}

// inParts does so in steps, none of which does more than one may. If one fails, those before it are done.
func inParts[Q, A any](ctx context.Context, d *db, items []Q, one func(*txn, Q) (A, error)) ([]A, error) {
	answers := make([]A, 0, len(items))
	for len(answers) < len(items) {
		done := len(answers)
		err := d.step(ctx, func(b *txn) error {
			answers = answers[:done]
			for _, item := range items[done:] {
				if b.full(len(answers) - done) {
					return nil
				}
				a, err := one(b, item)
				if err != nil {
					return err
				}
				answers = append(answers, a)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// full says that a step which has changed so many tasks has done enough: mostAtOnce, or fewer if they have many
// limits, each of which is as much work as several tasks.
func (b *txn) full(tasks int) bool { return tasks >= mostAtOnce || len(b.limits) >= mostLimits }

func (b *txn) row(name string, args ...any) scanner {
	s, err := b.stmt(name)
	if err != nil {
		return noRow{err}
	}
	return s.QueryRowContext(b.ctx, args...)
}

// noRow is the row of a statement that could not be prepared.
type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }

func (b *txn) exec(name string, args ...any) error {
	s, err := b.stmt(name)
	if err == nil {
		_, err = s.ExecContext(b.ctx, args...)
	}
	return err
}

// scan reads the only row of a statement.
func (b *txn) scan(name string, args []any, into ...any) error {
	return b.row(name, args...).Scan(into...)
}

// rows reads all rows of a statement.
func rows[T any](b *txn, read func(scanner) (T, error), name string, args ...any) ([]T, error) {
	s, err := b.stmt(name)
	if err != nil {
		return nil, err
	}
	found, err := s.QueryContext(b.ctx, args...)
	if err != nil {
		return nil, err
	}
	return collect(found, read)
}

func readID(row scanner) (id task.ID, err error) { return id, row.Scan(&id) }

// live says whether a worker's lease is live.
func (b *txn) live(ref lease.Ref) (bool, error) {
	if known, ok := b.alive[ref]; ok {
		return known, nil
	}
	is, err := b.db.leases.alive(ref)
	if err == nil {
		b.alive[ref] = is
	}
	return is, err
}

// subQueue is the id of a (queue, kind).
func (b *txn) subQueue(at subQueueName) (id int64, err error) {
	if id, ok := b.subs[at]; ok {
		return id, nil
	}
	err = b.scan("subqueue_id", []any{at.queue, at.kind}, &id)
	b.subs[at] = id
	return id, err
}

// record writes an event, in the step of what it tells of.
func (b *txn) record(kind, reason string) error {
	return insertEvent(b.ctx, b.tx, history.Event{At: b.now, Kind: kind, Reason: reason})
}

// tally counts what the store itself did to t.
func (b *txn) tally(t *taskRow, name string) error {
	return b.exec("count", micros(b.now.Truncate(time.Minute)), t.Queue, t.Kind, name, 1)
}
