package scheduler_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
)

// A clock that is off is told of once, by the host whose it is; its ticks are right all the same.
func TestAClockThatIsOffIsAnEvent(t *testing.T) {
	for _, c := range []struct {
		skew time.Duration
		want string
	}{{0, ""}, {900 * time.Millisecond, ""}, {90 * time.Second, "1m30s ahead of"}, {-90 * time.Second, "1m30s behind"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			h := w.host(1, c.skew)
			h.start(t, newJob(t, "* * * * *", w.target(0), nil))
			time.Sleep(30 * time.Minute)
			h.stop()
			if n := len(w.ran()); n < 29 {
				t.Errorf("%d ticks were run in 30 minutes", n)
			}
			events, err := h.backend.History.Events(t.Context(), history.Query{Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, e := range events {
				if e.Kind == "clock-offset" {
					told = append(told, e.Reason)
				}
			}
			if c.want == "" && len(told) > 0 || c.want != "" && (len(told) != 1 || !strings.Contains(told[0], c.want)) {
				t.Errorf("a skew of %s was told as %q", c.skew, told)
			}
		})
	}
}
