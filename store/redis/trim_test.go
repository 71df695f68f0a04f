package redis

import (
	"testing"

	"github.com/dibs-run/dibs/internal/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestAHoldOfAFastClockIsShortened(t *testing.T) {
	_, c := prepared(t, testserver.Redis(t))
	storetest.Overlong(t, Open, c, func(key lease.Key) {
		raw, name := rawClient(t, c), "dibs:{"+c.Namespace+"}:lease:"+string(key)
		if err := raw.HIncrBy(t.Context(), name, "expires", 3_600_000_000).Err(); err != nil {
			t.Fatal(err)
		}
	})
}
