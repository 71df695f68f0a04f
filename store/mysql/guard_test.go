package mysql

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/store/storetest"
)

// How many rows one item of a batch takes; one row that is only read; and a step whatever it is about.
const (
	perItem = 30
	perRow  = 6
	perStep = 60
)

// neighbours are what others leave in the tables, and what the application's past is: $1 is the namespace, $2 an
// instant an hour ago, seq_1_to_n how many of each sort. Most of what is old can never go.
var neighbours = []string{
	// Leases: free, lapsed, live, and a few of processes that died.
	`INSERT INTO dibs_leases (ns, lease_key, owner, token, holder, ttl, renewed, expires)
	 SELECT $1, CONCAT(k, seq), LOWER(LPAD(HEX(seq), 32, '0')), 1, '{}', 15000000, $2, e FROM seq_1_to_n JOIN
	   (SELECT 'aaa/' k, 0 e UNION ALL SELECT 'app/free-', 0 UNION ALL SELECT 'gone/', $2 - 86400000000 * 20 UNION ALL SELECT 'zoo/', $2 + 86400000000) x`,
	`INSERT INTO dibs_leases (ns, lease_key, owner, token, holder, ttl, renewed, expires)
	 SELECT $1, CONCAT('once', CHAR(31), seq), LOWER(LPAD(HEX(seq), 32, '0')), 1, '{}', 15000000, $2, $2 FROM seq_1_to_n WHERE seq % 30 = 0`,
	`INSERT INTO dibs_jobs (ns, name, definition, generation, since, mark, paused_since)
	 SELECT $1, CONCAT(k, seq DIV 30), '{}', 1, 1, $2 - 86400000000 * 200, p FROM seq_1_to_n JOIN (SELECT 'aaa/j' k, 0 p UNION ALL SELECT 'gone/j', 0 UNION ALL SELECT 'paused/j', 1 UNION ALL SELECT 'zoo/j', 0) x
	 WHERE seq % 30 = 0`,
	// Ticks: of a busy job of our own, closed, and of those that steps are made of; of others at one instant;
	// unfinished, of an app that is gone, old and new; closed above their job's mark; owed by others, and long ago by
	// us; ranges.
	`INSERT INTO dibs_ticks (ns, job, at, state, outcome) SELECT $1, 'app/busy', $2 - seq * 1000000, 'closed', 'succeeded' FROM seq_1_to_n`,
	`INSERT INTO dibs_ticks (ns, job, at, state, outcome) SELECT $1, CONCAT('app/', k, '-', r.seq, '-00'), $2 - i.seq * 1000000, 'closed', 'missed' FROM seq_1_to_n i JOIN seq_1_to_3 r
	 JOIN (SELECT 'claimed' k UNION ALL SELECT 'started' UNION ALL SELECT 'closed' UNION ALL SELECT 'dropped' UNION ALL SELECT 'lapsed' UNION ALL SELECT 'crashed'
	   UNION ALL SELECT 'settled' UNION ALL SELECT 'split' UNION ALL SELECT 'ahead') x WHERE i.seq % 3 = 0`,
	`INSERT INTO dibs_ticks (ns, job, at, state, outcome) SELECT $1, CONCAT('zoo/j', seq), $2 + 3000000, 'closed', 'succeeded' FROM seq_1_to_n`,
	`INSERT INTO dibs_ticks (ns, job, at, state, lease_key, lease_owner, lease_token, claimed)
	 SELECT $1, CONCAT('gone/j', seq % (n DIV 30)), a + seq, 'started', 'k', LPAD('', 32, '1'), 5, a FROM seq_1_to_n JOIN (SELECT $2 - 86400000000 * 100 a UNION ALL SELECT $2 + 4000000) x`,
	`INSERT INTO dibs_ticks (ns, job, at, state, outcome) SELECT $1, CONCAT('gone/j', seq % (n DIV 30)), $2 - 86400000000 * 99 + seq, 'closed', 'skipped' FROM seq_1_to_n`,
	`INSERT INTO dibs_ticks (ns, job, at, state, outcome, lease_key, lease_owner, lease_token)
	 SELECT $1, CONCAT(k, seq % (n DIV 30)), a + seq, 'closed', 'lost', 'k', LPAD('', 32, '1'), 5 FROM seq_1_to_n JOIN (SELECT 'aaa/j' k, $2 + 5000000 a UNION ALL SELECT 'app/', $2 - 86400000000 * 2) x`,
	`INSERT INTO dibs_ticks (ns, job, at, through, many, state, outcome) SELECT $1, CONCAT('zoo/j', seq % (n DIV 30)), a + seq * 2, a + seq * 2 + 1, 2, 'closed', 'missed'
	 FROM seq_1_to_n JOIN (SELECT $2 - 86400000000 a UNION ALL SELECT $2 + 6000000) x`,
	`INSERT INTO dibs_runs (ns, run_id, job, tick, owner, token, outcome, started, ended)
	 SELECT $1, CONCAT(k, seq), CONCAT(j, IF(j = 'app/busy', '', seq % (n DIV 30))), 0, '', 0, o, a + seq, IF(o = '', 0, a + seq)
	 FROM seq_1_to_n JOIN (SELECT 'b' k, 'app/busy' j, 'succeeded' o, $2 - 3600000000 a UNION ALL SELECT 'z', 'zoo/j', 'succeeded', $2 + 3000000 UNION ALL SELECT 'g', 'gone/j', '', $2 - 86400000000 * 100) x`,
	`INSERT INTO dibs_outputs (ns, run_id, at, output) SELECT $1, CONCAT('b', seq), 0, 'x' FROM seq_1_to_n`,
	`INSERT INTO dibs_events (ns, id, at, kind, job, run_id) SELECT $1, CONCAT(k, seq), a + seq, 'k', CONCAT(j, seq % (n DIV 30)), CONCAT(k, seq)
	 FROM seq_1_to_n JOIN (SELECT 'z' k, 'zoo/j' j, $2 + 3000000 a UNION ALL SELECT 'b', 'aaa/j', $2 - 3600000000) x`,
	// Applications, each with one job, its lease, a tick that has begun and a range.
	`INSERT INTO dibs_leases (ns, lease_key, owner, token, holder, ttl, renewed, expires) SELECT $1, CONCAT(k, seq, '/j'), LPAD('', 32, '1'), 1, '{}', 15000000, $2, $2 + 1
	 FROM seq_1_to_n JOIN (SELECT 'a' k UNION ALL SELECT 'z') x`,
	`INSERT INTO dibs_jobs (ns, name, definition, generation, since, mark) SELECT $1, CONCAT(k, seq, '/j'), '{}', 1, 1, $2 - 86400000000 FROM seq_1_to_n JOIN (SELECT 'a' k UNION ALL SELECT 'z') x`,
	`INSERT INTO dibs_ticks (ns, job, at, through, many, state, outcome) SELECT $1, CONCAT(k, seq, '/j'), $2 + t, IF(u = 0, 0, $2 + u), 0, s, o
	 FROM seq_1_to_n JOIN (SELECT 'a' k UNION ALL SELECT 'z') x JOIN (SELECT -9000000 t, -1000000 u, 'closed' s, 'missed' o UNION ALL SELECT 0, 0, 'started', '') y`,
	// Namespaces, each with what our busy job has, in the middle of its work.
	`INSERT INTO dibs_leases (ns, lease_key, owner, token, holder, ttl, renewed, expires)
	 SELECT CONCAT($1, '-', seq), 'app/busy', LPAD('', 32, '1'), 1, '{}', 15000000, $2, $2 + 1 FROM seq_1_to_n`,
	`INSERT INTO dibs_jobs (ns, name, definition, generation, since, mark) SELECT CONCAT($1, '-', seq), 'app/busy', '{}', 1, 1, $2 - 86400000000 FROM seq_1_to_n`,
	`INSERT INTO dibs_ticks (ns, job, at, state, lease_key, lease_owner, lease_token, claimed)
	 SELECT CONCAT($1, '-', seq), 'app/busy', $2, 'started', 'app/busy', LPAD('', 32, '1'), 5, $2 FROM seq_1_to_n`,
	`INSERT INTO dibs_ticks (ns, job, at, through, many, state, outcome) SELECT CONCAT($1, '-', seq), 'app/busy', $2 - 9000000, $2 - 1000000, 9, 'closed', 'missed' FROM seq_1_to_n`,
	`INSERT INTO dibs_runs (ns, run_id, job, tick, owner, token, outcome, started, ended) SELECT CONCAT($1, '-', seq), 'b1', 'app/busy', 0, '', 0, '', $2, 0 FROM seq_1_to_n`,
	`INSERT INTO dibs_outputs (ns, run_id, at, output) SELECT CONCAT($1, '-', seq), 'b1', 0, 'x' FROM seq_1_to_n`,
	`INSERT INTO dibs_events (ns, id, at, kind, job, run_id) SELECT CONCAT($1, '-', seq), 'b1', $2, 'k', 'app/busy', 'b1' FROM seq_1_to_n`,
}

// crowd fills the tables of a namespace.
func crowd(t *testing.T, db *counted, ns string, since time.Time, n int) {
	t.Helper()
	fill(t, db, neighbours, ns, since, n)
}

func fill(t *testing.T, db *counted, texts []string, ns string, since time.Time, n int) {
	t.Helper()
	for _, text := range texts {
		text = regexp.MustCompile(`\bn\b|to_n\b`).ReplaceAllStringFunc(text, func(s string) string {
			return strings.TrimSuffix(s, "n") + strconv.Itoa(n)
		})
		text = strings.NewReplacer("$1", "'"+ns+"'", "$2", strconv.FormatInt(since.UnixMicro(), 10)).Replace(text)
		exec(t, db.pool, text)
	}
}

// uncrowd empties them, and those beside it, in steps that others can bear.
func uncrowd(db *counted, ns ...string) {
	for _, table := range []string{"leases", "jobs", "ticks", "runs", "outputs", "events"} {
		for _, of := range ns {
			for n := int64(1); n > 0; {
				r, err := db.pool.ExecContext(context.Background(), fmt.Sprintf("DELETE FROM dibs_%s WHERE ns BETWEEN ? AND ? LIMIT 10000", table), []byte(of), []byte(of+"-~"))
				if n = 0; err == nil {
					n, _ = r.RowsAffected()
				}
			}
		}
	}
}

// No step of leases, ticks, jobs and history grows with what there is (promise 26): what each takes beside many
// neighbours of every sort is bounded by what it was asked for, whether the optimizer knows of them or not.
// Holds: promise 26.
func TestEachStepOfLeasesTicksAndHistoryIsBounded(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	n := testsize.Of(1200, 100_000)
	c := config(t, testserver.MariaDB(t))
	c.TTL = time.Minute
	s := countedStore(t, c)
	other := c
	other.Namespace += "x"
	beside := countedStore(t, other)
	t.Cleanup(func() { uncrowd(beside, c.Namespace, other.Namespace) })
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since := now.Add(-time.Hour).Truncate(time.Second)
	round := 0
	steps := func() {
		t.Helper()
		for _, step := range storetest.Steps(t, s.Store, since, round) {
			if step.Prepare != nil {
				step.Prepare()
			}
			s.took(step.What, perStep+perItem*int64(step.Items)+perRow*int64(step.Rows), func() {
				if err := step.Do(); err != nil {
					t.Errorf("%s: %v", step.What, err)
				}
			})
		}
		round++
	}
	steps()
	crowd(t, beside, c.Namespace, since, n)
	crowd(t, beside, other.Namespace, since, n)
	t.Log("beside neighbours")
	steps()
	exec(t, beside.pool, "ANALYZE TABLE dibs_leases, dibs_jobs, dibs_ticks, dibs_runs, dibs_outputs, dibs_events")
	t.Log("beside neighbours that the optimizer knows of")
	steps()
}

// stays and goes are what pruning passes over, and what it comes to behind that.
var (
	stays = []string{
		`INSERT INTO dibs_leases (ns, lease_key, owner, token, holder, renewed) SELECT $1, CONCAT('aaa/', seq), LPAD('', 32, '1'), 1, '{}', $2 FROM seq_1_to_n`,
		`INSERT INTO dibs_ticks (ns, job, at, state) SELECT $1, CONCAT('gone/j', seq % 100), $2 - 86400000000 * 100 + seq, 'started' FROM seq_1_to_n`,
		`INSERT INTO dibs_runs (ns, run_id, job, owner, started) SELECT $1, CONCAT('g', seq), CONCAT('gone/j', seq % 100), '', $2 - 86400000000 * 100 + seq FROM seq_1_to_n`,
	}
	goes = []string{
		`INSERT INTO dibs_leases (ns, lease_key, owner, token, holder, renewed, expires) SELECT $1, CONCAT('once', CHAR(31), seq), LPAD('', 32, '1'), 1, '{}', $2 - 86400000000 * 2, $2 - 86400000000 * 2 FROM seq_1_to_n`,
		`INSERT INTO dibs_ticks (ns, job, at, state, outcome) SELECT $1, 'app/busy', $2 - 86400000000 * 99 + seq, 'closed', 'succeeded' FROM seq_1_to_n`,
		`INSERT INTO dibs_runs (ns, run_id, job, owner, started, ended, outcome) SELECT $1, CONCAT('b', seq), 'app/busy', '', $2 - 86400000000 * 99 + seq, $2 - 86400000000 * 99 + seq, 'succeeded' FROM seq_1_to_n`,
		`INSERT INTO dibs_outputs (ns, run_id, at, output) SELECT $1, CONCAT('b', seq), 0, 'x' FROM seq_1_to_n`,
		`INSERT INTO dibs_events (ns, id, at, kind) SELECT $1, CONCAT('b', seq), $2 - 86400000000 * 99 + seq, 'k' FROM seq_1_to_n`,
	}
)

// Pruning passes over old rows that have to stay, a page at a time, and they keep nothing newer from being pruned. Nor
// do the leases of processes that died, which go after a day, keep a list from those of the living.
// Holds: promise 26, T16.
func TestPruningPassesOverWhatStays(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	c := config(t, testserver.MariaDB(t))
	s := countedStore(t, c)
	t.Cleanup(func() { uncrowd(s, c.Namespace) })
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const many, some = 4 * pageRows, 250
	fill(t, s, stays, c.Namespace, now, many)
	fill(t, s, goes, c.Namespace, now, some)
	once := grant(t, s.Store, request("once\x1fzzz"))
	release(t, s.Store, grant(t, s.Store, request("zzz")))
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
		s.took("prune", 4*(2*pageRows+history.Step*10), func() {
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
	for table, want := range map[string]int64{"ticks": many, "runs": many, "outputs": 0, "events": 0, "leases": many + 2} {
		if n := count(t, s.pool, "SELECT COUNT(*) FROM dibs_"+table+" WHERE ns = ?", []byte(c.Namespace)); n != want {
			t.Errorf("%s: %d are left, want %d", table, n, want)
		}
	}
	listed(0)
}
