package postgres

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/store/storetest"
)

// touched is how many rows of leases, ticks, jobs and history were read and changed so far, and how many pages of
// their tables and indexes were looked at: the entries of an index that a scan passes over are counted in no other
// way.
func (s *counted) touched() int64 {
	s.t.Helper()
	const sum = `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del + heap_blks_hit + heap_blks_read)
		+ (SELECT sum(idx_tup_read + idx_blks_hit + idx_blks_read) FROM pg_stat_user_indexes JOIN pg_statio_user_indexes USING (indexrelid) WHERE pg_stat_user_indexes.schemaname = 'dibs')
		FROM pg_stat_user_tables t JOIN pg_statio_user_tables USING (relid) WHERE t.schemaname = 'dibs'`
	return s.told(sum)
}

// How many rows and pages one item of a batch takes, most of them on the way down through indexes; one row that is
// only read; and a step whatever it is about.
const (
	perItem = 120
	perRow  = 12
	perStep = 400
)

// touches fails where f touches more rows and pages than most.
func (s *counted) touches(what string, most int64, f func()) {
	s.t.Helper()
	before := s.touched()
	f()
	n := s.touched() - before
	s.t.Logf("%s: %d", what, n)
	if n > most {
		s.t.Errorf("%s touched %d rows and pages, more than %d", what, n, most)
	}
}

// neighbours are what others leave in the tables, and what the application's past is: $1 is the namespace, $2 an
// instant an hour ago, n how many of each sort. Most of what is old can never go.
var neighbours = []string{
	// Leases: free, lapsed, live, and those of processes that died.
	`INSERT INTO dibs.leases (ns, key, owner, token, holder, ttl, renewed, expires)
	 SELECT $1, convert_to(k || i, 'UTF8'), lpad(to_hex(i), 32, '0'), 1, '{}', 15000000, $2, e FROM generate_series(1, n) i,
	   (VALUES ('aaa/', 0::bigint), ('app/free-', 0), ('gone/', $2 - 86400000000 * 20), ('zoo/', $2 + 86400000000)) x(k, e)`,
	`INSERT INTO dibs.leases (ns, key, owner, token, holder, ttl, renewed, expires)
	 SELECT $1, convert_to(E'once\x1f' || i, 'UTF8'), lpad(to_hex(i), 32, '0'), 1, '{}', 15000000, $2, $2 FROM generate_series(1, n / 30) i`,
	`INSERT INTO dibs.jobs (ns, name, definition, generation, since, mark, paused_since)
	 SELECT $1, convert_to(k || i, 'UTF8'), '{}', 1, 1, $2 - 86400000000 * 200, p FROM generate_series(1, n / 30) i, (VALUES ('aaa/j', 0), ('gone/j', 0), ('paused/j', 1), ('zoo/j', 0)) x(k, p)`,
	// Ticks: of a busy job of our own, closed; of others at one instant; unfinished, of an app that is gone, old and
	// new; closed above their job's mark; owed by others, and long ago by us; ranges.
	`INSERT INTO dibs.ticks (ns, job, at, state, outcome) SELECT $1, 'app/busy', $2 - i * 1000000::bigint, 'closed', 'succeeded' FROM generate_series(1, n) i`,
	`INSERT INTO dibs.ticks (ns, job, at, state, outcome) SELECT $1, convert_to('zoo/j' || i, 'UTF8'), $2 + 3000000, 'closed', 'succeeded' FROM generate_series(1, n) i`,
	`INSERT INTO dibs.ticks (ns, job, at, state, lease_key, lease_owner, lease_token, claimed)
	 SELECT $1, convert_to('gone/j' || i % (n / 30), 'UTF8'), a + i, 'started', 'k', lpad('', 32, '1'), 5, a FROM generate_series(1, n) i, (VALUES ($2 - 86400000000 * 100), ($2 + 4000000)) x(a)`,
	`INSERT INTO dibs.ticks (ns, job, at, state, outcome) SELECT $1, convert_to('gone/j' || i % (n / 30), 'UTF8'), $2 - 86400000000 * 99 + i, 'closed', 'skipped' FROM generate_series(1, n) i`,
	`INSERT INTO dibs.ticks (ns, job, at, state, outcome, lease_key, lease_owner, lease_token)
	 SELECT $1, convert_to(k || i % (n / 30), 'UTF8'), a + i, 'closed', 'lost', 'k', lpad('', 32, '1'), 5 FROM generate_series(1, n) i, (VALUES ('aaa/j', $2 + 5000000), ('app/', $2 - 86400000000 * 2)) x(k, a)`,
	`INSERT INTO dibs.ticks (ns, job, at, through, count, state, outcome) SELECT $1, convert_to('zoo/j' || i % (n / 30), 'UTF8'), a + i * 2, a + i * 2 + 1, 2, 'closed', 'missed'
	 FROM generate_series(1, n) i, (VALUES ($2 - 86400000000), ($2 + 6000000)) x(a)`,
	`INSERT INTO dibs.runs (ns, run_id, job, tick, owner, token, outcome, started, ended)
	 SELECT $1, k || i, convert_to(j || CASE WHEN j = 'app/busy' THEN '' ELSE (i % (n / 30))::text END, 'UTF8'), 0, '', 0, o, a + i, CASE o WHEN '' THEN 0 ELSE a + i END
	 FROM generate_series(1, n) i, (VALUES ('b', 'app/busy', 'succeeded', $2 - 3600000000), ('z', 'zoo/j', 'succeeded', $2 + 3000000), ('g', 'gone/j', '', $2 - 86400000000 * 100)) x(k, j, o, a)`,
	`INSERT INTO dibs.outputs (ns, run_id, output) SELECT $1, 'b' || i, 'x' FROM generate_series(1, n) i`,
	`INSERT INTO dibs.events (ns, id, at, kind, job, run_id) SELECT $1, k || i, a + i, 'k', convert_to(j || i % (n / 30), 'UTF8'), k || i
	 FROM generate_series(1, n) i, (VALUES ('z', 'zoo/j', $2 + 3000000), ('b', 'aaa/j', $2 - 3600000000)) x(k, j, a)`,
	// Applications, each with one job, its lease, a tick that has begun and a range.
	`INSERT INTO dibs.leases (ns, key, owner, token, holder, ttl, renewed, expires) SELECT $1, convert_to(k || i || '/j', 'UTF8'), lpad('', 32, '1'), 1, '{}', 15000000, $2, $2 + 1
	 FROM generate_series(1, n) i, (VALUES ('a'), ('z')) x(k)`,
	`INSERT INTO dibs.jobs (ns, name, definition, generation, since, mark) SELECT $1, convert_to(k || i || '/j', 'UTF8'), '{}', 1, 1, $2 - 86400000000 FROM generate_series(1, n) i, (VALUES ('a'), ('z')) x(k)`,
	`INSERT INTO dibs.ticks (ns, job, at, through, count, state, outcome) SELECT $1, convert_to(k || i || '/j', 'UTF8'), $2 + t, CASE u WHEN 0 THEN 0 ELSE $2 + u END, 0, s, o
	 FROM generate_series(1, n) i, (VALUES ('a'), ('z')) x(k), (VALUES (-9000000, -1000000, 'closed', 'missed'), (0, 0, 'started', '')) y(t, u, s, o)`,
	// Namespaces, each with what our busy job has, in the middle of its work.
	`INSERT INTO dibs.namespaces (ns, installation, identity, epoch, hold_until, max_ttl) SELECT $1 || '-' || i, 'i', 'i', 1, 0, 60000000 FROM generate_series(1, n) i`,
	`INSERT INTO dibs.leases (ns, key, owner, token, holder, ttl, renewed, expires) SELECT $1 || '-' || i, 'app/busy', lpad('', 32, '1'), 1, '{}', 15000000, $2, $2 + 1 FROM generate_series(1, n) i`,
	`INSERT INTO dibs.jobs (ns, name, definition, generation, since, mark) SELECT $1 || '-' || i, 'app/busy', '{}', 1, 1, $2 - 86400000000 FROM generate_series(1, n) i`,
	`INSERT INTO dibs.ticks (ns, job, at, state, lease_key, lease_owner, lease_token, claimed)
	 SELECT $1 || '-' || i, 'app/busy', $2, 'started', 'app/busy', lpad('', 32, '1'), 5, $2 FROM generate_series(1, n) i`,
	`INSERT INTO dibs.ticks (ns, job, at, through, count, state, outcome) SELECT $1 || '-' || i, 'app/busy', $2 - 9000000, $2 - 1000000, 9, 'closed', 'missed' FROM generate_series(1, n) i`,
	`INSERT INTO dibs.runs (ns, run_id, job, tick, owner, token, outcome, started, ended) SELECT $1 || '-' || i, 'b1', 'app/busy', 0, '', 0, '', $2, 0 FROM generate_series(1, n) i`,
	`INSERT INTO dibs.outputs (ns, run_id, output) SELECT $1 || '-' || i, 'b1', 'x' FROM generate_series(1, n) i`,
	`INSERT INTO dibs.events (ns, id, at, kind, job, run_id) SELECT $1 || '-' || i, 'b1', $2, 'k', 'app/busy', 'b1' FROM generate_series(1, n) i`,
}

// pasts is what the jobs have behind them that steps are made of, in the rounds after the first.
const pasts = `INSERT INTO dibs.ticks (ns, job, at, state, outcome)
	SELECT $1, convert_to('app/' || k || '-' || r || '-00', 'UTF8'), $2 - i * 1000000::bigint, 'closed', 'missed' FROM generate_series(1, n / 3) i, generate_series(1, 3) r,
	unnest(ARRAY['claimed', 'started', 'closed', 'dropped', 'lapsed', 'crashed', 'settled', 'split', 'ahead']) k`

// crowd fills the tables of a namespace.
func crowd(t *testing.T, sql *pgx.Conn, ns string, since time.Time, n int) {
	t.Helper()
	fillWith(t, sql, append([]string{pasts}, neighbours...), ns, since, n)
}

func fillWith(t *testing.T, sql *pgx.Conn, texts []string, ns string, since time.Time, n int) {
	t.Helper()
	for _, text := range texts {
		text = regexp.MustCompile(`\bn\b`).ReplaceAllString(text, strconv.Itoa(n))
		text = strings.NewReplacer("$1", "'"+ns+"'", "$2", strconv.FormatInt(since.UnixMicro(), 10)+"::bigint").Replace(text)
		if _, err := sql.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	// Else an idle session tells what it has counted ten seconds later, as if a step had done it.
	_, _ = sql.Exec(t.Context(), "SELECT pg_stat_force_next_flush()") // not before PostgreSQL 15, where nothing is counted
}

// unattended keeps the server from looking at the tables by itself, which would be counted.
const unattended = `DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['leases', 'jobs', 'ticks', 'runs', 'outputs', 'events'] LOOP EXECUTE 'ALTER TABLE dibs.' || t || ' SET (autovacuum_enabled = false)'; END LOOP;
END $$`

// No step of leases, ticks, jobs and history grows with what there is (promise 26): what each touches beside
// many neighbours of every sort is bounded by what it was asked for, be its plans made when the tables were small, or
// when they are large and the planner knows it, or has not been told.
// Holds: promise 26.
func TestEachStepOfLeasesTicksAndHistoryIsBounded(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	n := testsize.Of(1200, 100_000)
	c := config(t, database(t, testserver.Postgres(t)))
	c.TTL = time.Minute
	sql := superuser(t, c.URL.String())
	old := countedStore(t, c)
	if _, err := sql.Exec(t.Context(), unattended); err != nil {
		t.Fatal(err)
	}
	since, err := old.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since = since.Add(-time.Hour).Truncate(time.Second)
	round := 0
	steps := func(s *counted) {
		t.Helper()
		for _, step := range storetest.Steps(t, s.Store, since, round) {
			if step.Prepare != nil {
				step.Prepare()
			}
			s.touches(step.What, perStep+perItem*int64(step.Items)+perRow*int64(step.Rows), func() {
				if err := step.Do(); err != nil {
					t.Errorf("%s: %v", step.What, err)
				}
			})
		}
		round++
	}
	steps(old) // which has its plans now
	crowd(t, sql, c.Namespace, since, n)
	other := c
	other.Namespace += "x"
	countedStore(t, other)
	crowd(t, sql, other.Namespace, since, n)
	t.Log("beside neighbours, by the same plans")
	steps(old)
	t.Log("by plans of large tables that the planner knows nothing of")
	steps(countedStore(t, c, old))
	if _, err := sql.Exec(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	t.Log("by plans of tables that it knows")
	steps(countedStore(t, c, old))
}

// stays and goes are what pruning passes over, and what it comes to behind that.
var (
	stays = []string{
		`INSERT INTO dibs.leases (ns, key, owner, token, holder, renewed) SELECT $1, convert_to('aaa/' || seq, 'UTF8'), lpad('', 32, '1'), 1, '{}', $2 FROM generate_series(1, n) seq`,
		`INSERT INTO dibs.ticks (ns, job, at, state) SELECT $1, convert_to('gone/j' || seq % 100, 'UTF8'), $2 - 86400000000 * 100 + seq, 'started' FROM generate_series(1, n) seq`,
		`INSERT INTO dibs.runs (ns, run_id, job, owner, token, started) SELECT $1, 'g' || seq, convert_to('gone/j' || seq % 100, 'UTF8'), '', 0, $2 - 86400000000 * 100 + seq FROM generate_series(1, n) seq`,
	}
	goes = []string{
		`INSERT INTO dibs.leases (ns, key, owner, token, holder, renewed, expires) SELECT $1, convert_to(E'once\x1f' || seq, 'UTF8'), lpad('', 32, '1'), 1, '{}', $2 - 86400000000 * 2, $2 - 86400000000 * 2 FROM generate_series(1, n) seq`,
		`INSERT INTO dibs.ticks (ns, job, at, state, outcome) SELECT $1, 'app/busy', $2 - 86400000000 * 99 + seq, 'closed', 'succeeded' FROM generate_series(1, n) seq`,
		`INSERT INTO dibs.runs (ns, run_id, job, owner, token, started, ended, outcome) SELECT $1, 'b' || seq, 'app/busy', '', 0, $2 - 86400000000 * 99 + seq, $2 - 86400000000 * 99 + seq, 'succeeded' FROM generate_series(1, n) seq`,
		`INSERT INTO dibs.outputs (ns, run_id, output) SELECT $1, 'b' || seq, 'x' FROM generate_series(1, n) seq`,
		`INSERT INTO dibs.events (ns, id, at, kind) SELECT $1, 'b' || seq, $2 - 86400000000 * 99 + seq, 'k' FROM generate_series(1, n) seq`,
	}
)

// Pruning passes over old rows that have to stay, a page at a time, and they keep nothing newer from being pruned. Nor
// do the leases of processes that died, which go after a day, keep a list from those of the living.
// Holds: promise 26, T16.
func TestPruningPassesOverWhatStays(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	c := config(t, database(t, testserver.Postgres(t)))
	s := countedStore(t, c)
	sql := superuser(t, c.URL.String())
	if _, err := sql.Exec(t.Context(), unattended); err != nil {
		t.Fatal(err)
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const many, some = 4 * pageRows, 250
	fillWith(t, sql, stays, c.Namespace, now, many)
	fillWith(t, sql, goes, c.Namespace, now, some)
	once := grant(t, s.Store, "once\x1fzzz").Ref()
	release(t, s.Store, grant(t, s.Store, "zzz").Ref())
	listed := func(dead int) {
		t.Helper()
		for prefix, want := range map[string]int{"once\x1f": 1 + dead, "aaa/": many, "": 1 + dead + many + 1} {
			r, err := s.Leases.List(t.Context(), prefix, true)
			if err != nil || len(r.Answers) != want {
				t.Errorf("%q: %d records, %v, want %d", prefix, len(r.Answers), err, want)
			}
		}
		if r, err := s.Leases.List(t.Context(), "", false); err != nil || len(r.Answers) != 1 || r.Answers[0].Record.Ref() != once {
			t.Errorf("live records: %+v, %v", r.Answers, err)
		}
	}
	listed(some)
	gone := 0
	for range 2 * (many/pageRows + some/history.Step + 2) {
		s.touches("prune", 25_000, func() {
			n, _, err := s.History.Prune(t.Context(), now.Add(-90*24*time.Hour))
			if err != nil {
				t.Error(err)
			}
			gone += n
		})
	}
	if gone != 3*some {
		t.Errorf("%d rows went, want %d", gone, 3*some)
	}
	for table, want := range map[string]int{"ticks": many, "runs": many, "outputs": 0, "events": 0, "leases": many + 2} {
		if n := one[int](t, sql, "SELECT count(*)::int FROM dibs."+table+" WHERE ns = $1", c.Namespace); n != want {
			t.Errorf("%s: %d are left, want %d", table, n, want)
		}
	}
	listed(0)
}
