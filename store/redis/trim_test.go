package redis

import (
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/storetest"
)

// Holds: promise 1, L12.
func TestAHoldOfAFastClockIsShortened(t *testing.T) {
	t.Parallel()
	_, c := prepared(t, testserver.Redis(t))
	storetest.Overlong(t, OpenConfig, c, func(key lease.Key) {
		raw, name := rawClient(t, c), "dibs:{"+c.Namespace+"}:lease:"+string(key)
		if err := raw.HIncrBy(t.Context(), name, "expires", 3_600_000_000).Err(); err != nil {
			t.Fatal(err)
		}
	})
}

// Holds: L12.
func TestAPauseOfAFastClock(t *testing.T) {
	t.Parallel()
	_, c := prepared(t, testserver.Redis(t))
	storetest.PausedAhead(t, OpenConfig, c, func(job string) {
		raw, name := rawClient(t, c), "dibs:{"+c.Namespace+"}:job:"+job
		for _, field := range []string{"paused_since", "paused_until"} {
			if us, err := raw.HGet(t.Context(), name, field).Int64(); err != nil {
				t.Fatal(err)
			} else if us > 0 {
				raw.HIncrBy(t.Context(), name, field, 3_600_000_000)
			}
		}
	})
}
