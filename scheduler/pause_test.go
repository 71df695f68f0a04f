package scheduler_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

func (h *host) pause(t *testing.T, req tick.PauseRequest) {
	t.Helper()
	req.Job = "app/j"
	if _, err := h.backend.Pause(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// outcomes counts ticks by how they ended.
func (w *world) outcomes() map[run.Outcome]int {
	n := map[run.Outcome]int{}
	for _, r := range w.history() {
		n[r.Outcome] += max(r.Count, 1)
	}
	return n
}

// Rule T8: the ticks of a pause are final, whatever the policy is about those that were missed.
// Holds: promise 10, T8.
func TestTheTicksOfAPauseEndAsPaused(t *testing.T) {
	for _, catchUp := range []job.CatchUp{job.CatchUpSkip, job.CatchUpAll} {
		t.Run(string(catchUp), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				policy := func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = catchUp, 24*time.Hour }
				a, b := w.host(1, 0), w.host(2, 0)
				a.start(t, newJob(t, "* * * * *", w.target(0), policy))
				b.start(t, newJob(t, "* * * * *", w.target(0), policy))
				time.Sleep(5 * time.Minute)
				b.pause(t, tick.PauseRequest{By: "ann", Why: "a test"})
				ran := len(w.ran())
				time.Sleep(30 * time.Minute)
				if len(w.ran()) != ran {
					t.Errorf("%d ticks of the pause were run", len(w.ran())-ran)
				}
				b.pause(t, tick.PauseRequest{By: "bob", Resume: true})
				time.Sleep(10 * time.Minute)
				a.stop()
				b.stop()
				n := w.outcomes()
				if n[run.Paused] != 30 || n[run.Missed] != 0 || n[run.Succeeded] != len(w.ran()) || len(w.ran()) < 14 || len(w.ran()) > 15 {
					t.Errorf("outcomes %v, %d runs; want 30 paused, none missed, 15 run", n, len(w.ran()))
				}
				for _, r := range w.history() {
					if r.Outcome == run.Paused && (r.Inferred || r.Reason == "") {
						t.Errorf("a paused row: %+v", r)
					}
				}
				events, err := a.backend.History.Events(t.Context(), history.Query{Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]int{}
				for _, e := range events {
					seen[e.Kind]++
				}
				if seen["job-paused"] != 1 || seen["job-resumed"] != 1 {
					t.Errorf("events %v", seen)
				}
			})
		})
	}
}

// A pause that ends by itself; and one after another while nobody is there to settle.
func TestPausesThatNobodySettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(5 * time.Minute)
		h.stop()
		admin := w.host(3, 0)
		now := func() time.Time {
			at, err := admin.backend.Keeper.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		admin.pause(t, tick.PauseRequest{By: "ann", Until: now().Add(10 * time.Minute)})
		time.Sleep(20 * time.Minute) // ten ticks are nobody's
		admin.pause(t, tick.PauseRequest{By: "ann"})
		time.Sleep(10 * time.Minute)
		admin.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		h = w.host(2, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(10 * time.Minute)
		h.stop()
		n := w.outcomes()
		if n[run.Paused] != 20 || n[run.Missed] < 9 || n[run.Missed] > 10 {
			t.Errorf("outcomes %v; want 20 paused and 10 missed", n)
		}
	})
}

// What was missed before a pause is caught up on after it.
func TestAPauseOnlyDelaysWhatWasMissedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		policy := func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpAll, 24*time.Hour }
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), policy))
		time.Sleep(5 * time.Minute)
		h.stop()
		time.Sleep(10 * time.Minute)
		admin := w.host(3, 0)
		admin.pause(t, tick.PauseRequest{By: "ann", Why: "a test"})
		before := len(w.ran())
		h = w.host(2, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), policy))
		time.Sleep(10 * time.Minute)
		if len(w.ran()) != before {
			t.Errorf("%d ticks were run during the pause", len(w.ran())-before)
		}
		admin.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		time.Sleep(10 * time.Minute)
		h.stop()
		n := w.outcomes()
		if n[run.Paused] != 10 || n[run.Missed] != 0 || len(w.ran()) < 24 {
			t.Errorf("outcomes %v, %d runs; want 10 paused, none missed", n, len(w.ran()))
		}
	})
}

// A pause begins no run: not one that was claimed before and waited for its lease either.
func TestAPauseStopsWhatWaitsForItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, admin := w.host(1, 0), w.host(3, 0)
		h.start(t, newJob(t, "*/5 * * * *", w.target(8*time.Minute), func(p *job.Policy) { p.Concurrency = job.Wait }))
		time.Sleep(11 * time.Minute) // the tick of 00:05 runs until 00:13, that of 00:10 waits
		admin.pause(t, tick.PauseRequest{By: "ann", Why: "a test"})
		time.Sleep(10 * time.Minute)
		if len(w.ran()) != 1 {
			t.Errorf("%d runs began; want the one before the pause", len(w.ran()))
		}
		admin.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		h.stop()
		for _, r := range w.history() {
			if r.At.Minute() == 10 && r.Outcome != run.Paused {
				t.Errorf("the tick that waited: %+v", r)
			}
		}
	})
}

// A tick of a pause is paused, also where the store was down when it was due.
func TestAPausedTickIsNotUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, admin := w.host(1, 0), w.host(3, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(3 * time.Minute)
		admin.pause(t, tick.PauseRequest{By: "ann", Why: "a test"})
		time.Sleep(time.Minute)
		h.cut(true)
		time.Sleep(5 * time.Minute)
		h.cut(false)
		time.Sleep(5 * time.Minute)
		admin.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		time.Sleep(5 * time.Minute)
		h.stop()
		if n := w.outcomes(); n[run.Unavailable] != 0 || n[run.Paused] != 11 {
			t.Errorf("outcomes %v; want 11 paused, none unavailable", n)
		}
	})
}

// Rule T8: the next pause leaves none of the one before without its outcome, however many ticks that had.
// Holds: promise 10, T8.
func TestTheTicksOfALongPauseEndAsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "@every 1s", w.target(0), nil))
		time.Sleep(10 * time.Second)
		operator := w.host(9, 0)
		operator.pause(t, tick.PauseRequest{By: "ann", Why: "the first"})
		h.stop()
		begun := time.Now()
		time.Sleep(7 * time.Hour)
		operator.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		ended := time.Now()
		time.Sleep(time.Minute)
		operator.pause(t, tick.PauseRequest{By: "ann", Why: "the second"})
		time.Sleep(time.Minute)
		h = w.host(2, 0)
		h.start(t, newJob(t, "@every 1s", w.target(0), nil))
		time.Sleep(time.Minute)
		h.stop()
		paused, want := 0, int(ended.Sub(begun)/time.Second)
		for _, r := range w.allRows(t) {
			if !r.At.After(begun) || !r.At.Before(ended) {
				continue
			}
			if r.Outcome != run.Paused {
				t.Errorf("%d ticks from %s on ended as %s", max(r.Count, 1), r.At, r.Outcome)
				continue
			}
			paused += max(r.Count, 1)
		}
		if paused < want-1 {
			t.Errorf("%d of %d ticks of the first pause ended as paused", paused, want)
		}
	})
}
