package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// counted is a store of which the rows that each step reads and changes are counted, by the server itself.
type counted struct {
	*store.Store
	t     *testing.T
	sql   *pgx.Conn
	pools []*pgxpool.Pool
}

// countedStore is one whose sessions tell their counts when they are asked to, and those of others beside it.
func countedStore(t *testing.T, c store.Config, beside ...*counted) *counted {
	t.Helper()
	cfg, err := poolConfig(c, new(behind))
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 3
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	all := &counted{s, t, superuser(t, c.URL.String()), []*pgxpool.Pool{pool}}
	for _, b := range beside {
		all.pools = append(all.pools, b.pools...)
	}
	if one[int](t, all.sql, "SELECT count(*)::int FROM pg_proc WHERE proname = 'pg_stat_force_next_flush'") == 0 {
		t.Skip("NOT COVERED: the server cannot be asked to tell what it has counted; version 15 can")
	}
	return all
}

// rows is how many rows of the queue's tables were read and changed so far. Dead entries of an index count as read.
func (s *counted) rows() (n int64) {
	s.t.Helper()
	const sum = `SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del), 0)
		+ coalesce((SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'dibs' AND relname LIKE ANY (ARRAY['tasks%', 'queue%'])), 0)
		FROM pg_stat_user_tables WHERE schemaname = 'dibs' AND relname LIKE ANY (ARRAY['tasks%', 'queue%'])`
	return s.told(sum)
}

// told is a sum of what the server has counted, once all sessions have told it.
func (s *counted) told(sum string) (n int64) {
	s.t.Helper()
	for _, p := range s.pools {
		for _, c := range p.AcquireAllIdle(s.t.Context()) {
			if _, err := c.Exec(s.t.Context(), "SELECT pg_stat_force_next_flush()"); err != nil {
				s.t.Fatal(err)
			}
			c.Release()
		}
	}
	if err := s.sql.QueryRow(s.t.Context(), sum).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// took fails where f takes more rows than most.
func (s *counted) took(what string, most int64, f func()) {
	s.t.Helper()
	before, began := s.rows(), time.Now()
	f()
	took := time.Since(began)
	n := s.rows() - before
	s.t.Logf("%s: %d rows, %s", what, n, took)
	if n > most {
		s.t.Errorf("%s took %d rows, more than %d", what, n, most)
	}
}

// fill takes tasks in, quickly.
func fill(t testing.TB, s *store.Store, n int, of func(i int) task.Spec) {
	t.Helper()
	for i := 0; i < n; i += 1000 {
		specs := make([]task.Spec, min(1000, n-i))
		for j := range specs {
			specs[j] = of(i + j)
		}
		enqueue(t, s.Queue, specs...)
	}
}

// each is how many rows one task takes, all of its life.
const each = 60

func kindOf(kind string) func(*task.Spec) {
	return func(s *task.Spec) { s.Kind = kind }
}

// namespaces are n others, each with a queue, a kind, workers, limits, a pause, a rate and counts.
var namespaces = []string{
	`INSERT INTO dibs.queue_names (id, ns, kind, name) SELECT i, $1 || '-' || i, k, 'k' FROM generate_series(1, n) i, (VALUES (true), (false)) x(k)`,
	`INSERT INTO dibs.queue_workers (ns, key, owner, token, gone, unrescued)
	 SELECT $1 || '-' || i, 'k', 'o', t, CASE t WHEN 1 THEN 0 ELSE 1 END, t = 3 FROM generate_series(1, n) i, generate_series(1, 3) t`,
	`INSERT INTO dibs.queue_limits (lim, ns, key, slots, said) SELECT gen_random_uuid(), $1 || '-' || i, 'b', 1, s FROM generate_series(1, n) i, (VALUES (1), (NULL)) x(s)`,
	`INSERT INTO dibs.queue_notes (ns, lim, freed) SELECT $1 || '-' || i, gen_random_uuid(), 1 FROM generate_series(1, n) i`,
	`INSERT INTO dibs.queue_pauses (ns, queue, kind, since, until, by, why) SELECT $1 || '-' || i, 'q', 'paused', $2, 0, 'me', '' FROM generate_series(1, n) i`,
	`INSERT INTO dibs.queue_rates (ns, k, every, burst) SELECT $1 || '-' || i, i, 1, 1 FROM generate_series(1, n) i`,
	`INSERT INTO dibs.queue_counts SELECT $1 || '-' || i, $2 / 60000000, 'q', 'k', 'enqueued', 1 FROM generate_series(1, n) i`,
}

// A fetch pays nothing for tasks that it cannot give, and no step grows with what there is (promise 26): each step
// takes as many rows beside ten times as many neighbours of every sort as it may take at all, whatever there is.
// Holds: promise 26.
func TestEachStepIsBoundedBesideManyNeighbours(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	n := testsize.Of(3000, 300_000)
	c := config(t, database(t, testserver.Postgres(t)))
	first := countedStore(t, c)
	plain := first.Store
	other := c
	other.Namespace += "-other"
	second := countedStore(t, other, first)
	elsewhere := second.Store
	ctx := t.Context()
	beat := func() lease.Ref { return joined(t, plain) }

	fill(t, plain, 10*n, func(int) task.Spec { return spec(kindOf("unknown")) })
	fill(t, plain, n, func(int) task.Spec { return spec(kindOf("paused")) })
	fill(t, plain, n, func(int) task.Spec { return spec(kindOf("rated")) })
	fill(t, plain, n, func(int) task.Spec { return spec(kindOf("blocked"), limitOf("b", 1)) })
	fill(t, plain, n, func(i int) task.Spec {
		return spec(kindOf("unknown"), limitOf(fmt.Sprint("u", i), 1)) // nominees of a kind that the worker does not know
	})
	fill(t, plain, n, func(int) task.Spec { return spec(kindOf("elsewhere"), func(s *task.Spec) { s.Queue = "r" }) })
	fill(t, elsewhere, n, func(int) task.Spec { return spec() })
	fill(t, plain, n, func(int) task.Spec { return spec(func(s *task.Spec) { s.Queue = "windows" }) })
	fillWith(t, superuser(t, c.URL.String()), append([]string{
		`UPDATE dibs.tasks SET state = 10, ended = $2, hold = 3600000000 WHERE queue = (SELECT id FROM dibs.queue_names WHERE ns = $1 AND NOT kind AND name = 'windows')`,
		`INSERT INTO dibs.queue_workers (ns, key, owner, token, gone) SELECT $1, 'k', 'o', i, $2 - i FROM generate_series(1, n * 10) i`,
		`INSERT INTO dibs.queue_counts SELECT $1, ($2 / 60000000 - m) * 60000000, 'q' || i, 'k', 'enqueued', 1 FROM generate_series(1, n) i, generate_series(1, 28) m`,
	}, namespaces...), c.Namespace, time.Now(), n)
	if err := plain.Tasks.Pause(ctx, driver.Pause{Kind: "paused", By: "me", Why: "because"}); err != nil {
		t.Fatal(err)
	}
	if err := plain.Queue.Declare(ctx, map[string]task.Rate{"rated": {Count: 1, Per: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	holder := beat()
	fetchOf := func(s *store.Store, w lease.Ref, most int, kinds ...string) []driver.Fetched {
		t.Helper()
		f, err := s.Queue.Fetch(ctx, driver.FetchRequest{Worker: w, Queues: []string{"q"}, Kinds: kinds, Max: most, Suspects: true, Crashers: true})
		if err != nil || f.Gone {
			t.Fatalf("fetch: %+v, %v", f, err)
		}
		return f.Tasks
	}
	fetchOf(plain, holder, 1, "blocked")
	fetchOf(plain, holder, 1, "rated") // its rate is used up
	if err := plain.Queue.Deregister(ctx, beat()); err != nil {
		t.Fatal(err)
	}

	s := countedStore(t, c, second)
	known := []string{"k", "paused", "rated", "blocked"}
	enqueue(t, s.Queue, spec(), spec())
	warm := beat()
	complete(t, s.Queue, warm, fetchOf(s.Store, warm, 1, known...)...) // what is learnt once
	s.took("enqueue of 10", 10*each, func() { fill(t, s.Store, 10, func(int) task.Spec { return spec() }) })
	var got []driver.Fetched
	w := beat()
	s.took("fetch of 10", 10*each, func() { got = fetchOf(s.Store, w, 10, known...) })
	if len(got) != 10 {
		t.Errorf("fetched %d", len(got))
	}
	s.took("finish of 10", 10*each, func() { complete(t, s.Queue, w, got...) })
	s.took("a fetch that finds nothing", 10*each, func() {
		if got := fetchOf(s.Store, w, 10, known...); len(got) > 1 {
			t.Errorf("fetched %d", len(got))
		}
	})
	fill(t, s.Store, 10, func(int) task.Spec { return spec() })
	s.took("fetch of 10 of one kind", 10*each, func() { got = fetchOf(s.Store, w, 10, "k") })
	if len(got) != 10 {
		t.Errorf("fetched %d of one kind", len(got))
	}
	complete(t, s.Queue, w, got...)
	s.took("a worker's look at what is to stop", each, func() {
		if _, err := s.Queue.Running(ctx, w, true); err != nil {
			t.Error(err)
		}
	})
	const step = bound * each
	s.took("a limit that is raised", step, func() {
		if ok, err := s.Tasks.SetLimit(ctx, spec(kindOf("blocked"), limitOf("b", 1)).Limit.Hash("blocked"), 10*n, "me"); err != nil || !ok {
			t.Errorf("%v, %v", ok, err)
		}
	})
	s.took("maintain", step, func() {
		if _, err := s.Queue.Maintain(ctx, driver.MaintainRequest{Keep: queue.Retention}); err != nil {
			t.Error(err)
		}
	})
	empty := c
	empty.Namespace += "-empty"
	nobody := countedStore(t, empty, s)
	nobody.took("lists and counts of an empty namespace", 100, func() {
		l, err := nobody.Tasks.Queues(ctx)
		all, err2 := nobody.Tasks.Tasks(ctx, driver.Filter{})
		if err != nil || err2 != nil || len(l)+len(all) > 0 {
			t.Errorf("%v, %v, %v, %v", l, all, err, err2)
		}
	})
	enqueue(t, nobody.Queue, spec())
	nobody.took("lists and counts of a small one", 200, func() {
		l, err := nobody.Tasks.Queues(ctx)
		all, err2 := nobody.Tasks.Tasks(ctx, driver.Filter{Tag: "none"})
		if err != nil || err2 != nil || len(l) != 1 || len(all) > 0 {
			t.Errorf("%v, %v, %v, %v", l, all, err, err2)
		}
	})
}

// No step of what follows from many tasks that are taken together grows with them: it does as much as it is
// bound to, says that there is more, and goes on in the next.
// Holds: promise 26, Q5.
func TestLargeStepsAreTakenInParts(t *testing.T) {
	t.Parallel()
	n := testsize.Of(3000, 100_000)
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	ctx := t.Context()
	sql := superuser(t, c.URL.String())
	w := joined(t, s)
	biggest := func(what string) { // the most rows that one transaction of ours has changed
		t.Helper()
		most := one[int64](t, sql, `SELECT coalesce(max(n), 0)::bigint FROM (SELECT count(*) AS n FROM dibs.tasks GROUP BY xmin) x`)
		ended := one[int64](t, sql, `SELECT coalesce(max(n), 0)::bigint FROM (SELECT count(*) AS n FROM dibs.tasks_ended GROUP BY xmin) x`)
		if most, ended := most, ended; max(most, ended) > 2*bound {
			t.Errorf("%s: one step has changed %d rows", what, max(most, ended))
		}
	}

	// Superseding.
	displacing := spec(func(s *task.Spec) { s.Limit = &task.Limit{Key: "d", OnContention: task.Displace} })
	enqueue(t, s.Queue, displacing)
	first := fetchSome(t, s, w, 1).Tasks
	fill(t, s, n, func(int) task.Spec { return displacing })
	urgent := displacing
	urgent.Priority = 9
	id := enqueue(t, s.Queue, urgent)[0].ID
	steps := 0
	for got := (driver.Task{}); got.State != task.Blocked; steps++ {
		f := fetchSome(t, s, w, 10)
		if len(f.Tasks) > 0 || steps > n {
			t.Fatalf("after %d steps: %+v", steps, f)
		}
		var err error
		if got, _, _, err = s.Tasks.Task(ctx, id); err != nil {
			t.Fatal(err)
		}
		if got.State != task.Blocked && f.NextDue.After(f.Now) {
			t.Errorf("there is more to do, and the fetch says not before %s", f.NextDue)
		}
	}
	biggest("superseding")
	complete(t, s.Queue, w, first...)
	complete(t, s.Queue, w, fetchSome(t, s, w, 10).Tasks...)
	if left := one[int](t, sql, "SELECT count(*)::int FROM dibs.tasks"); left != 0 {
		t.Errorf("%d are left", left)
	}
	if got, _, _, err := s.Tasks.Task(ctx, id); err != nil || got.State != task.Succeeded {
		t.Errorf("the urgent one: %s, %v", got.State, err)
	}

	// A limit that is raised.
	fill(t, s, n, func(int) task.Spec { return spec(limitOf("l", 1)) })
	if _, err := s.Tasks.SetLimit(ctx, (&task.Limit{Key: "l"}).Hash("k"), n, "me"); err != nil {
		t.Fatal(err)
	}
	biggest("a raised limit")

	// All are given all the same, a worker of which dies.
	var given int
	for given < n {
		f := fetchSome(t, s, w, 1000)
		if len(f.Tasks) == 0 {
			t.Fatalf("only %d of %d were given", given, n)
		}
		given += len(f.Tasks)
	}
	biggest("the fetches")
	if err := s.Queue.Deregister(ctx, w); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		d, err := s.Queue.Maintain(ctx, driver.MaintainRequest{})
		if err != nil || d.Repaired != 0 {
			t.Fatalf("%+v, %v", d, err)
		}
		more = d.More
	}
	biggest("a rescue")
	if left := one[int](t, sql, "SELECT count(*)::int FROM dibs.tasks WHERE state = 5"); left != 0 {
		t.Errorf("%d still run", left)
	}
}

// While somebody holds an old snapshot, what was worked since costs a fetch next to nothing, in any order of
// events: nothing is passed over by it either.
// Holds: promise 26.
func TestWhatDiedCostsAFetchLittleBesideAnOldSnapshot(t *testing.T) {
	t.Parallel()
	n := testsize.Of(12_000, 400_000)
	c := config(t, database(t, testserver.Postgres(t)))
	beside := countedStore(t, c)
	plain := beside.Store
	old, sql := superuser(t, c.URL.String()), superuser(t, c.URL.String())
	if _, err := old.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dibs.tasks"); err != nil {
		t.Fatal(err)
	}
	s := countedStore(t, c, beside)
	v := joined(t, plain)
	enqueue(t, s.Queue, spec()) // the band is known before
	complete(t, s.Queue, v, fetchSome(t, s.Store, v, 1).Tasks...)
	// A transaction of somebody's that takes its id before all others', and one that is put back later.
	early, err := superuser(t, c.URL.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := enqueue(t, QueueTx(early, c.Namespace), spec())[0].ID
	later := enqueue(t, s.Queue, spec(func(s *task.Spec) { s.Delay = 24 * time.Hour }))[0].ID
	fill(t, plain, n, func(int) task.Spec { return spec() })
	w := joined(t, plain)
	for done, beats := 0, time.Now(); done < n; {
		f := fetchSome(t, s.Store, w, 1000)
		complete(t, s.Queue, w, f.Tasks...)
		if done += len(f.Tasks); len(f.Tasks) == 0 {
			t.Fatalf("%d of %d were done", done, n)
		}
		if time.Since(beats) > 5*time.Second {
			w, beats = joined(t, plain), time.Now()
		}
	}
	fetchesOne := func(what string, id task.ID) {
		t.Helper()
		w = joined(t, plain)
		f := fetchSome(t, s.Store, w, 10)
		if len(f.Tasks) != 1 || f.Tasks[0].ID != id {
			t.Fatalf("%s: %+v, want task %d", what, f.Tasks, id)
		}
		complete(t, s.Queue, w, f.Tasks...)
	}
	// As long as it is open nothing may be taken for gone.
	for range 50 {
		fetchSome(t, s.Store, w, 1)
	}
	if err := early.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	fetchesOne("what was taken in before all others, and committed after them", first)
	// The floor is raised now and then, unless somebody on the server still writes who began before.
	for end := time.Now().Add(5 * time.Minute); ; {
		before := s.rows()
		fetchSome(t, s.Store, w, 10)
		n := s.rows() - before
		if n <= 4000 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("a fetch still takes %d rows", n)
		}
	}
	if a, err := s.Tasks.Operate(context.Background(), driver.OpRequest{Operation: driver.OpPromote, IDs: []task.ID{later}}); err != nil || a[0].Answer != driver.Done {
		t.Fatalf("%+v, %v", a, err)
	}
	fetchesOne("what was put in front of the floor", later)
	zero := time.Now().Add(-time.Minute)
	again := enqueue(t, s.Queue, spec(func(s *task.Spec) { s.Delay = 24 * time.Hour }))[0].ID
	fill(t, plain, 3000, func(int) task.Spec { return spec() })
	for done := 0; done < 3000; {
		f := fetchSome(t, s.Store, joined(t, plain), 1000)
		done += len(f.Tasks)
	}
	raised := func() bool {
		return one[bool](t, sql, "SELECT coalesce(bool_or(floor & ((1::bigint << 53) - 1) > $1), false) FROM dibs.queue_bands", int64(again))
	}
	for end := time.Now().Add(time.Minute); !raised(); {
		if fetchSome(t, s.Store, w, 1); time.Now().After(end) {
			t.Fatal("no floor rises above what was worked")
		}
	}
	if _, err := s.Tasks.Operate(t.Context(), driver.OpRequest{Operation: driver.OpEdit, IDs: []task.ID{again}, Edit: driver.Edit{RunAt: &zero}}); err != nil {
		t.Fatal(err)
	}
	fetchesOne("what became due below the floor", again)
}

// A task that another transaction has is passed over, and nobody waits for it.
// Holds: promise 26.
func TestALockedTaskHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	w := joined(t, s)
	enqueue(t, s.Queue, spec(), spec(limitOf("l", 1)), spec())
	f := fetchSome(t, s, w, 3).Tasks
	tx, err := superuser(t, c.URL.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM dibs.tasks WHERE id = $1 FOR UPDATE", int64(f[1].ID)); err != nil {
		t.Fatal(err)
	}
	ends := column(f, func(f driver.Fetched) driver.Completion {
		return driver.Completion{Ref: f.Ref, Verdict: driver.Success}
	})
	st, err := s.Queue.Finish(t.Context(), w, ends)
	if err != nil || fmt.Sprint(st) != fmt.Sprint([]driver.Status{driver.OK, driver.Withheld, driver.OK}) {
		t.Errorf("%v, %v", st, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err = s.Queue.Finish(t.Context(), w, ends); err != nil || fmt.Sprint(st) != fmt.Sprint([]driver.Status{driver.OK, driver.OK, driver.OK}) {
		t.Errorf("once it is free: %v, %v", st, err)
	}
}
