package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// patience is more than any call takes. One that takes longer waits for itself: steps that wait for each other's
// connections do so for ever, and fail when the server has ended their transactions, which were silent.
const patience = time.Minute

// small is a store on a pool of n connections, with a worker.
func small(t *testing.T, n int) (*store.Store, lease.Ref) {
	t.Helper()
	return smallAt(t, queueConfig(t, testserver.MariaDB(t)), n, new(sockets))
}

// smallAt is small, with a namespace of one's own, and connections that are looked at.
func smallAt(t *testing.T, c store.Config, n int, on *sockets) (*store.Store, lease.Ref) {
	t.Helper()
	db := raw(t, c.URL.String(), on.watch)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	s, err := New(t.Context(), db, c)
	if err != nil {
		t.Fatal(err)
	}
	return s, joined(t, s)
}

// tally is a counter of the one connection of a small pool.
func tally(t testing.TB, db *sql.DB, name string) (n int64) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE '"+name+"'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// meanwhile renews a worker's lease while calls run, n at once, and expects all of them to be answered.
func meanwhile(t *testing.T, s *store.Store, w lease.Ref, n int, call func(ctx context.Context, i int) error) {
	t.Helper()
	ctx := within(t, patience)
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			if err := call(ctx, i); err != nil {
				t.Error(err)
			}
		})
	}
	over := make(chan struct{})
	go func() { calls.Wait(); close(over) }()
	for renewals := 0; ; renewals++ {
		select {
		case <-over:
			t.Logf("%d renewals", renewals)
			return
		default:
		}
		r, err := s.Leases.Renew(ctx, []lease.RenewRequest{{Ref: w, TTL: time.Minute}})
		if err != nil || r.Answers[0].Status != lease.OK {
			t.Errorf("a renewal while the queue was busy: %+v, %v", r, err)
			calls.Wait()
			return
		}
	}
}

// No step waits for a second connection while it has one: as many steps as there are connections would wait for each
// other, and the leases for them.
func TestStepsTakeOneConnectionEach(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{1, 2, 4, 0} {
		t.Run(fmt.Sprint(conns, " connections"), func(t *testing.T) {
			s, w := small(t, conns)
			t.Run("enqueue", func(t *testing.T) {
				meanwhile(t, s, w, 12, func(ctx context.Context, i int) error {
					got, err := s.Queue.Enqueue(ctx, []task.Spec{spec(uniqueKey(fmt.Sprint("u", i)), limitOf(fmt.Sprint("new", i), 1))})
					if err == nil && got[0].Answer != task.New {
						err = fmt.Errorf("enqueue %d: %+v", i, got)
					}
					return err
				})
			})
			t.Run("fetch", func(t *testing.T) {
				// Limits that nobody has declared outside of a transaction are made by the fetch, which then
				// begins again: what has become due in between is made available by other steps.
				db := s.Queue.(queues).db
				var due []task.Spec
				for i := range 60 {
					due = append(due, spec(limitOf(fmt.Sprint("due", i%20), 1), func(x *task.Spec) { x.Delay = time.Duration(i) * 4 * time.Millisecond }))
				}
				enqueue(t, s.Queue, due...)
				exec(t, db, "DELETE FROM dibs_task_limits WHERE ns = ?", s.Queue.(queues).ns)
				meanwhile(t, s, w, 6, func(ctx context.Context, i int) error {
					_, err := s.Queue.Fetch(ctx, driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: 5})
					return err
				})
			})
		})
	}
}

// However many steps wait for a limit that somebody has, the leases find a connection at once.
func TestRenewalsDoNotWaitForLimits(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{3, 10, 0} {
		t.Run(fmt.Sprint(conns, " connections"), func(t *testing.T) {
			s, w := small(t, conns)
			q := s.Queue.(queues)
			enqueue(t, s.Queue, spec(limitOf("a", 1)))
			tx, err := raw(t, testserver.MariaDB(t), nil).BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.Exec("SELECT slots FROM dibs_task_limits WHERE ns = ? FOR UPDATE", q.ns); err != nil {
				t.Fatal(err)
			}
			var waiting sync.WaitGroup
			for range 20 {
				waiting.Go(func() {
					if _, err := s.Queue.Enqueue(t.Context(), []task.Spec{spec(limitOf("a", 1))}); err != nil {
						t.Error(err)
					}
				})
			}
			eventually(t, "the queue has all the connections that it takes", func() bool {
				return len(q.room) == cap(q.room) && q.db.Stats().InUse >= max(1, cap(q.room))
			})
			waited := q.db.Stats().WaitCount
			r, err := s.Leases.Renew(within(t, patience), []lease.RenewRequest{{Ref: w, TTL: time.Minute}})
			if err != nil || r.Answers[0].Status != lease.OK {
				t.Errorf("a renewal: %+v, %v", r, err)
			}
			if n := q.db.Stats().WaitCount - waited; n > 0 {
				t.Errorf("%d calls waited for a connection", n)
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
			waiting.Wait()
		})
	}
}

// What would take a second connection fails at once, in whatever test meets it first.
func TestASecondConnectionIsAFault(t *testing.T) {
	t.Parallel()
	s, _ := small(t, 0)
	q := s.Queue.(queues)
	enqueue(t, s.Queue, spec(limitOf("a", 1)))
	for what, more := range map[string]func(ctx context.Context) error{
		"a packet": func(ctx context.Context) error { return q.run(ctx, new(packet).add("commit")) },
		"a step":   func(ctx context.Context) error { return q.step(ctx, func(*txn) error { return nil }) },
	} {
		err := q.step(t.Context(), func(b *txn) error {
			if err := more(b.ctx); err != nil {
				t.Errorf("%s of a step that has no connection: %v", what, err)
			}
			if err := b.lock([]wake{limitNamed("a")}, false, nothing); err != nil {
				return err
			}
			return more(b.ctx)
		})
		if !errors.Is(err, errTwice) {
			t.Errorf("%s of a step that has a connection: %v", what, err)
		}
	}
}

// A pool of the caller's is handed back as it was.
func TestThePoolIsLeftAsItWas(t *testing.T) {
	t.Parallel()
	s, w := small(t, 1)
	db := s.Queue.(queues).db
	exec(t, db, "SET SESSION group_concat_max_len = 4321, innodb_lock_wait_timeout = 43, wait_timeout = 4321")
	settings := func(after string) {
		t.Helper()
		if n := count(t, db, "SELECT @@group_concat_max_len = 4321 AND @@innodb_lock_wait_timeout = 43 AND @@wait_timeout = 4321"); n != 1 {
			t.Errorf("the connection's settings are others after %s", after)
		}
	}
	enqueue(t, s.Queue, spec(), spec(limitOf("new", 1), uniqueKey("u")), spec(func(x *task.Spec) { x.Delay = time.Millisecond }))
	settings("an enqueue")
	f := fetchSome(t, s, w, 10)
	settings("a fetch")
	complete(t, s.Queue, w, f.Tasks...)
	settings("a completion")
	if _, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{}); err != nil {
		t.Fatal(err)
	}
	settings("a Maintain")
	if ok, err := s.Tasks.SetLimit(t.Context(), limitNamed("none").hash, 2, ""); ok || err != nil {
		t.Errorf("SetLimit of what is not there: %v, %v", ok, err)
	}
	settings("a step that was given up")
}

// A fetch that meets limits without a row begins again once, however many they are.
func TestNewLimitsAreMadeAtOnce(t *testing.T) {
	t.Parallel()
	s, w := small(t, 1)
	q := s.Queue.(queues)
	var many []task.Spec
	for i := range 10 {
		many = append(many, spec(limitOf(fmt.Sprint("l", i), 1)))
	}
	enqueue(t, s.Queue, many...)
	exec(t, q.db, "DELETE FROM dibs_task_limits WHERE ns = ?", q.ns)
	before := tally(t, q.db, "Com_rollback")
	if f := fetchSome(t, s, w, 10); len(f.Tasks) != 10 {
		t.Errorf("%d were fetched", len(f.Tasks))
	}
	if n := tally(t, q.db, "Com_rollback") - before; n > 3 {
		t.Errorf("the fetch ended %d transactions", n)
	}
}

// To list a namespace's tasks, nobody reads those of others.
func TestAListReadsItsNamespaceOnly(t *testing.T) {
	t.Parallel()
	s, _ := small(t, 1)
	others, _ := small(t, 1)
	enqueue(t, s.Queue, spec())
	for range 2 {
		enqueue(t, others.Queue, slices.Repeat([]task.Spec{spec()}, 1000)...)
	}
	enqueue(t, s.Queue, spec())
	db := s.Queue.(queues).db
	before := tally(t, db, "Handler_read_next")
	if all, err := s.Tasks.Tasks(t.Context(), driver.Filter{Tag: "none"}); err != nil || len(all) != 0 {
		t.Errorf("listed: %+v, %v", all, err)
	}
	if all, err := s.Tasks.Tasks(t.Context(), driver.Filter{}); err != nil || len(all) != 2 {
		t.Errorf("listed: %+v, %v", all, err)
	}
	if n := tally(t, db, "Handler_read_next") - before; n > 10 {
		t.Errorf("%d rows were read to list 2 tasks", n)
	}
}
