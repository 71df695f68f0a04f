package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// joined is a worker with a live lease.
func joined(t testing.TB, s *store.Store) lease.Ref {
	t.Helper()
	w := grant(t, s, string(lease.OnceKey())).Ref()
	if err := s.Queue.Register(t.Context(), driver.Process{Lease: w, Host: "web-1", Queues: []string{"q"}, Slots: 10}); err != nil {
		t.Fatal(err)
	}
	beat(t, s, w)
	return w
}

// beat renews a lease until the test ends, or it is lost: a step beside very many may take longer than a TTL.
func beat(t testing.TB, s *store.Store, w lease.Ref) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(3 * time.Second):
			}
			r, err := s.Leases.Renew(ctx, []lease.RenewRequest{{Ref: w, TTL: 15 * time.Second}})
			if err == nil && r.Answers[0].Status == lease.Gone {
				return
			}
		}
	}()
}

func spec(change ...func(*task.Spec)) task.Spec {
	s := task.Spec{Queue: "q", Kind: "k", Args: []byte("null")}
	for _, f := range change {
		f(&s)
	}
	return s
}

func uniqueKey(key string) func(*task.Spec) {
	return func(s *task.Spec) { s.Unique = &task.Unique{Key: key} }
}

func limitOf(key string, n int) func(*task.Spec) {
	return func(s *task.Spec) { s.Limit = &task.Limit{Key: key, Max: n} }
}

func enqueue(t testing.TB, in driver.Inserter, specs ...task.Spec) []task.Enqueued {
	t.Helper()
	got, err := in.Enqueue(t.Context(), specs)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func fetchSome(t testing.TB, s *store.Store, w lease.Ref, n int) driver.Fetch {
	t.Helper()
	f, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"q"}, Max: n, Suspects: true, Crashers: true})
	if err != nil || f.Gone || f.Late {
		t.Fatalf("fetch: %+v, %v", f, err)
	}
	return f
}

func complete(t testing.TB, s driver.Finisher, w lease.Ref, tasks ...driver.Fetched) {
	t.Helper()
	st, err := s.Finish(t.Context(), w, column(tasks, func(f driver.Fetched) driver.Completion {
		return driver.Completion{Ref: f.Ref, Verdict: driver.Success}
	}))
	for i := range st {
		if st[i] != driver.OK {
			t.Errorf("finish of task %d: %v", tasks[i].ID, st[i])
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What is enqueued by another process is heard of, in the round trips that it takes and not at the next poll.
func TestAnIdleWorkerIsTold(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	s, other := open(t, c), open(t, c)
	w := joined(t, s)
	signs, err := s.Queue.Watch(t.Context(), []string{"q"})
	if err != nil {
		t.Fatal(err)
	}
	until, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sign := func() {
		t.Helper()
		select {
		case <-signs:
		case <-until.Done():
			t.Fatal("nobody told")
		}
	}
	sign() // it listens
	for range 3 {
		// A fetch that finds nothing arms the queue, and hints to look once more; that one finds it armed.
		for armed := false; !armed; {
			if n := len(fetchSome(t, s, w, 10).Tasks); n != 0 {
				t.Fatalf("%d tasks", n)
			}
			if err := superuser(t, c.URL.String()).QueryRow(t.Context(), "SELECT count(*) > 0 FROM dibs.queue_watched WHERE queue = $1 AND watched > 0",
				number(c.Namespace, false, "q")).Scan(&armed); err != nil {
				t.Fatal(err)
			}
		}
		sign()
		fetchSome(t, s, w, 10)
		enqueue(t, other.Queue, spec(), spec())
		sign()
		complete(t, s.Queue, w, fetchSome(t, s, w, 2).Tasks...)
	}
}

// Nobody is told of what nobody waits for: NOTIFY makes commits wait for each other.
func TestABusyQueueIsNotTold(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	w := joined(t, s)
	for range 20 {
		enqueue(t, s.Queue, spec(), spec())
		complete(t, s.Queue, w, fetchSome(t, s, w, 1).Tasks...)
	}
	var rows int
	if err := superuser(t, c.URL.String()).QueryRow(t.Context(), "SELECT count(*) FROM dibs.queue_watched").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d queues are watched, %v", rows, err)
	}
}

// A completion that waits for whoever has its task ends what it finds then: a task that was taken from its
// worker meanwhile is left alone, and one that the worker has anew holds nobody up.
func TestACompletionEndsWhatItHasOnceItHasWaited(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	w := joined(t, s)
	sql, watch := superuser(t, c.URL.String()), superuser(t, c.URL.String())
	for name, taken := range map[string]bool{"taken meanwhile": true, "had anew": false} {
		t.Run(name, func(t *testing.T) {
			for i := range 3 {
				enqueue(t, s.Queue, spec(func(s *task.Spec) { s.Unique = &task.Unique{Key: fmt.Sprint(name, i), Window: time.Hour} }))
			}
			f := fetchSome(t, s, w, 3).Tasks
			again := "UPDATE dibs.tasks SET token = token + 1 WHERE id = $1"
			if taken {
				again = "UPDATE dibs.tasks SET token = token + 1, state = 2, worker = NULL WHERE id = $1"
			} else if _, err := sql.Exec(t.Context(), again, int64(f[1].ID)); err != nil {
				t.Fatal(err)
			}
			tx, err := sql.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err = tx.Exec(t.Context(), again, int64(f[1].ID)); err != nil {
				t.Fatal(err)
			}
			type answer struct {
				st  []driver.Status
				err error
			}
			done := make(chan answer, 1)
			go func() {
				st, err := s.Queue.Finish(context.Background(), w, column(f, func(f driver.Fetched) driver.Completion {
					return driver.Completion{Ref: f.Ref, Verdict: driver.Success}
				}))
				done <- answer{st, err}
			}()
			if taken {
				for len(done) == 0 && one[int](t, watch, "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
					time.Sleep(time.Millisecond)
				}
				if err = tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			a := <-done
			if a.err == nil && a.st[1] == driver.Withheld { // a slow machine: it is asked again
				var st []driver.Status
				st, a.err = s.Queue.Finish(t.Context(), w, []driver.Completion{{Ref: f[1].Ref, Verdict: driver.Success}})
				a.st[1] = st[0]
			}
			if want := []driver.Status{driver.OK, driver.Gone, driver.OK}; a.err != nil || !slices.Equal(a.st, want) {
				t.Errorf("%v, %v, want %v", a.st, a.err, want)
			}
			_ = tx.Rollback(context.Background())
			if st := one[int](t, watch, "SELECT state::int FROM dibs.tasks WHERE id = "+fmt.Sprint(f[1].ID)); st == 10 {
				t.Error("what is not the worker's any more has succeeded")
			}
		})
	}
}

// A process whose queues could not be armed once arms them later, and those of a call that came meanwhile.
func TestArmingGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	w := joined(t, s)
	if _, err := s.Queue.Watch(t.Context(), []string{"q"}); err != nil {
		t.Fatal(err)
	}
	sql := superuser(t, c.URL.String())
	tx, err := sql.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "LOCK TABLE dibs.queue_watched IN EXCLUSIVE MODE")
	}
	if err != nil {
		t.Fatal(err)
	}
	l := s.Queue.(tasks).watch
	arming := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.arming
	}
	fetchSome(t, s, w, 1)
	eventually(t, "it is under way", arming)
	eventually(t, "it has failed", func() bool { return !arming() }) // by lock_timeout
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "they are armed", func() bool {
		fetchSome(t, s, w, 1)
		return one[bool](t, sql, "SELECT count(*) > 0 FROM dibs.queue_watched")
	})
}

// eventually waits for something that happens without being told.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to be: %s", what)
		}
	}
}

// copies makes n more tasks like one.
func copies(t *testing.T, sql *pgx.Conn, id task.ID, n int) {
	t.Helper()
	if _, err := sql.Exec(t.Context(), `INSERT INTO dibs.tasks SELECT (jsonb_populate_record(t, jsonb_build_object('id', x.n, 'sort_key', t.sort_key + x.i))).*
		FROM (SELECT i, nextval('dibs.task_ids') AS n FROM generate_series(1, $2::int) i) x, dibs.tasks t WHERE t.id = $1`, int64(id), n); err != nil {
		t.Fatal(err)
	}
}

// A small queue is listed whole beside one of which more tasks run than a look reads, and a large one is counted
// whole.
// Holds: promise 26.
func TestListsAndCountsBesideManyAreWhole(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s, sql := open(t, c), superuser(t, c.URL.String())
	w := joined(t, s)
	running := fetchSome(t, s, w, len(enqueue(t, s.Queue, spec()))).Tasks[0].ID
	copies(t, sql, running, looked/4+100)
	small := enqueue(t, s.Queue, spec(func(s *task.Spec) { s.Queue = "small" }))[0].ID
	if _, err := s.Queue.Fetch(t.Context(), driver.FetchRequest{Worker: w, Queues: []string{"small"}, Max: 1}); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Tasks.Tasks(t.Context(), driver.Filter{Queue: "small"}); err != nil || len(all) != 1 || all[0].ID != small {
		t.Errorf("the small queue: %+v, %v", all, err)
	}
	copies(t, sql, enqueue(t, s.Queue, spec(func(s *task.Spec) { s.Queue = "large" }))[0].ID, 2*looked+100)
	all, err := s.Tasks.Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		if q.Queue == "large" && q.Depth[task.Available] != 2*looked+101 {
			t.Errorf("the large queue: %+v", q)
		}
	}
	for _, newest := range []bool{false, true} {
		var ids []task.ID
		for f := (driver.Filter{States: []task.State{task.Available}, Newest: newest, Max: 1000}); len(ids)%1000 == 0; {
			page, err := s.Tasks.Tasks(t.Context(), f)
			if err != nil || len(page) == 0 {
				t.Fatalf("after %d of the large queue: %v", len(ids), err)
			}
			for _, x := range page {
				ids, f = append(ids, x.ID), f.Past(x.ID)
			}
		}
		if slices.Reverse(ids); !newest {
			slices.Reverse(ids)
		}
		if len(ids) != 2*looked+101 || !slices.IsSorted(ids) {
			t.Errorf("newest first: %v: %d of the large queue", newest, len(ids))
		}
	}
}

// Of more queues than a call of Maintain looks at, all have their turn.
// Holds: promise 26.
func TestAllQueuesAreMaintained(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	specs := make([]task.Spec, 2*swept+100)
	for i := range specs {
		specs[i] = spec(func(s *task.Spec) { s.Queue, s.ExpiresAt = fmt.Sprint("q", i), time.Now().Add(time.Hour) })
	}
	enqueue(t, s.Queue, specs...)
	if _, err := superuser(t, c.URL.String()).Exec(t.Context(), "UPDATE dibs.tasks SET expires = 1"); err != nil {
		t.Fatal(err)
	}
	n := 0
	for range 6 {
		m, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{Keep: queue.Retention})
		if err != nil {
			t.Fatal(err)
		}
		n += m.Expired
	}
	if n != len(specs) {
		t.Errorf("%d of %d have expired", n, len(specs))
	}
}

// Counters of a minute are summed up, however many of other names there are.
func TestCountersAreSummedUp(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s, sql := open(t, c), superuser(t, c.URL.String())
	const names = looked / 2
	if _, err := sql.Exec(t.Context(), `INSERT INTO dibs.queue_counts SELECT $1, (dibs.now_us() / 60000000 - m) * 60000000, 'q' || i, 'k', 'enqueued', 1
		FROM generate_series(3, 5) m, generate_series(1, $2::int) i, generate_series(1, CASE i % 100 WHEN 0 THEN 3 ELSE 1 END)`, c.Namespace, names); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no name has two rows of one minute", func() bool {
		if _, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{Keep: queue.Retention}); err != nil {
			t.Fatal(err)
		}
		return one[bool](t, sql, "SELECT count(*) = count(DISTINCT (minute, queue)) FROM dibs.queue_counts")
	})
	if n := one[int64](t, sql, "SELECT sum(n)::bigint FROM dibs.queue_counts"); n != 3*(names+2*names/100) {
		t.Errorf("they count %d", n)
	}
}
