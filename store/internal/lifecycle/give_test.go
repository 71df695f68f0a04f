package lifecycle

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
)

// Rule L10: a task's token is above its own last one, the last one of its limit, and the time, whatever the
// clock says.
// Holds: L10.
func TestTokensOnlyGrow(t *testing.T) {
	now := time.UnixMicro(1_700_000_000_000_000).UTC()
	us := lease.Token(now.UnixMicro())
	for _, c := range []struct{ own, limit, want lease.Token }{
		{0, 0, us}, {us - 1, us - 1, us}, {us + 5, 0, us + 6}, {0, us + 7, us + 8}, {us + 9, us + 8, us + 10},
	} {
		x := Task{Task: driver.Task{Token: c.own}}
		if x.Give(c.limit, now); x.Token != c.want {
			t.Errorf("after %d, and %d of its limit: %d, want %d", c.own-us, c.limit-us, x.Token-us, c.want-us)
		}
	}
}
