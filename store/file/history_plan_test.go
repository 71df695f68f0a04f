//go:build linux

package file

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
)

// The runs of one job are found without a look at those of others: a burst asks for the latest of thousands of jobs.
func TestRunsOfAJobAreFoundByTheJob(t *testing.T) {
	s := inside(openAt(t, t.TempDir()))
	for text, want := range map[string]string{
		sqlRunsOf: "SEARCH dibs_runs USING INDEX dibs_runs_job (job=? AND started>? AND started<?)",
		sqlRuns:   "SEARCH dibs_runs USING INDEX dibs_runs_started (started>? AND started<?)",
	} {
		err := s.write(t.Context(), func(tx *sql.Tx) error {
			steps, err := query(t.Context(), tx, func(row scanner) (text string, err error) {
				var id, parent, unused int
				return text, row.Scan(&id, &parent, &unused, &text)
			}, "EXPLAIN QUERY PLAN "+text, int64(0), int64(1), 1, "j", "")
			if plan := strings.Join(steps, "; "); err == nil && !strings.Contains(plan, want) {
				t.Errorf("%s\n%s\nwant %s", text, plan, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A step of pruning that finds nothing but what has to stay says that there may be more behind it.
func TestPruningGoesOnBehindWhatStays(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	if err := s.History.Append(t.Context(), []history.Event{{Kind: "k"}}); err != nil {
		t.Fatal(err)
	}
	if err := inside(s).write(t.Context(), func(tx *sql.Tx) error {
		const insert = `WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < ?1)
			INSERT INTO dibs_ticks (job, at, last, count, state, lease_key, lease_owner, lease_token, claimant, run_id, outcome, reason, inferred, reruns, claimed, started, ended)
			SELECT 'j', ?2 + n, ?2 + n, 1, CASE n WHEN ?1 THEN 'closed' ELSE 'claimed' END, '', '', 0, '{}', '', '', '', 0, 0, 0, 0, ?2 FROM i`
		_, err := tx.Exec(insert, prunedLook, time.Now().Add(-48*time.Hour).UnixMicro())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for i, more := range []bool{true, false} {
		if n, again, err := s.History.Prune(t.Context(), time.Now().Add(-time.Hour)); err != nil || n != i || again != more {
			t.Errorf("step %d: %d rows, more: %t, %v", i, n, again, err)
		}
	}
}
