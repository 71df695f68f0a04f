//go:build linux

package file

import (
	"database/sql"
	"strings"
	"testing"
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
