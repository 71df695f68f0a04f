package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
)

// synctest's time begins at midnight UTC, 1 January 2000, a Saturday.

// Rule T5: a tick outside its job's windows is skipped, whether or not anybody was there, and
// nothing catches up on it.
// Holds: T5.
func TestTicksOutsideTheWindowsAreSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) {
			p.Between, p.UnlessBetween = []string{"08:00-12:00", "SAT 14:00-16:00"}, []string{"10:00-11:00"}
			p.CatchUp, p.CatchUpWindow = job.CatchUpAll, 72*time.Hour
		}
		run1 := func(seed uint64, d time.Duration) {
			h := w.host(seed, 0)
			h.start(t, newJob(t, "0 * * * *", w.target(0), policy))
			time.Sleep(d)
			h.stop()
		}
		run1(1, 9*time.Hour)       // Saturday until 09:00: 08 and 09 run
		time.Sleep(24 * time.Hour) // nobody is there: 11, 14, 15 and Sunday's 08 and 09 are missed
		run1(2, 16*time.Hour)      // until Monday 01:00: they are caught up on, and 11 runs
		want := map[string]bool{}
		for _, at := range []string{"01T08", "01T09", "01T11", "01T14", "01T15", "02T08", "02T09", "02T11"} {
			want["2000-01-"+at] = true
		}
		got := map[string]bool{}
		for at := range w.ran() {
			got[at.UTC().Format("2006-01-02T15")] = true
		}
		for at := range want {
			if !got[at] {
				t.Errorf("%s was not run", at)
			}
		}
		for at := range got {
			if !want[at] {
				t.Errorf("%s was run", at)
			}
		}
		n := w.outcomes()
		if n[run.Missed] != 0 || n[run.Skipped] < 30 {
			t.Errorf("outcomes %v", n)
		}
		for _, r := range w.history() {
			if r.Outcome == run.Skipped && (r.Reason != run.ReasonWindow || r.Inferred) {
				t.Errorf("%+v", r)
			}
		}
	})
}

// A job starts later than its tick by its own share of its jitter: the same on every server, each
// time, and never missed for that. Its tick is what it was.
func TestJitterIsAJobsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) { p.Jitter = 10 * time.Minute }
		a, b := w.host(1, 0), w.host(2, 0)
		j := newJob(t, "0 * * * *", w.target(0), policy)
		a.start(t, j)
		b.start(t, newJob(t, "0 * * * *", w.target(0), policy))
		time.Sleep(12 * time.Hour)
		a.stop()
		b.stop()
		if len(w.ran()) != 12 && len(w.ran()) != 11 {
			t.Errorf("%d runs in 12 hours", len(w.ran()))
		}
		share := j.Starts(time.Time{}).Sub(time.Time{})
		if share <= 0 || share >= 10*time.Minute {
			t.Errorf("its share is %s", share)
		}
		for _, r := range w.history() {
			if late := r.Started.Sub(r.At) - share; r.Outcome != run.Succeeded || r.At.Minute() != 0 || late < 0 || late > 2*time.Second {
				t.Errorf("tick %s was started at %s: %+v", r.At, r.Started, r)
			}
		}
		other := newJob(t, "0 * * * *", w.target(0), policy)
		other.Spec.Name = "other"
		if other.Starts(time.Time{}).Equal(j.Starts(time.Time{})) {
			t.Error("another job has the same share")
		}
	})
}
