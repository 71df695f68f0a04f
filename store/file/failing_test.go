//go:build linux

package file

import (
	"context"
	"crypto/sha256"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
	"github.com/dibs-run/dibs/tick"
)

var errInjected = errors.New("injected")

// A faulty driver is SQLite's, of which one call fails: the one of that number, among those that begin, carry
// out and end transactions. SQLite itself knows nothing of it, and rolls nothing back.
type faulty struct {
	sqldriver.Driver
	mu    sync.Mutex
	left  int // calls until the one that fails; 0: none does
	fired bool
}

// theFaulty is registered once: a driver cannot be taken away.
var theFaulty = sync.OnceValue(func() *faulty {
	p, _ := sql.Open("sqlite", "")
	f := &faulty{Driver: p.Driver()}
	_ = p.Close()
	sql.Register("faulty sqlite", f)
	return f
})

// next has a call fail; 0: none.
func (f *faulty) next(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.fired = n, false
}

func (f *faulty) call(text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 || strings.HasPrefix(strings.ToUpper(text), "PRAGMA") { // what is shortened after a commit is no part of the step
		return nil
	}
	if f.left--; f.left > 0 {
		return nil
	}
	f.fired = true
	return errInjected
}

func (f *faulty) Open(name string) (sqldriver.Conn, error) {
	c, err := f.Driver.Open(name)
	return &faultyConn{c, f}, err
}

type faultyConn struct {
	sqldriver.Conn
	f *faulty
}

func (c *faultyConn) PrepareContext(ctx context.Context, text string) (sqldriver.Stmt, error) {
	s, err := c.Conn.(sqldriver.ConnPrepareContext).PrepareContext(ctx, text)
	return &faultyStmt{s, c.f, text}, err
}

func (c *faultyConn) ExecContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if text == "BEGIN" { // by which a transaction of the caller's is asked whether it goes on: it is meant to fail
		return c.Conn.(sqldriver.ExecerContext).ExecContext(ctx, text, args)
	}
	if err := c.f.call(text); err != nil {
		return nil, err
	}
	return c.Conn.(sqldriver.ExecerContext).ExecContext(ctx, text, args)
}

func (c *faultyConn) QueryContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if err := c.f.call(text); err != nil {
		return nil, err
	}
	return c.Conn.(sqldriver.QueryerContext).QueryContext(ctx, text, args)
}

func (c *faultyConn) BeginTx(ctx context.Context, o sqldriver.TxOptions) (sqldriver.Tx, error) {
	if err := c.f.call("BEGIN"); err != nil {
		return nil, err
	}
	tx, err := c.Conn.(sqldriver.ConnBeginTx).BeginTx(ctx, o)
	return faultyTx{tx, c.f}, err
}

type faultyTx struct {
	sqldriver.Tx
	f *faulty
}

// Commit that fails, as on a full disk, leaves the transaction to be rolled back.
func (t faultyTx) Commit() error {
	if err := t.f.call("COMMIT"); err != nil {
		_ = t.Rollback()
		return err
	}
	return t.Tx.Commit()
}

type faultyStmt struct {
	sqldriver.Stmt
	f    *faulty
	text string
}

func (s *faultyStmt) ExecContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	if err := s.f.call(s.text); err != nil {
		return nil, err
	}
	return s.Stmt.(sqldriver.StmtExecContext).ExecContext(ctx, args)
}

func (s *faultyStmt) QueryContext(ctx context.Context, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	if err := s.f.call(s.text); err != nil {
		return nil, err
	}
	return s.Stmt.(sqldriver.StmtQueryContext).QueryContext(ctx, args)
}

// contents are a digest of all that the database says.
func contents(t testing.TB, p *sql.DB) string {
	t.Helper()
	h := sha256.New()
	names, err := query(t.Context(), p, func(row scanner) (s string, err error) { return s, row.Scan(&s) },
		"SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		rows, err := p.QueryContext(t.Context(), "SELECT * FROM "+name)
		if err != nil {
			t.Fatal(err)
		}
		columns, _ := rows.Columns()
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(h, name, values)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// A spree does anything with a few tasks, ticks, jobs and what is told of them.
type spree struct {
	testing.TB
	s     *store.Store
	pool  *sql.DB // the caller's
	rng   *rand.Rand
	w     lease.Ref
	runs  []driver.Fetched
	begin time.Time
	n     int
}

// join does a step in a transaction of the caller's, who commits it whatever becomes of the step.
func (r *spree) join(do func(*Tx) error) error {
	tx, err := r.pool.BeginTx(r.Context(), nil)
	if err != nil {
		return err
	}
	err = do(QueueTx(tx, r.s))
	return errors.Join(err, tx.Commit())
}

func (r *spree) pick(n int) int { return r.rng.IntN(n) }

func (r *spree) job() string { return fmt.Sprintf("a/j%d", r.pick(3)) }

func (r *spree) at() time.Time { return r.begin.Add(time.Duration(r.pick(40)-38) * time.Minute) }

// next is something to do, which may be tried again after it failed.
func (r *spree) next() (what string, try func() error) {
	ctx, q, k, h := r.Context(), r.s.Queue, r.s.Ticks, r.s.History
	switch n := r.pick(22); n {
	case 0, 1, 2, 3:
		specs := make([]task.Spec, 1+r.pick(5))
		for i := range specs {
			specs[i] = r.spec()
			if err := specs[i].Check(); err != nil {
				r.Fatal(err)
			}
		}
		if r.pick(3) == 0 {
			return "enqueue in a transaction", func() error {
				return r.join(func(x *Tx) error { _, err := x.Enqueue(ctx, specs); return err })
			}
		}
		return "enqueue", func() error { _, err := q.Enqueue(ctx, specs); return err }
	case 4, 5, 6:
		most := 1 + r.pick(6)
		return "fetch", func() error {
			f, err := q.Fetch(ctx, driver.FetchRequest{Worker: r.w, Queues: []string{"a", "b"}, Max: most, Suspects: true, Crashers: true})
			r.runs = append(r.runs, f.Tasks...)
			return err
		}
	case 7, 8, 9:
		if len(r.runs) == 0 {
			return "mine", func() error { _, err := q.Running(ctx, r.w, false); return err }
		}
		var ends []driver.Completion
		for _, x := range r.runs[:1+r.pick(min(3, len(r.runs)))] {
			ends = append(ends, driver.Completion{Ref: x.Ref, Verdict: driver.Verdict(1 + r.pick(7)), Outcome: "x", Delay: time.Duration(r.pick(2)) * time.Millisecond})
		}
		r.runs = r.runs[len(ends):]
		if r.pick(2) == 0 {
			return "start", func() error { _, err := q.Start(ctx, r.w, []driver.Ref{ends[0].Ref}); return err }
		}
		if r.pick(3) == 0 {
			return "finish in a transaction", func() error {
				return r.join(func(x *Tx) error { _, err := x.Finish(ctx, r.w, ends); return err })
			}
		}
		return "finish", func() error { _, err := q.Finish(ctx, r.w, ends); return err }
	case 10:
		return "maintain", func() error {
			_, err := q.Maintain(ctx, driver.MaintainRequest{Keep: map[task.State]time.Duration{task.Succeeded: 5 * time.Millisecond, task.Canceled: 0}})
			return err
		}
	case 11:
		r.runs = nil
		return "leave", func() error { return q.Deregister(ctx, r.w) }
	case 12:
		key, slots := (&task.Limit{Key: fmt.Sprint(r.pick(3)), Shared: true}).Hash(""), 1+r.pick(6)
		return "set a limit", func() error { _, err := r.s.Tasks.SetLimit(ctx, key, slots, "t"); return err }
	case 13, 14:
		acts := []driver.Operation{driver.OpRetry, driver.OpCancel, driver.OpPromote, driver.OpDiscard, driver.OpMove, driver.OpEdit, driver.OpDelete}
		low := -1
		a := driver.OpRequest{Operation: acts[r.pick(len(acts))], Queue: "b", Edit: driver.Edit{Priority: &low}}
		for range 5 {
			a.IDs = append(a.IDs, task.ID(1+r.pick(max(3*r.n, 20))))
		}
		return string(a.Operation), func() error { _, err := r.s.Tasks.Operate(ctx, a); return err }
	case 15:
		return "pause and rates", func() error {
			return q.Declare(ctx, map[string]task.Rate{"k": {Count: 100, Per: time.Second}, "l": {}})
		}
	case 16:
		reqs := []tick.JobRequest{{Name: r.job(), Definition: fmt.Sprint(r.pick(3)), Since: r.begin.Add(-time.Hour)}, {Name: r.job(), Remove: r.pick(3) == 0}}
		return "register", func() error { _, err := k.SetJobs(ctx, reqs); return err }
	case 17:
		reqs := make([]tick.ClaimRequest, 3)
		for i := range reqs {
			reqs[i] = tick.ClaimRequest{Job: r.job(), At: r.at(), Lease: r.w, Ahead: time.Hour, Fill: true}
		}
		return "claim", func() error { _, err := k.Claim(ctx, reqs); return err }
	case 18, 19:
		return r.ofTick()
	case 20:
		all, err := k.Jobs(ctx, tick.JobQuery{})
		if err != nil || len(all) == 0 {
			return "nothing", func() error { return err }
		}
		j := all[r.pick(len(all))]
		s := tick.SettleRequest{Job: j.Name, From: j.Mark, To: j.Mark.Add(10 * time.Minute)}
		for i := range 3 {
			at := j.Mark.Add(time.Duration(3*i+1) * time.Minute)
			s.Rows = append(s.Rows, tick.Tick{At: at, Through: at.Add(time.Minute), Count: 2, Outcome: run.Missed})
		}
		return "settle", func() error { _, err := k.Settle(ctx, s); return err }
	}
	if r.pick(2) == 0 {
		return "prune", func() error { _, _, err := h.Prune(ctx, r.begin.Add(-10*time.Minute)); return err }
	}
	at := r.at()
	return "append", func() error {
		return h.Append(ctx, []history.Event{{Kind: "x", At: at, Job: "a/j1"}, {Kind: "y", At: at, ID: "z"}, {Kind: "y", At: at}})
	}
}

// ofTick starts, closes, takes over or splits a tick that is there.
func (r *spree) ofTick() (what string, try func() error) {
	ctx, k := r.Context(), r.s.Ticks
	all, err := r.s.History.Ticks(ctx, history.Query{})
	if err != nil || len(all) == 0 {
		return "nothing", func() error { return err }
	}
	t := all[r.pick(len(all))]
	rec := run.Record{ID: run.NewID(), Job: t.Job, Tick: t.At, Owner: t.Lease.Owner, Token: t.Lease.Token}
	switch {
	case !t.Through.IsZero():
		parts := []tick.Tick{{At: t.At, Count: 1}, {At: t.Through, Count: 1}}
		return "split", func() error { _, err := k.Split(ctx, tick.SplitRequest{Row: t, Parts: parts}); return err }
	case t.State == tick.Claimed:
		return "start a run", func() error {
			_, err := k.Start(ctx, []tick.StartRequest{{Run: rec, Claim: t.Lease, Lease: r.w}})
			return err
		}
	case t.State == tick.Started:
		rec.ID, rec.Outcome = t.RunID, []run.Outcome{run.Failed, run.Lost}[r.pick(2)]
		return "close", func() error { _, err := k.Close(ctx, []tick.CloseRequest{{Run: rec, Claim: t.Lease}}); return err }
	}
	return "take", func() error {
		_, err := k.Take(ctx, tick.TakeRequest{Job: t.Job, At: t.At, From: t.Lease, Lease: r.w, Rerun: !t.Fillable(), Fill: t.Fillable()})
		return err
	}
}

func (r *spree) spec() task.Spec {
	s := task.Spec{Queue: []string{"a", "b"}[r.pick(2)], Kind: []string{"k", "l"}[r.pick(2)], Priority: r.pick(3) - 1}
	s.Delay = time.Duration(r.pick(3)/2) * 2 * time.Millisecond
	if r.pick(5) == 0 {
		s.ExpiresAt = time.Now().Add(time.Duration(1+r.pick(30)) * time.Millisecond).Add(s.Delay)
	}
	if r.pick(2) == 0 {
		s.Limit = &task.Limit{Key: fmt.Sprint(r.pick(3)), Shared: true, Max: 1 + r.pick(3),
			OnContention: []task.Contention{task.Wait, task.Wait, task.Discard, task.Displace}[r.pick(4)]}
	}
	switch r.pick(5) {
	case 0:
		s.Unique = &task.Unique{Key: fmt.Sprint(r.pick(10)), Window: time.Duration(r.pick(2)) * 2 * time.Millisecond}
	case 1:
		s.Unique = &task.Unique{Key: fmt.Sprint(r.pick(10)), Until: task.UntilStarted, Again: []task.Again{task.Refuse, task.Replace}[r.pick(2)]}
	}
	return s
}

// A step of several statements fails as a whole: whichever of them fails, the database says what it said
// before, and the step what went wrong.
// Holds: promise 18.
func TestStepsThatFailHaveDoneNothing(t *testing.T) {
	testsize.Counts(t)
	f := theFaulty()
	driverName = "faulty sqlite"
	t.Cleanup(func() { driverName = "sqlite" })
	config := configAt(t.TempDir(), true)
	config.TTL = time.Hour
	s, err := OpenConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &spree{TB: t, s: s, rng: rand.New(rand.NewPCG(seed, 1)), begin: time.Now().Truncate(time.Minute)}
	a, err := tryAcquire(s, requestFor("w", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	r.w = a.Record.Ref()
	if err := s.Queue.Register(t.Context(), driver.Process{Lease: r.w}); err != nil {
		t.Fatal(err)
	}
	beside, err := sql.Open("sqlite", inside(s).address("_pragma=query_only(1)"))
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	if r.pool, err = sql.Open(driverName, inside(s).address("_txlock=immediate&_pragma=busy_timeout(5000)")); err != nil {
		t.Fatal(err)
	}
	defer r.pool.Close()
	failed, seen := 0, map[string]int{}
	for r.n = range testsize.Of(80, 1500) {
		what, try := r.next()
		before := contents(t, beside)
		for call := 1; ; call++ {
			f.next(call)
			err := try()
			fired := f.fired
			f.next(0)
			if !fired {
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				break
			}
			failed++
			seen[what] = max(seen[what], call)
			if err == nil {
				t.Fatalf("%s: call %d failed, and nobody was told", what, call)
			}
			if contents(t, beside) != before {
				t.Fatalf("%s: call %d failed, and something was done: %v", what, call, err)
			}
		}
	}
	t.Logf("%d calls failed; the most of each: %v", failed, seen)
	if failed < 300 {
		t.Errorf("%d calls failed: too few to tell", failed)
	}
}
