package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/lease"
)

// A server is on record as long as it serves: also after it lost its lease, and until it has drained and ended.
func TestAServerIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.host(1, -2*time.Second), minute()
		is := func(when string, want fleet.State) fleet.Member {
			t.Helper()
			synctest.Wait()
			s := w.b.Store()
			c, err := fleet.Read(t.Context(), s.Fleet, s.Leases)
			if err != nil || len(c.Members) != 1 || c.Members[0].State != want {
				t.Fatalf("%s: %+v, %v; want it %s", when, c.Members, err, want)
			}
			return c.Members[0]
		}
		h.start(t, newJob(t, "* * * * *", w.target(8*time.Second), nil))
		time.Sleep(time.Second)
		m := is("it has started", fleet.Up)
		if m.Host != "host-1" || m.PID != 1 || m.App != "app" || m.Jobs != 1 || m.ClockOffset == nil || (*m.ClockOffset+2*time.Second).Abs() > time.Second/2 {
			t.Errorf("%+v", m)
		}
		k := h.backend.Keeper
		if _, _, ok, err := k.Break(t.Context(), m.Lease, lease.Broken{By: "test", Why: "a test", Now: true}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		time.Sleep(k.Margin().TTL)
		if again := is("it has another lease", fleet.Up); again.ID != m.ID || again.Lease == m.Lease || !again.Since.Equal(m.Since) {
			t.Errorf("%+v, and before %+v", again, m)
		}
		sleepUntil(at.Add(2 * time.Minute).Add(time.Second)) // it works
		h.cancel()
		time.Sleep(time.Second)
		is("it drains", fleet.Draining)
		<-h.done
		is("it has ended", fleet.Ended)
	})
}
