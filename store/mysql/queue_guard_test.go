package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
)

// counted is a store of which the rows that it reads and changes are counted, by the sessions that it uses.
type counted struct {
	*store.Store
	t    *testing.T
	pool *sql.DB
}

func countedStore(t *testing.T, c store.Config) *counted {
	t.Helper()
	pool := raw(t, c.URL.String(), nil)
	pool.SetMaxOpenConns(3)
	pool.SetMaxIdleConns(3)
	s, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	return &counted{s, t, pool}
}

// rows is how many rows its sessions have read and changed so far, for SHOW reads none. An index's entry that
// is looked at in vain counts.
func (s *counted) rows() (n int64) {
	s.t.Helper()
	var conns []*sql.Conn
	for range s.pool.Stats().OpenConnections {
		c, err := s.pool.Conn(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		r, err := c.QueryContext(s.t.Context(), `SHOW SESSION STATUS WHERE Variable_name LIKE 'Handler\_read%'
			OR Variable_name IN ('Handler_icp_attempts', 'Handler_update', 'Handler_write', 'Handler_delete')`)
		if err != nil {
			s.t.Fatal(err)
		}
		for r.Next() {
			var some int64
			if err := r.Scan(new(string), &some); err != nil {
				s.t.Error(err)
			}
			n += some
		}
		if err := errors.Join(r.Err(), r.Close(), c.Close()); err != nil {
			s.t.Error(err)
		}
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

// like makes n tasks that are as one is, but for columns that are said otherwise; i is their number. It makes them in
// parts: other tests wait meanwhile for the lock of the table's next id.
func like(t testing.TB, db *sql.DB, id task.ID, n int, said map[string]string) {
	t.Helper()
	var names, values []string
	for _, name := range append([]string{"ns", "options", "args"}, columnNames...) {
		value := said[name]
		switch {
		case name == "ukey":
			continue
		case value == "":
			value = "t." + name
		}
		names, values = append(names, name), append(values, value)
	}
	const part = 2000
	for from := 1; from <= n; from += part {
		exec(t, db, fmt.Sprintf("INSERT INTO dibs_tasks (%s) SELECT %s FROM dibs_tasks t JOIN (SELECT seq AS i FROM seq_%d_to_%d) s WHERE t.id = ? ORDER BY i",
			strings.Join(names, ", "), strings.Join(values, ", "), from, min(from+part-1, n)), int64(id))
	}
}

// unlike takes the tasks of namespaces away, in parts: each locks the gap before the neighbour's first task, and
// whoever enqueues there waits.
func unlike(db *sql.DB, ns ...string) {
	for _, of := range ns {
		for n := int64(1); n > 0; {
			r, err := db.ExecContext(context.Background(), "DELETE t FROM dibs_tasks t JOIN (SELECT id FROM dibs_tasks FORCE INDEX (listed) WHERE ns = ? LIMIT 2000) o ON o.id = t.id", []byte(of))
			if n = 0; err == nil {
				n, _ = r.RowsAffected()
			}
		}
	}
}

func kindOf(kind string) func(*task.Spec) {
	return func(s *task.Spec) { s.Kind = kind }
}

// each is how many rows one task takes, all of its life; ofMany, one of many that a step takes.
const (
	each   = 60
	ofMany = 30
)

// namespaces are n others, each with a queue, a kind, workers, a limit, a pause, a rate and counts.
var namespaces = []string{
	`INSERT INTO dibs_task_subqueues (ns, queue, kind, salt) SELECT CONCAT($1, '-', seq), 'q', 'k', 0 FROM seq_1_to_n`,
	`INSERT INTO dibs_task_workers (ns, owner, token, lease_key, host, does, ended) SELECT CONCAT($1, '-', i.seq), 'o', t.seq, 'k', '', '{}', t.seq - 1 FROM seq_1_to_n i JOIN seq_1_to_2 t`,
	`INSERT INTO dibs_task_limits (ns, hash, limit_key, slots, declared) SELECT CONCAT($1, '-', i.seq), UNHEX(MD5(d.seq)), 'b', 1, d.seq - 1 FROM seq_1_to_n i JOIN seq_1_to_2 d`,
	`INSERT INTO dibs_task_wakes (ns, hash, limit_key, slots) SELECT CONCAT($1, '-', seq), UNHEX(MD5(1)), 'b', 1 FROM seq_1_to_n`,
	`INSERT INTO dibs_task_pauses (ns, queue, kind, since, until, by_, why) SELECT CONCAT($1, '-', seq), 'q', 'paused', $2, 0, 'me', '' FROM seq_1_to_n`,
	`INSERT INTO dibs_task_rates (ns, kind, each_, burst) SELECT CONCAT($1, '-', seq), 'rated', 1, 1 FROM seq_1_to_n`,
	`INSERT INTO dibs_task_counts SELECT CONCAT($1, '-', seq), $2 DIV 60000000, 'q', 'k', 'enqueued', 0, 1 FROM seq_1_to_n`,
}

// A fetch pays nothing for tasks that it cannot give, and no step grows with what there is (promise 26): the server
// counts the rows.
// Holds: promise 26.
func TestEachStepIsBoundedBesideManyNeighbours(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	n := testsize.Of(30_000, 200_000)
	c := queueConfig(t, testserver.MariaDB(t))
	s := countedStore(t, c)
	other := c
	other.Namespace += "x"
	elsewhere := mustOpen(t, other)
	db := raw(t, c.URL.String(), nil)
	ctx := t.Context()
	t.Cleanup(func() { unlike(db, c.Namespace, other.Namespace) })
	fetch := func(w lease.Ref, most int, kinds ...string) driver.Fetch {
		t.Helper()
		f, err := s.Queue.Fetch(ctx, driver.FetchRequest{Worker: w, Queues: []string{"q"}, Kinds: kinds, Max: most, Suspects: true, Crashers: true})
		if err != nil || f.Gone {
			t.Fatalf("fetch: %+v, %v", f, err)
		}
		return f
	}
	holder := joined(t, s.Store)
	one := func(with ...func(*task.Spec)) task.ID { return enqueue(t, s.Queue, spec(with...))[0].ID }
	like(t, db, one(kindOf("unknown")), 2*n, nil)
	like(t, db, one(kindOf("paused")), n, nil)
	like(t, db, one(kindOf("rated")), n, nil)
	first := one(kindOf("blocked"), limitOf("b", 1))
	like(t, db, first, n, map[string]string{"state": "2"})
	if got := fetch(holder, 1, "blocked").Tasks; len(got) != 1 || got[0].ID != first {
		t.Fatalf("fetched %+v", got)
	}
	like(t, db, one(kindOf("nominee"), limitOf("n", 1)), n, map[string]string{"limited": "UNHEX(MD5(i))"})
	like(t, db, one(func(s *task.Spec) { s.Kind, s.Queue = "elsewhere", "r" }), n, nil)
	like(t, db, enqueue(t, elsewhere.Queue, spec())[0].ID, n, nil)
	fill(t, s, append([]string{
		`INSERT INTO dibs_task_workers (ns, owner, token, lease_key, host, does, ended) SELECT $1, 'o', seq, 'k', '', '{}', $2 - seq FROM seq_1_to_n`,
		`INSERT INTO dibs_task_counts SELECT $1, $2 DIV 60000000 * 60000000 - seq % 28 * 60000000, CONCAT('q', seq), 'k', 'enqueued', 0, 1 FROM seq_1_to_n`,
	}, namespaces...), c.Namespace, time.Now(), n/10)
	t.Cleanup(func() {
		for _, table := range []string{"subqueues", "workers", "limits", "wakes", "pauses", "rates", "counts"} {
			_, _ = db.Exec(fmt.Sprintf("DELETE FROM dibs_task_%s WHERE ns BETWEEN '%s' AND '%[2]s-~'", table, c.Namespace))
		}
	})
	if err := s.Tasks.Pause(ctx, driver.Pause{Kind: "paused", By: "me", Why: "because"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Queue.Declare(ctx, map[string]task.Rate{"rated": {Count: 1, Per: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	fetch(holder, 1, "rated") // it is used up

	known := []string{"k", "paused", "rated", "blocked"}
	enqueue(t, s.Queue, spec())
	w := joined(t, s.Store)
	complete(t, s.Queue, w, fetch(w, 1, known...).Tasks...) // what is learnt once
	s.took("enqueue of 10", 10*each, func() { enqueue(t, s.Queue, slicesOf(10, spec())...) })
	var got []driver.Fetched
	s.took("fetch of 10", 10*each, func() { got = fetch(w, 10, known...).Tasks })
	if len(got) != 10 {
		t.Errorf("fetched %d", len(got))
	}
	s.took("finish of 10", 10*each, func() { complete(t, s.Queue, w, got...) })
	s.took("a fetch that finds nothing", 10*each, func() {
		if got := fetch(w, 10, known...).Tasks; len(got) > 0 {
			t.Errorf("fetched %d", len(got))
		}
	})
	s.took("a worker's look at what is to stop", each, func() {
		if _, err := s.Queue.Running(ctx, w, true); err != nil {
			t.Error(err)
		}
	})
	s.took("pause and resume", each, func() {
		if err := s.Tasks.Pause(ctx, driver.Pause{Queue: "q", By: "me"}); err != nil {
			t.Error(err)
		}
		if _, err := s.Tasks.Resume(ctx, "q", "", "me"); err != nil {
			t.Error(err)
		}
	})
	hash := spec(kindOf("blocked"), limitOf("b", 1)).Limit.Hash("blocked")
	s.took("a limit that is raised", mostGiven*ofMany, func() {
		if ok, err := s.Tasks.SetLimit(ctx, hash, 10*n, "me"); err != nil || !ok {
			t.Errorf("%v, %v", ok, err)
		}
	})
	s.took("a fetch of what it lets in", 1000*ofMany, func() {
		if got := fetch(w, 1000, "blocked").Tasks; len(got) != 1000 {
			t.Errorf("fetched %d", len(got))
		}
	})
	s.took("leave of a worker that has 1,000", 1000*ofMany, func() {
		if err := s.Queue.Deregister(ctx, w); err != nil {
			t.Error(err)
		}
	})
	s.took("a limit that is lowered", mostGiven*ofMany, func() {
		if ok, err := s.Tasks.SetLimit(ctx, hash, 1, "me"); err != nil || !ok {
			t.Errorf("%v, %v", ok, err)
		}
	})
	w = joined(t, s.Store)
	like(t, db, enqueue(t, s.Queue, spec(kindOf("due"), func(s *task.Spec) { s.Delay = time.Hour }))[0].ID, n,
		map[string]string{"due_at": "1", "run_at": "1"})
	s.took("a fetch when all are due at one instant", mostDue*ofMany, func() {
		f := fetch(w, 10, "due")
		if len(f.Tasks) != 10 || f.NextDue.IsZero() || f.NextDue.After(f.Now) {
			t.Errorf("fetched %d; there is more, and it says %v at %v", len(f.Tasks), f.NextDue, f.Now)
		}
	})
	s.took("maintain", 1000*ofMany, func() {
		if r, err := s.Queue.Maintain(ctx, driver.MaintainRequest{Keep: queue.Retention}); err != nil || !r.More {
			t.Errorf("%+v, %v", r, err)
		}
	})
	like(t, db, first, n, map[string]string{"state": "2", "ordinal": "-9", "holder": "0", "expires": "1", "lapses": "1"})
	ran := ref(t, s.Store, first)
	s.took("a finish beside what has expired in line", 10*mostOver, func() { complete(t, s.Queue, holder, driver.Fetched{Ref: ran}) })
	s.took("maintain of what has expired", 1000*each, func() {
		if r, err := s.Queue.Maintain(ctx, driver.MaintainRequest{}); err != nil || !r.More || r.Expired == 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	for _, round := range []string{"first", "second"} { // their limits are made in the first
		var apart []task.Spec
		for i := range 2 * longList {
			apart = append(apart, spec(limitOf(fmt.Sprint("apart", i), 1), func(s *task.Spec) {
				s.Kind, s.Unique = "apart", &task.Unique{Key: fmt.Sprint(round, i), Until: task.UntilFinished}
			}))
		}
		s.took("enqueue of 2,000 with keys and limits of their own, the "+round, int64(len(apart))*ofMany, func() { enqueue(t, s.Queue, apart...) })
	}
	empty := c
	empty.Namespace += "y"
	nobody := countedStore(t, empty)
	nobody.took("lists and counts of an empty namespace", each, func() {
		l, err := nobody.Tasks.Queues(ctx)
		all, err2 := nobody.Tasks.Tasks(ctx, driver.Filter{})
		if err != nil || err2 != nil || len(l)+len(all) > 0 {
			t.Errorf("%v, %v, %v, %v", l, all, err, err2)
		}
	})
}

func slicesOf(n int, s task.Spec) []task.Spec { return slices.Repeat([]task.Spec{s}, n) }

// ref is the run of a task.
func ref(t testing.TB, s *store.Store, id task.ID) driver.Ref {
	t.Helper()
	x, _, ok, err := s.Tasks.Task(t.Context(), id)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return driver.Ref{ID: id, Token: x.Token}
}

// Lists and counts go in steps, none of which walks over more tasks than it is bound to, and miss none.
// Holds: promise 26.
func TestListsGoInSteps(t *testing.T) {
	t.Parallel()
	n := testsize.Of(3*looked, 20*looked)
	c := queueConfig(t, testserver.MariaDB(t))
	s := countedStore(t, c)
	db := raw(t, c.URL.String(), nil)
	t.Cleanup(func() { unlike(db, c.Namespace) })
	like(t, db, enqueue(t, s.Queue, spec())[0].ID, n-1, nil)
	last := enqueue(t, s.Queue, spec(kindOf("last")))[0].ID
	l, err := s.Tasks.Queues(t.Context())
	if err != nil || len(l) != 2 || l[0].Depth[task.Available] != n || l[1].Depth[task.Available] != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	all, err := s.Tasks.Tasks(t.Context(), driver.Filter{Kind: "last"})
	if err != nil || len(all) != 1 || all[0].ID != last {
		t.Errorf("%+v, %v", all, err)
	}
	s.took("a step of a list", 5*looked, func() {
		b := s.Tasks.(admin).txn(t.Context())
		w := walk{below: 1 << 62}
		var found []*taskRow
		if err := b.ask(func(p *packet) []reader {
			first := w.add(p, b.q.ns)
			p.add("task-columns").add("tasks-window", b.q.ns, []byte(""), []byte(""), []byte("last"), []byte("last"), 0, list{-1}, 0, w.order(), 100)
			return []reader{first, b.reads(&found)}
		}); err != nil || len(found) != 0 || w.n != looked {
			t.Errorf("%v, %+v, %v", found, w, err)
		}
	})
	all, err = s.Tasks.Tasks(t.Context(), driver.Filter{Newest: true, Max: 2})
	if err != nil || len(all) != 2 || all[0].ID != last || all[1].ID >= last {
		t.Errorf("the newest: %+v, %v", all, err)
	}

	like(t, db, last, few+100, map[string]string{"state": "6", "done": "6", "ended": "1000"})
	like(t, db, last, 3, map[string]string{"state": "9", "done": "9", "ended": "2000"})
	bad := []task.State{task.Failed, task.Crashed}
	for _, newest := range []bool{false, true} {
		f := driver.Filter{States: bad, Since: time.UnixMicro(1001), Newest: newest}
		s.took("a list of what ended lately", 200, func() {
			if all, err := s.Tasks.Tasks(t.Context(), f); err != nil || len(all) != 3 {
				t.Errorf("what failed lately: %+v, %v", all, err)
			}
		})
		var ids []task.ID
		for f = (driver.Filter{States: bad, Newest: newest, Max: 1000}); len(ids)%1000 == 0; {
			all, err := s.Tasks.Tasks(t.Context(), f)
			if err != nil || len(all) == 0 {
				t.Fatalf("after %d of many failed ones: %v", len(ids), err)
			}
			for _, x := range all {
				ids, f = append(ids, x.ID), f.Past(x.ID)
			}
		}
		if slices.Reverse(ids); !newest {
			slices.Reverse(ids)
		}
		if len(ids) != few+103 || !slices.IsSorted(ids) {
			t.Errorf("newest first: %v: %d of many failed ones", newest, len(ids))
		}
	}
}

// A task that supersedes many others does so in parts.
// Holds: promise 26, Q5.
func TestSupersedingIsTakenInParts(t *testing.T) {
	t.Parallel()
	n := testsize.Of(5000, 50_000)
	c := queueConfig(t, testserver.MariaDB(t))
	s := countedStore(t, c)
	db := raw(t, c.URL.String(), nil)
	w := joined(t, s.Store)
	displacing := spec(func(s *task.Spec) { s.Limit = &task.Limit{Key: "d", Max: 1, OnContention: task.Displace} })
	id := enqueue(t, s.Queue, displacing)[0].ID
	first := fetchSome(t, s.Store, w, 1).Tasks
	like(t, db, id, n, map[string]string{"state": "1", "holder": "0", "worker": "0"})
	urgent := displacing
	urgent.Priority = 9
	last := enqueue(t, s.Queue, urgent)[0].ID
	if err := s.Queue.(queues).step(t.Context(), func(b *txn) error {
		if err := errors.Join(b.load([]task.ID{last}), b.lockTheirs()); err != nil {
			return err
		}
		more, err := b.displace(b.tasks[last])
		if n := len(b.changed()); n > mostEnded+1 || !more { // and the one that runs
			t.Errorf("a step changes %d, and says %v of more", n, more)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for steps := 0; ; steps++ {
		if f := fetchSome(t, s.Store, w, 10); len(f.Tasks) > 0 || steps > n/mostEnded {
			t.Fatalf("after %d steps: %+v", steps, f)
		}
		if x, _, _, err := s.Tasks.Task(t.Context(), last); err != nil || x.State == task.Blocked {
			break
		}
	}
	if left := count(t, db, "SELECT COUNT(*) FROM dibs_tasks WHERE ns = ? AND state IN (1, 2)", c.Namespace); left != 1 {
		t.Errorf("%d still wait", left)
	}
	complete(t, s.Queue, w, first...)
	if f := fetchSome(t, s.Store, w, 10); len(f.Tasks) != 1 || f.Tasks[0].ID != last {
		t.Errorf("fetched then: %+v", f)
	}
}

// Tasks that transactions left available under a limit are put in order in parts, and all of them run.
// Holds: promise 26, Q5.
func TestManyNomineesArePutInOrderInParts(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	const n = 3*mostOpen + 7
	c := queueConfig(t, testserver.MariaDB(t))
	s := countedStore(t, c)
	db := raw(t, c.URL.String(), nil)
	w := joined(t, s.Store)
	id := enqueue(t, s.Queue, spec(limitOf("l", 1)))[0].ID
	like(t, db, id, n, nil)
	hash := spec(limitOf("l", 1)).Limit.Hash("k")
	exec(t, db, "INSERT INTO dibs_task_wakes (ns, hash, limit_key, slots) VALUES (?, ?, 'l', 1)", c.Namespace, hash[:])
	if err := s.Queue.(queues).step(t.Context(), func(b *txn) error {
		err := b.lock([]wake{{hash: hash}}, false, nothing)
		l := b.limits[hash]
		if err == nil && (len(l.open) > mostOpen || len(b.wakes) != 1) {
			t.Errorf("a step reads %d, and leaves %v", len(l.open), b.wakes)
		}
		b.settle(l)
		if err := errors.Join(err, b.settleAll()); err != nil || len(b.flips) != mostFlips {
			t.Errorf("a step blocks %d, %v", len(b.flips), err)
		}
		for i, w := range l.open { // nobody is to be available behind one that is blocked
			if _, blocked := b.flips[w.id]; blocked != (i >= len(l.open)-mostFlips) {
				t.Fatalf("task %d of %d in line: blocked %v", i, len(l.open), blocked)
			}
		}
		b.done = true // nothing of it is carried out
		return err
	}); err != nil {
		t.Fatal(err)
	}
	done := 0
	for range 3 {
		f := fetchSome(t, s.Store, w, 10).Tasks
		if len(f) != 1 || done == 0 && f[0].ID != id {
			t.Fatalf("fetched %+v", f)
		}
		complete(t, s.Queue, w, f...)
		done += len(f)
	}
	if open := count(t, db, "SELECT COUNT(*) FROM dibs_tasks WHERE ns = ? AND state = 1", c.Namespace); open != 1 {
		t.Errorf("%d are available", open)
	}
	if ok, err := s.Tasks.SetLimit(t.Context(), hash, n, "me"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for done <= n {
		f := fetchSome(t, s.Store, w, 1000).Tasks
		if done += len(f); len(f) == 0 {
			t.Fatalf("only %d of %d were given", done, n+1)
		}
	}
}

// Blocked tasks are counted in steps, sub-queue by sub-queue, and all of them.
// Holds: promise 26.
func TestTheBlockedAreCountedInSteps(t *testing.T) {
	t.Parallel()
	c := queueConfig(t, testserver.MariaDB(t))
	s := mustOpen(t, c)
	db := raw(t, c.URL.String(), nil)
	t.Cleanup(func() { unlike(db, c.Namespace) })
	id := enqueue(t, s.Queue, spec(limitOf("l", 1)))[0].ID
	like(t, db, id, 2*looked, map[string]string{"state": "2", "subqueue": "t.subqueue * (i % 2)", "ordinal": "i % 3"})
	if _, held, _, err := s.Tasks.Task(t.Context(), id); err != nil || held.Waiting != 2*looked {
		t.Errorf("%d wait, %v", held.Waiting, err)
	}
	like(t, db, id, 7, map[string]string{"state": "2"})
	if _, held, _, err := s.Tasks.Task(t.Context(), id); err != nil || held.Waiting != 2*looked+7 {
		t.Errorf("%d wait, %v", held.Waiting, err)
	}
}

// A limit that tasks of many kinds name costs a step no more, however many of them wait: each kind is found by one
// look at the index.
// Holds: promise 26, Q5.
func TestALimitOfManyKindsIsBounded(t *testing.T) {
	t.Parallel()
	n, kinds := testsize.Of(2000, 20_000), 15
	c := queueConfig(t, testserver.MariaDB(t))
	s := countedStore(t, c)
	db := raw(t, c.URL.String(), nil)
	t.Cleanup(func() { unlike(db, c.Namespace) })
	w := joined(t, s.Store)
	of := func(s *task.Spec) { s.Limit = &task.Limit{Key: "l", Max: 2, Shared: true} }
	enqueue(t, s.Queue, spec(of), spec(of))
	runs := fetchSome(t, s.Store, w, 2).Tasks
	if len(runs) != 2 {
		t.Fatalf("%d were given", len(runs))
	}
	for i := range kinds {
		like(t, db, enqueue(t, s.Queue, spec(of, kindOf(fmt.Sprint("k", i))))[0].ID, n, map[string]string{"state": "2"})
	}
	most := int64(kinds * each)
	s.took("finish", most, func() { complete(t, s.Queue, w, runs[0]) })
	s.took("fetch", 3*most, func() {
		if got := fetchSome(t, s.Store, w, 1).Tasks; len(got) != 1 {
			t.Errorf("%d were given", len(got))
		}
	})
	for what, slots := range map[string]int{"raised": 5, "lowered": 1} {
		s.took("a limit that is "+what, 5*most, func() {
			if ok, err := s.Tasks.SetLimit(t.Context(), spec(of).Limit.Hash("k"), slots, "me"); err != nil || !ok {
				t.Errorf("%v, %v", ok, err)
			}
		})
	}
}
