package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/task"
	"github.com/dibs-run/dibs/tick"
)

// plans are those that the server made, as auto_explain tells them: the lines that scan or sort. An index that is
// read without a condition is marked, since that walks the table.
type plans struct {
	mu  sync.Mutex
	all []string
}

var scans = regexp.MustCompile(`(Seq Scan|Index Scan|Index Only Scan|Bitmap Heap Scan|Tid Scan)[^\n]* on (ticks|runs|jobs|tasks|tasks_ended|queue_limits|queue_workers|leases)\b|  (Sort|Incremental Sort|Hash Join|Merge Join) `)

func (p *plans) notice(_ *pgconn.PgConn, n *pgconn.Notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := strings.Split(n.Message, "\n")
	for i, line := range lines {
		if !strings.Contains(line, "  (cost") || !scans.MatchString(line) {
			continue
		}
		line, _, _ = strings.Cut(strings.TrimSpace(line), "  (cost")
		if strings.Contains(line, "Index") && !conditional(lines[i+1:]) {
			line += walked
		}
		p.all = append(p.all, line)
	}
}

const walked = " (the whole of it)"

// conditional says whether the rest of a plan begins with details of the node above that have a condition on
// its index.
func conditional(rest []string) bool {
	for _, line := range rest {
		if strings.Contains(line, "->") {
			break
		}
		if strings.Contains(line, "Index Cond:") {
			return true
		}
	}
	return false
}

// take returns what was planned since the last call.
func (p *plans) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all
	p.all = nil
	return all
}

// explained is a store whose plans are told.
func explained(t *testing.T, c store.Config) (*store.Store, *plans) {
	t.Helper()
	p := &plans{}
	cfg, err := poolConfig(c, new(behind))
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.OnNotice = p.notice
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; SET client_min_messages = log")
		return err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

// The plans of the hot path go by the keys, whatever the statistics say about how common a state is: none at
// all, none of a state, or nothing but that state; and while an old snapshot is held open.
func TestNoPlanDependsOnHowCommonAStateIs(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	sql := superuser(t, c.URL.String())
	exec := func(text string) {
		t.Helper()
		if _, err := sql.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(n int) {
		t.Helper()
		for range n {
			specs := make([]task.Spec, 500)
			for i := range specs {
				specs[i] = spec()
			}
			enqueue(t, s.Queue, specs...)
		}
	}
	steps := []struct {
		name    string
		prepare func()
	}{
		{"a young table", func() { fill(1) }},
		{"statistics of an empty table", func() {
			exec("DELETE FROM dibs.tasks")
			exec("ANALYZE dibs.tasks")
			fill(4)
		}},
		{"statistics that know only available tasks", func() {
			fill(20)
			exec("ANALYZE dibs.tasks")
		}},
		{"statistics that know only running tasks", func() {
			exec("UPDATE dibs.tasks SET state = 5, worker = 0 WHERE state = 1")
			exec("ANALYZE dibs.tasks")
			fill(2)
		}},
		{"statistics that know no limit", func() {
			exec("DELETE FROM dibs.tasks")
			fill(8)
			exec("VACUUM ANALYZE dibs.tasks")
			specs := make([]task.Spec, 200)
			for i := range specs {
				specs[i] = spec(limitOf(fmt.Sprint(i), 1))
			}
			enqueue(t, s.Queue, specs...)
		}},
		{"an old snapshot", func() {
			old := superuser(t, c.URL.String())
			if _, err := old.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM dibs.tasks"); err != nil {
				t.Fatal(err)
			}
			exec("UPDATE dibs.tasks SET state = 5, worker = 0 WHERE state = 1")
			fill(2)
		}},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			step.prepare()
			w := joined(t, s)       // its lease need not last for all steps
			s, p := explained(t, c) // sessions of its own, which have no plan yet
			enqueue(t, s.Queue, spec(uniqueKey(step.name)), spec(limitOf("l", 1)), spec(limitOf("l", 1)))
			p.check(t, "enqueue")
			displace := func(s *task.Spec) {
				s.Limit = &task.Limit{Key: "d", Max: 1, OnContention: task.Displace}
				s.Priority = 9
			}
			enqueue(t, s.Queue, spec(displace), spec(displace))
			p.check(t, "enqueue of displacing tasks")
			if _, err := s.Queue.Running(t.Context(), w, false); err != nil {
				t.Fatal(err)
			}
			p.shuns(t, "what a worker has", walked)
			enqueue(t, s.Queue, spec(uniqueKey(step.name+"1")), spec(uniqueKey(step.name+"2")))
			p.check(t, "enqueue of keys", "Index Only Scan using tasks_unique on tasks")
			enqueue(t, s.Queue, spec(uniqueKey(step.name+"3")), spec(uniqueKey(step.name+"4"), func(s *task.Spec) { s.Priority = 1 }))
			p.check(t, "enqueue of keys that differ in more", "Index Only Scan using tasks_unique on tasks")
			f := fetchSome(t, s, w, 300)
			if len(f.Tasks) != 300 {
				t.Fatalf("fetched %d", len(f.Tasks))
			}
			p.check(t, "fetch", "Tid Scan on tasks", "using tasks_ready on tasks", "using tasks_due on tasks")
			if _, err := s.Queue.Start(t.Context(), w, []driver.Ref{f.Tasks[0].Ref}); err != nil {
				t.Fatal(err)
			}
			p.check(t, "start", "using tasks_pkey on tasks")
			complete(t, s.Queue, w, f.Tasks[:100]...)
			p.check(t, "finish", "using tasks_pkey on tasks")
			// What was displaced has been asked to stop, so its slot is still taken, and the next one in turn is
			// displaced here.
			enqueue(t, s.Queue, spec(displace))
			fetchSome(t, s, w, 1)
			p.check(t, "fetch of a displacing task")
			for i, left := range slices.Collect(slices.Chunk(f.Tasks[100:], 20)) {
				verdict := driver.Success + driver.Verdict(i)%driver.Return
				st, err := s.Queue.Finish(t.Context(), w, column(left, func(f driver.Fetched) driver.Completion {
					return driver.Completion{Ref: f.Ref, Verdict: verdict, Outcome: "failed", Reason: "r", Delay: time.Hour}
				}))
				if err != nil || slices.ContainsFunc(st, func(s driver.Status) bool { return s != driver.OK }) {
					t.Fatalf("finish by %d: %v, %v", verdict, st, err)
				}
				p.check(t, fmt.Sprintf("finish by %d", verdict), "using tasks_pkey on tasks")
			}
			if _, err := s.Queue.Maintain(t.Context(), driver.MaintainRequest{Keep: queue.Retention}); err != nil {
				t.Fatal(err)
			}
			// It may look at all that runs, and at nothing else.
			p.shuns(t, "maintain", "Seq Scan", "Heap Scan on tasks_ended", "ended"+walked)
		})
	}
}

// A tick is claimed, begun and closed by its key alone, however many there are.
func TestNoPlanWalksTheTicks(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	server := grant(t, s, "server").Ref()
	first := time.Now().Add(-24 * time.Hour).Truncate(time.Second)
	claims := func(from, n int) []tick.ClaimRequest {
		reqs := make([]tick.ClaimRequest, n)
		for i := range reqs {
			reqs[i] = tick.ClaimRequest{Job: "j", At: first.Add(time.Duration(from+i) * time.Second), Lease: server}
		}
		return reqs
	}
	claim := func(s *store.Store, from, n int) {
		t.Helper()
		a, err := s.Ticks.Claim(t.Context(), claims(from, n))
		if err != nil || slices.ContainsFunc(a, func(a tick.Answer) bool { return a.Status != tick.Won }) {
			t.Fatalf("%v, %+v", err, a)
		}
	}
	claim(s, 0, 2000)
	for i, knows := range []string{"SELECT", "ANALYZE dibs.ticks"} {
		if _, err := superuser(t, c.URL.String()).Exec(t.Context(), knows); err != nil {
			t.Fatal(err)
		}
		s, p := explained(t, c)
		from := 2000 + 10*i
		claim(s, from, 10)
		p.check(t, "claim")
		id := run.NewID()
		begun := tick.StartRequest{Run: run.Record{ID: id, Job: "j", Tick: claims(from, 1)[0].At, Started: time.Now()}, Claim: server, Lease: server}
		if a, err := s.Ticks.Start(t.Context(), []tick.StartRequest{begun}); err != nil || a[0].Status != tick.Won {
			t.Fatalf("start: %+v, %v", a, err)
		}
		p.check(t, "start")
		end := begun.Run
		end.Outcome, end.Owner, end.Token, end.Ended = run.Succeeded, server.Owner, server.Token, time.Now()
		skipped := tick.CloseRequest{Run: run.Record{Job: "j", Tick: claims(from+1, 1)[0].At, Outcome: run.Canceled, Owner: server.Owner, Token: server.Token}, Claim: server}
		if a, err := s.Ticks.Close(t.Context(), []tick.CloseRequest{{Run: end, Claim: server}, skipped}); err != nil || a[0].Status != tick.Won || a[1].Status != tick.Won {
			t.Fatalf("close: %+v, %v", a, err)
		}
		p.check(t, "close")
	}
}

// check fails for a plan of the hot path that walks a table or sorts, and where one that is wanted is missing.
func (p *plans) check(t *testing.T, what string, want ...string) {
	t.Helper()
	bad := []string{"Seq Scan", "Bitmap", "Hash Join", "Merge Join", "Incremental Sort", "tasks_running on tasks", walked}
	if !strings.HasPrefix(what, "fetch") {
		bad = append(bad, "tasks_nominee on tasks") // those of all limits
	}
	all := p.shuns(t, what, bad...)
	for _, good := range want {
		if !strings.Contains(all, good) {
			t.Errorf("%s: no %s in\n%s", what, good, all)
		}
	}
}

// shuns fails for a plan with something bad in it, and returns all plans.
func (p *plans) shuns(t *testing.T, what string, bad ...string) string {
	t.Helper()
	all := strings.Join(p.take(), "\n")
	for _, bad := range bad {
		if strings.Contains(all, bad) {
			t.Errorf("%s: %s in\n%s", what, bad, all)
		}
	}
	return all
}
