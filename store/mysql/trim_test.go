package mysql

import (
	"testing"

	"github.com/dibs-run/dibs/internal/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestAHoldOfAFastClockIsShortened(t *testing.T) {
	c := config(t, testserver.MariaDB(t))
	storetest.Overlong(t, Open, c, func(key lease.Key) {
		exec(t, raw(t, c.URL.String(), nil), "UPDATE dibs_leases SET expires = expires + 3600000000 WHERE ns = ? AND lease_key = ?", []byte(c.Namespace), []byte(key))
	})
}
