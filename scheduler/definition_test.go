package scheduler_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// Rule T11: a host that was cut off while a schedule changed, or its job was removed, has seen instants
// pass that are no ticks: what it noted of them is not recorded.
// Holds: T11.
func TestAWitnessOfWhatIsNoTickAnyMoreIsNotHeard(t *testing.T) {
	for name, after := range map[string]func(*world, *testing.T, *host){
		"changed": func(w *world, t *testing.T, h *host) { h.start(t, newJob(t, "*/7 * * * *", w.target(0), nil)) },
		"removed": func(w *world, t *testing.T, h *host) { h.start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				away, there := w.host(1, 0), w.host(2, 0)
				away.start(t, newJob(t, "* * * * *", w.target(0), nil))
				time.Sleep(3 * time.Minute)
				away.cut(true)
				changed := time.Now()
				after(w, t, there)
				time.Sleep(5 * time.Minute)
				if len(away.spool.kept()) == 0 {
					t.Fatal("the host that is cut off noted nothing")
				}
				away.cut(false)
				time.Sleep(10 * time.Minute)
				away.stop()
				there.stop()
				for _, r := range w.history() {
					if r.At.After(changed) && r.Outcome == run.Unavailable && r.At.Minute()%7 != 0 {
						t.Errorf("tick %s, of a schedule that ended at %s, is %s: %s", r.At, changed, r.Outcome, r.Reason)
					}
				}
				if n := len(away.spool.kept()); n > 0 {
					t.Errorf("%d items are kept still", n)
				}
			})
		})
	}
}

// A server that read a definition before it was replaced concludes nothing under the new one.
// Holds: T11.
func TestAnOldDefinitionConcludesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(3 * time.Minute)
		old, err := h.backend.Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/j"}})
		if err != nil {
			t.Fatal(err)
		}
		h.stop()
		h = w.host(2, 0)
		h.start(t, newJob(t, "0 0 * * *", w.target(0), nil))
		changed := time.Now()
		time.Sleep(20 * time.Minute)
		if _, err := h.backend.Conclude(t.Context(), old[0]); err != nil {
			t.Fatal(err)
		}
		h.stop()
		for _, r := range w.history() {
			if r.At.After(changed) {
				t.Errorf("%s has a row under a schedule that has no tick there: %+v", r.At, r)
			}
		}
	})
}

// Rule T11: a server settles nothing by its own schedule once the store has another one, even if it
// never claims a tick of that job and so is never told.
// Holds: T11.
func TestAServerWithAnOldDefinitionSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old, fresh := w.host(1, 0), w.host(2, 0)
		j := newJob(t, "* * * * *", w.target(0), nil)
		j.Dormant = true
		old.start(t, j)
		time.Sleep(3 * time.Minute)
		fresh.start(t, newJob(t, "0 0 * * *", w.target(0), nil))
		changed := time.Now()
		time.Sleep(time.Minute)
		fresh.stop()
		time.Sleep(20 * time.Minute)
		old.stop()
		for _, r := range w.history() {
			if r.At.After(changed) {
				t.Errorf("%s … %s (%s, %d) was settled by a schedule that ended at %s", r.At, r.Through, r.Outcome, r.Count, changed)
			}
		}
		events, err := w.b.Store().History.Events(t.Context(), history.Query{})
		if err != nil || !slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == "manifest-differs" }) {
			t.Errorf("it did not say that it has another definition: %+v %v", events, err)
		}
	})
}

// The same of who settles while the store's clock stands before what is settled already: the mark
// has moved all the same.
func TestAnOldDefinitionSettlesNothingAfterAStepBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var step time.Duration
		w.b = memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(step) }})
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(10 * time.Minute)
		h.stop()
		old, err := w.b.Store().Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/j"}})
		if err != nil {
			t.Fatal(err)
		}
		step = -time.Hour
		h = w.host(2, 0)
		h.start(t, newJob(t, "0 0 * * *", w.target(0), nil))
		h.stop()
		a, err := w.b.Store().Ticks.Settle(t.Context(), tick.SettleRequest{Job: "app/j", From: old[0].Mark, To: old[0].Mark.Add(time.Hour)})
		if err != nil || a.Status != tick.Taken {
			t.Errorf("who settles by the definition that ended is answered %s %v", a.Status, err)
		}
	})
}

// slowly registers jobs after a while.
type slowly struct{ tick.Store }

func (s slowly) SetJobs(ctx context.Context, r []tick.JobRequest) ([]tick.Job, error) {
	time.Sleep(5 * time.Second)
	return s.Store.SetJobs(ctx, r)
}

// Rule T11: no tick falls between the end of one definition and the registration of the next.
// Holds: T11.
func TestNoTickFallsBetweenTwoDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.host(1, 0)
		h.start(t, newJob(t, "* * * * *", w.target(0), nil))
		time.Sleep(3 * time.Minute)
		h.stop()
		now := time.Now()
		time.Sleep(now.Truncate(time.Minute).Add(118 * time.Second).Sub(now)) // two seconds before a tick
		h = w.host(2, 0)
		h.backend.Ticks = slowly{h.backend.Ticks}
		h.start(t, newJob(t, "0 0 * * *", w.target(0), nil))
		jobs, err := w.b.Store().Ticks.Jobs(t.Context(), tick.JobQuery{Names: []string{"app/j"}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute) // what the first one left open gets its outcome
		h.stop()
		told := map[int64]bool{}
		for _, r := range w.history() {
			for at := r.At; at.Equal(r.At) || !at.After(r.Through); at = at.Add(time.Minute) {
				told[at.Unix()] = true
			}
		}
		for at := now.Truncate(time.Minute); at.Before(jobs[0].Since); at = at.Add(time.Minute) {
			if !told[at.Unix()] {
				t.Errorf("%s has no outcome; the new definition counts since %s", at, jobs[0].Since)
			}
		}
	})
}
