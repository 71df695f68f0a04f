package mysql

import (
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/storetest"
)

// Holds: promise 1, L12.
func TestAHoldOfAFastClockIsShortened(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.MariaDB(t))
	storetest.Overlong(t, OpenConfig, c, func(key lease.Key) {
		exec(t, raw(t, c.URL.String(), nil), "UPDATE dibs_leases SET expires = expires + 3600000000 WHERE ns = ? AND lease_key = ?", []byte(c.Namespace), []byte(key))
	})
}

// Holds: L12.
func TestAPauseOfAFastClock(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.MariaDB(t))
	storetest.PausedAhead(t, OpenConfig, c, func(job string) {
		exec(t, raw(t, c.URL.String(), nil), `UPDATE dibs_jobs SET paused_since = paused_since + 3600000000,
			paused_until = IF(paused_until = 0, 0, paused_until + 3600000000) WHERE ns = ? AND name = ?`, []byte(c.Namespace), []byte(job))
	})
}
