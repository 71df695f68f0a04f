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
