//go:build linux

package file

import (
	"testing"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// Holds: L12.
func TestAPauseOfAFastClock(t *testing.T) {
	t.Parallel()
	c, err := store.Parse("file://" + t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	storetest.PausedAhead(t, OpenConfig, c, func(job string) {
		s, err := OpenConfig(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // it is read no more
		db, err := OpenDB(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close() //nolint:errcheck // likewise
		const ahead = `UPDATE dibs_jobs SET paused_since = paused_since + 3600000000,
			paused_until = CASE WHEN paused_until = 0 THEN 0 ELSE paused_until + 3600000000 END WHERE name = ?`
		if _, err := db.ExecContext(t.Context(), ahead, job); err != nil {
			t.Fatal(err)
		}
	})
}
