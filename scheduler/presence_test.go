package scheduler_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/scheduler"
)

// onRecord makes the server of a host anew, as one that a store keeps on record.
func (w *world) onRecord(h *host, s fleet.Store) *host {
	h.backend.Fleet = s
	h.Server = scheduler.NewServer(h.backend, "app")
	return h
}

// silentFleet answers nothing.
type silentFleet struct{ fleet.Store }

func (silentFleet) Report(ctx context.Context, _ fleet.Process) error {
	<-ctx.Done()
	return ctx.Err()
}

// A record that the store does not take delays no tick, and the end of a server by a part of an rpc timeout at most.
func TestAReportDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.onRecord(w.host(1, 0), silentFleet{}), minute()
		h.start(t, newJob(t, "* * * * *", w.target(time.Second), nil))
		for i := range 3 {
			tick := at.Add(time.Duration(i) * time.Minute)
			sleepUntil(tick.Add(time.Second / 2))
			if w.times(tick) != 1 {
				t.Errorf("half a second after %s it was started %d times", tick, w.times(tick))
			}
		}
		time.Sleep(10 * time.Second)
		told := time.Now()
		h.stop()
		if d := time.Since(told); d > h.backend.Keeper.Margin().RPCTimeout {
			t.Errorf("an idle server took %s to end", d)
		}
	})
}

// A server is on record as long as it serves: also after it lost its lease, and until it has drained and ended.
func TestAServerIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, at := w.onRecord(w.host(1, -2*time.Second), w.b.Store().Fleet), minute()
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
