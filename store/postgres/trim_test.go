package postgres

import (
	"testing"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// Holds: promise 1, L12.
func TestAHoldOfAFastClockIsShortened(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c store.Config) {
		storetest.Overlong(t, OpenConfig, c, func(key lease.Key) {
			const ahead = "UPDATE dibs.leases SET expires = expires + 3600000000 WHERE ns = $1 AND key = $2"
			if _, err := superuser(t, c.URL.String()).Exec(t.Context(), ahead, c.Namespace, []byte(key)); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// Holds: L12.
func TestAPauseOfAFastClock(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, c store.Config) {
		storetest.PausedAhead(t, OpenConfig, c, func(job string) {
			const ahead = `UPDATE dibs.jobs SET paused_since = paused_since + 3600000000,
				paused_until = CASE WHEN paused_until = 0 THEN 0 ELSE paused_until + 3600000000 END WHERE ns = $1 AND name = $2`
			if _, err := superuser(t, c.URL.String()).Exec(t.Context(), ahead, c.Namespace, []byte(job)); err != nil {
				t.Fatal(err)
			}
		})
	})
}
