package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/scheduler"
)

// TestPreparedJobsAreServedFromTheSwapOn: what can fail comes before, and changes nothing here; so the servers of
// several places change together or not at all.
func TestPreparedJobsAreServedFromTheSwapOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(5*time.Minute + time.Second)

		// The same definition with another target: not served by being prepared.
		other := newWorld(t)
		next := newJob(t, "* * * * *", other.target(0), nil)
		p, err := h.Prepare(t.Context(), []*scheduler.Job{next})
		if err != nil {
			t.Fatal(err)
		}
		before := len(w.ran())
		time.Sleep(5 * time.Minute)
		if old, fresh := len(w.ran())-before, len(other.ran()); old != 5 || fresh != 0 {
			t.Errorf("before the swap the old target ran %d times, want 5, and the new one %d, want 0", old, fresh)
		}
		p.Swap()
		p.Close()
		p.Close()
		time.Sleep(5 * time.Minute)
		if old, fresh := len(w.ran())-before, len(other.ran()); old != 5 || fresh != 5 {
			t.Errorf("after it the old target ran %d times, want 5, and the new one %d, want 5", old, fresh)
		}

		// A failure leaves what is served.
		h.cut(true)
		if _, err := h.Prepare(t.Context(), nil); err == nil {
			t.Error("prepared without a store")
		}
		h.cut(false)
		time.Sleep(5 * time.Minute)
		if fresh := len(other.ran()); fresh != 10 {
			t.Errorf("after a failure the new target ran %d times, want 10", fresh)
		}
		h.stop()
	})
}

// A reload while one of two stores cannot be reached serves nothing of the new manifest. What the other backend serves
// goes on, also where its definition is to change.
// Holds: T11.
func TestAReloadWhileOneStoreIsAwayStopsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := newWorld(t), newWorld(t)
		h, away := near.host(1, 0), far.host(2, 0)
		h.start(t, newJob(t, "* * * * *", near.target(0), nil))
		away.start(t, newJob(t, "* * * * *", far.target(0), nil))
		time.Sleep(5*time.Minute + time.Second)
		away.cut(true)
		changes := []scheduler.Change{
			{Server: h.Server, Jobs: []*scheduler.Job{newJob(t, "*/2 * * * *", near.target(0), nil)}},
			{Server: away.Server, Jobs: []*scheduler.Job{newJob(t, "*/2 * * * *", far.target(0), nil)}},
		}
		before := len(near.ran())
		for range 10 {
			if _, err := scheduler.PrepareAll(t.Context(), changes); err == nil {
				t.Fatal("prepared without a store")
			}
			time.Sleep(time.Minute)
		}
		if ran := len(near.ran()) - before; ran != 10 {
			t.Errorf("it ran %d times in 10 minutes in which it could not be reloaded, want 10", ran)
		}
		away.cut(false)
		all, err := scheduler.PrepareAll(t.Context(), changes)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			p.Swap()
			p.Close()
		}
		before = len(near.ran())
		time.Sleep(10 * time.Minute)
		if ran := len(near.ran()) - before; ran != 5 {
			t.Errorf("it ran %d times in 10 minutes after the reload, want 5", ran)
		}
		h.stop()
		away.stop()
	})
}
