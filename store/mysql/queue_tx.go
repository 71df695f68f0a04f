package mysql

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// ErrIsolation is returned for a transaction that is not READ COMMITTED. At other levels it would not see which
// unique keys were taken since it began, and would lock keys that nobody has (rule Q2). Nothing was done, and the
// transaction stays usable.
var ErrIsolation = errors.New("the transaction is not READ COMMITTED; begin it at that level to enqueue or complete tasks in it")

// ErrNamespace is returned if the database has no such namespace: tasks would be taken in, and no worker would ever
// fetch them. Nothing was done, and the transaction stays usable.
var ErrNamespace = errors.New("there is no such namespace in this database; use your store's namespace, or create it with dibs init")

// Tx enqueues and completes tasks as part of a transaction of the caller's. Nothing of it exists before the
// commit, or after a rollback. It is used by one goroutine at a time, as the transaction is.
//
// After an error, and after an Undecided answer, the transaction is as it was before the call, and goes on; except
// after a deadlock, for which the server has rolled all of it back, as it does for any statement.
type Tx struct {
	tx   *sql.Tx
	q    queues
	good bool // its isolation and its namespace were looked at
	ours bool // BeginTx began it, at the right level
}

// BeginTx begins a READ COMMITTED transaction of db, whose database has the tables of the namespace, and returns it
// with its queue. It needs no setting and no privilege.
func BeginTx(ctx context.Context, db *sql.DB, namespace string) (*sql.Tx, *Tx, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, nil, err
	}
	q := QueueTx(tx, namespace)
	q.ours = true
	return tx, q, nil
}

// QueueTx is the queue of a namespace in a transaction that the caller began. Prefer BeginTx.
//
// The transaction must be READ COMMITTED, else it is refused (ErrIsolation). The store asks
// information_schema.innodb_trx for its level, which needs the PROCESS privilege and is up to date only if nobody on
// the server has read it for 100 ms. If that does not show the transaction, the level of its session counts. To join
// more than a few transactions a second, set the session's level (tx_isolation=%27READ-COMMITTED%27 in the DSN for
// MariaDB, transaction_isolation for MySQL), or use BeginTx.
func QueueTx(tx *sql.Tx, namespace string) *Tx {
	if namespace == "" {
		namespace = "dibs"
	}
	d := &database{addr: "(the caller's transaction)", ns: []byte(namespace)}
	return &Tx{tx: tx, q: queues{d, new(known), nil}}
}

// Enqueue is of driver.Inserter.
func (x *Tx) Enqueue(ctx context.Context, specs []task.Spec) (answers []task.Enqueued, err error) {
	if len(specs) == 0 {
		return nil, ctx.Err()
	}
	err = x.do(ctx, func(b *txn) error {
		a := &admission{txn: b, answers: make([]admitted, len(specs))}
		if err := a.subQueuesTx(specs); err != nil {
			return err
		}
		for _, i := range keysInOrder(specs) {
			if err := a.enqueueTx(i, specs[i]); err != nil {
				return err
			}
		}
		answers = a.answer()
		for _, c := range counters.Admissions(specs, answers) {
			b.counts[counter{c.Queue, c.Kind, c.Name}] += c.N
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return answers, nil
}

// keysInOrder is the order in which specs are taken in: that of their keys, so that two transactions cannot deadlock.
func keysInOrder(specs []task.Spec) []int {
	order := make([]int, len(specs))
	hashes := make([][]byte, len(specs))
	for i, s := range specs {
		if order[i] = i; s.Unique != nil {
			h := s.Unique.Hash(s.Kind)
			hashes[i] = h[:]
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Or(bytes.Compare(hashes[i], hashes[j]), cmp.Compare(i, j)) })
	return order
}

// Finish is of driver.Finisher. Slots are free as soon as it commits.
func (x *Tx) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) (answers []driver.Status, err error) {
	if len(ends) == 0 {
		return nil, ctx.Err()
	}
	err = x.do(ctx, func(b *txn) error {
		var id int64
		ids := make(list, len(ends))
		for i, c := range ends {
			ids[i] = int64(c.ID)
		}
		err := b.ask(func(p *packet) []reader {
			p.add("find-worker", b.q.ns, nonce(worker.Owner), int64(worker.Token), []byte(worker.Key)).add("lock-tasks", ids)
			return []reader{func(r *sql.Rows) error { return r.Scan(&id) }}
		})
		if err != nil {
			return err
		}
		answers, err = b.finishAll(worker, id, ends, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("finish: %w", err)
	}
	return answers, nil
}

// do carries out a step in a savepoint. If the step fails, the savepoint is rolled back.
func (x *Tx) do(ctx context.Context, step func(*txn) error) (err error) {
	if err := x.isolated(ctx); err != nil {
		return err
	}
	b := x.q.txn(ctx)
	b.looks, b.tx = false, x
	var waited int64
	begin := new(packet).add("savepoint").add("lock-wait").add("utc-clock").add("set-wait", int(lockWait.Seconds()))
	readers := []reader{func(r *sql.Rows) error { return r.Scan(&waited) }, readInstant(&b.now)}
	if err = x.send(ctx, begin, readers); number(err) == 1305 {
		// Each statement from here on would be committed by itself.
		_ = x.tx.Rollback()
		return fmt.Errorf("the transaction is over: the server rolled it back at an earlier deadlock, or a statement such as DDL committed it: %w", err)
	}
	if err != nil {
		return x.q.explain(err)
	}
	if err = step(b); err == nil {
		err = b.flush()
	}
	end := new(packet)
	switch {
	case number(err) == 1213: // and its savepoint with it
		err = fmt.Errorf("the server has rolled the transaction back: %w", x.q.explain(err))
	case err != nil:
		end.add("undo-savepoint").add("drop-savepoint")
	default:
		end.add("drop-savepoint")
	}
	ctx = context.WithoutCancel(ctx)
	ended := x.send(ctx, end, nil)
	// Whatever came of that, the session is the caller's.
	back := x.send(ctx, new(packet).add("set-wait", waited), nil)
	return errors.Join(x.q.explain(err), x.q.explain(ended), x.q.explain(back))
}

// isolated checks, once, that the transaction is READ COMMITTED and that its namespace exists.
func (x *Tx) isolated(ctx context.Context) error {
	if x.good {
		return nil
	}
	var session, name, whole string
	there := 0
	one := func(to any) reader { return func(r *sql.Rows) error { return r.Scan(to) } }
	named := func(r *sql.Rows) error { return r.Scan(&name, &session) }
	// The second statement begins it for InnoDB, which lists it then.
	err := x.send(ctx, new(packet).add("on-timeout").add("begun", x.q.ns).add("session-isolation"), []reader{one(&whole), one(&there), named})
	level, seen := committed, true
	if err == nil && there > 0 && !x.ours {
		level, seen, err = x.level(ctx, session)
	}
	switch {
	case err != nil:
		return x.q.explain(err)
	case there == 0:
		return fmt.Errorf("namespace %q: %w", x.q.ns, ErrNamespace)
	case level != committed && !seen:
		return fmt.Errorf("%w (its session is %s, and the server does not show the transaction's own level: begin it with mysql.BeginTx, or put %s=%%27READ-COMMITTED%%27 into the DSN)",
			ErrIsolation, level, name)
	case level != committed:
		return fmt.Errorf("%w (it is %s)", ErrIsolation, level)
	case whole == "1":
		return x.q.explain(refusal("the server rolls transactions back when they have waited too long; set innodb_rollback_on_timeout=OFF"))
	}
	x.good = true
	return nil
}

const (
	committed = "READ COMMITTED"
	asks      = 4 // how often the server is asked for a level, within half a second or so
)

// level is the transaction's level if the server shows it, else its session's. A session that is at the right level
// is not kept waiting.
func (x *Tx) level(ctx context.Context, session string) (level string, seen bool, err error) {
	session = strings.ReplaceAll(session, "-", " ")
	for n := range asks {
		if n > 0 {
			if err := rest(ctx, 110*time.Millisecond+rand.N(time.Duration(n)*40*time.Millisecond)); err != nil {
				return "", false, err
			}
		}
		text, _, _ := strings.Cut(strings.Replace(statements()["isolation"], "NONCE", lease.NewNonce().String(), 1), ";")
		err := x.query(ctx, text, nil, func(r *sql.Rows) error { return r.Scan(&level) })
		switch code := number(err); {
		case code == 1227 || code == 1142 || err == nil && level == "" && session == committed: // there is no right to ask, or no need
			return session, false, nil
		case err != nil || level != "":
			return level, true, err
		}
	}
	return session, false, nil
}

// send carries a packet out statement by statement: the caller's connection need not take several at once.
func (x *Tx) send(ctx context.Context, p *packet, readers []reader) (err error) {
	if p.long {
		if _, err := x.tx.ExecContext(ctx, statements()["use-index"]); err != nil {
			return err
		}
		defer func() {
			_, undone := x.tx.ExecContext(context.WithoutCancel(ctx), statements()["as-before"])
			err = errors.Join(err, undone)
		}()
	}
	args := p.args
	for text := range strings.SplitSeq(p.text.String(), ";") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n := strings.Count(text, "?")
		some := args[:n]
		args = args[n:]
		asks := (strings.HasPrefix(text, "SELECT") || strings.HasPrefix(text, "SHOW") || strings.HasPrefix(text, "WITH")) && !strings.Contains(text, " INTO @")
		if !asks {
			if _, err := x.tx.ExecContext(ctx, text, some...); err != nil {
				return err
			}
			continue
		}
		var each reader
		if len(readers) > 0 {
			each, readers = readers[0], readers[1:]
		}
		if err := x.query(ctx, text, some, each); err != nil {
			return err
		}
	}
	return nil
}

func (x *Tx) query(ctx context.Context, text string, args []any, each reader) error {
	r, err := x.tx.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer r.Close()
	for r.Next() && each != nil {
		if err := each(r); err != nil {
			return err
		}
	}
	return errors.Join(r.Err(), r.Close())
}

// flush writes what has been decided so far.
func (b *txn) flush() error {
	p := new(packet)
	readers := b.write(p, b.changed())
	if p.text.Len() == 0 {
		return nil
	}
	if err := b.tx.send(b.ctx, p, readers); err != nil {
		return err
	}
	for _, t := range b.tasks {
		row := *t
		t.dirty, t.respelt, t.had, t.row = false, false, t.Key, &row
	}
	b.tries, b.wakes = nil, nil
	clear(b.counts)
	return nil
}

// enqueueTx takes one task in. What it decides on is locked before, and none of it is a limit.
func (a *admission) enqueueTx(i int, s task.Spec) error {
	for {
		var h task.Hash
		if s.Unique != nil {
			h = s.Unique.Hash(s.Kind)
			if err := a.lockHolder(h, &s); err != nil {
				return a.undecided(i, err)
			}
		}
		if err := a.enqueue(i, s); err != nil {
			return err
		}
		if err := a.flush(); err != nil {
			return err
		}
		err := a.insertTx()
		if err == nil {
			return nil
		}
		a.added = nil
		if number(err) != 1062 {
			return a.undecided(i, err)
		}
		// Another transaction has committed the key in between: its task is the holder now.
	}
}

// undecided answers Undecided if err says that the wait for another transaction took too long.
func (a *admission) undecided(i int, err error) error {
	if n := number(err); n != 1205 && n != 1467 {
		return err
	}
	a.answers[i] = admitted{Admission: task.Undecided}
	return nil
}

// lockHolder reads the task that has a key. A waiting holder is share-locked, so that it cannot start before the
// commit (rule Q2); one that is to be changed is locked. A running holder is left alone.
func (a *admission) lockHolder(h task.Hash, s *task.Spec) error {
	for {
		a.txn.reset()
		found, err := a.find("tasks-by-key", a.q.ns, list{h[:]})
		if err != nil || len(found) == 0 {
			return err
		}
		t := found[0]
		name := "share-waiting"
		switch {
		case t.State == task.Running && t.Unique.Until != task.UntilStarted: // nobody replaces it
			return nil
		case t.LostKey(a.now), lifecycle.Replaces(s):
			name = "lock-version"
		case !t.State.Waiting():
			return nil
		}
		same := false
		err = a.ask(func(p *packet) []reader {
			p.add(name, int64(t.ID), t.ver)
			return []reader{func(r *sql.Rows) error { same = true; return r.Scan(new(int64)) }}
		})
		if err != nil || same {
			return err
		}
	}
}

// insertTx inserts what enqueue has decided to.
func (a *admission) insertTx() error {
	for _, t := range a.added {
		p := new(packet).add("insert-tasks")
		p.argument(a.rows([]*taskRow{t}))
		r, err := a.tx.tx.ExecContext(a.ctx, p.text.String(), p.args...)
		if err != nil {
			return err
		}
		id, err := r.LastInsertId()
		if err != nil {
			return err
		}
		t.ID, t.isNew = task.ID(id), false
	}
	a.added = nil
	return nil
}

// subQueuesTx makes missing rows of sub-queues, of this transaction's own, so that nobody waits for them. It asks
// each time: the caller may have rolled back to a savepoint, and the rows with it.
func (a *admission) subQueuesTx(specs []task.Spec) error {
	seen := map[subQueueName]bool{}
	for _, s := range specs {
		if at := (subQueueName{s.Queue, s.Kind}); !seen[at] {
			seen[at] = true
			if err := a.subQueueTx(at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *admission) subQueueTx(at subQueueName) error {
	there := false
	err := a.ask(func(p *packet) []reader {
		p.add("subqueue-there", a.q.ns, []byte(at.queue), []byte(at.kind))
		return []reader{func(r *sql.Rows) error { there = true; return r.Scan(new(int64)) }}
	})
	if err == nil && !there {
		err = a.send(new(packet).add("add-subqueue", a.q.ns, []byte(at.queue), []byte(at.kind), rand.Int64()), nil)
	}
	return err
}

var (
	_ driver.Inserter = (*Tx)(nil)
	_ driver.Finisher = (*Tx)(nil)
)
