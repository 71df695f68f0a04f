package scheduler_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// foreseen fails for each outcome, but of what somebody won, that lies ahead of the clock.
func (w *world) foreseen(t *testing.T) {
	t.Helper()
	for _, r := range w.history() {
		if r.At.After(time.Now()) && r.RunID == "" && r.Reason != run.ReasonOverlap {
			t.Errorf("%s is %s already: %s", r.At, r.Outcome, r.Reason)
		}
	}
}

// A definition that ends on a fast clock, while a run is under way, has its ticks closed one by one up to what that
// clock says. Once it is right again they are taken back: those of the new definition are run when their time comes.
// Holds: L12.
func TestWhatWasConcludedOnAFastClockIsDueAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		old, next := w.host(1, 0), w.host(2, 0)
		old.start(t, newJob(t, "*/10 * * * * *", w.target(7*time.Minute), nil))
		time.Sleep(time.Minute)
		step(time.Hour)
		time.Sleep(3 * time.Minute)
		next.start(t)
		time.Sleep(10 * time.Second)
		step(-time.Hour)
		next.stop()
		time.Sleep(2 * time.Minute)
		next = w.host(3, 0)
		next.start(t, newJob(t, "*/20 * * * * *", w.target(time.Second), nil))
		ahead := 0
		for _, r := range w.history() {
			if r.Outcome == run.Missed && r.At.After(time.Now().Add(time.Minute)) {
				ahead++
			}
		}
		if ahead < 300 {
			t.Fatalf("%d ticks were concluded ahead of the clock", ahead)
		}
		w.runsEvery20s(t)
		w.foreseen(t)
		if told := w.reasons("ticks-taken-back"); len(told) == 0 {
			t.Error("no event says that ticks were taken back")
		}
		old.stop()
		next.stop()
		w.once(t)
	})
}

func (w *world) runsEvery20s(t *testing.T) {
	t.Helper()
	time.Sleep(5 * time.Minute)
	before := len(w.ran())
	time.Sleep(2 * time.Minute)
	if n := len(w.ran()) - before; n != 6 {
		t.Errorf("%d ticks were run in two minutes", n)
	}
}

// A definition that was registered on a fast clock is in force once the clock is right, not an hour later; meanwhile
// the one before it goes on.
// Holds: T11.
func TestADefinitionOfAFastClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		old, next := w.host(1, 0), w.host(2, 0)
		old.start(t, newJob(t, "*/10 * * * * *", w.target(7*time.Minute), nil))
		time.Sleep(time.Minute)
		step(time.Hour)
		time.Sleep(3 * time.Minute)
		next.start(t, newJob(t, "*/20 * * * * *", w.target(time.Second), nil))
		time.Sleep(10 * time.Second)
		step(-time.Hour)
		w.runsEvery20s(t)
		w.foreseen(t)
		if told := w.reasons("definition-brought-back"); len(told) != 1 {
			t.Errorf("events of it: %q", told)
		}
		old.stop()
		next.stop()
		w.once(t)
	})
}

// The ticks of a pause that ended on a fast clock are closed one by one when the next pause begins, where the job
// catches up on others: the mark does not lie ahead then.
// Holds: L12.
func TestWhatAPauseEndedOnAFastClockIsDueAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		j := newJob(t, "*/10 * * * * *", w.target(time.Second), catchesUp)
		w.pausedAhead(t, j, step, time.Hour)
		if n := w.outcomes()[run.Paused]; n < 300 {
			t.Fatalf("%d ticks are paused", n)
		}
		h := w.host(2, 0)
		h.start(t, j)
		time.Sleep(3 * time.Minute)
		w.foreseen(t)
		if told := w.reasons("ticks-taken-back"); len(told) == 0 {
			t.Error("no event says that ticks were taken back")
		}
		before := len(w.ran())
		time.Sleep(2 * time.Minute)
		if n := len(w.ran()) - before; n != 12 {
			t.Errorf("%d ticks were run in two minutes", n)
		}
		h.stop()
		w.once(t)
	})
}

// pausedAhead leaves a job with ticks that are closed as paused up to what a clock that was fast said, and a mark that
// does not lie ahead. No server is up then.
func (w *world) pausedAhead(t *testing.T, j *scheduler.Job, step func(time.Duration), fast time.Duration) {
	t.Helper()
	h := w.host(1, 0)
	h.start(t, j)
	time.Sleep(25 * time.Minute)
	h.pause(t, tick.PauseRequest{By: "ann"})
	step(fast)
	time.Sleep(3 * time.Minute)
	h.stop()
	h.pause(t, tick.PauseRequest{By: "ann", Resume: true})
	time.Sleep(time.Second)
	h.pause(t, tick.PauseRequest{By: "bob"})
	h.pause(t, tick.PauseRequest{By: "bob", Resume: true})
	step(-fast)
	if a := scheduler.Ahead(w.registered(), time.Now()); a != 0 {
		t.Fatalf("it is settled %s ahead of the store's clock", a)
	}
}

// A process that fires one tick takes it back, if it was concluded on a fast clock and no server is up.
// Holds: L12.
func TestASingleTickThatWasConcludedOnAFastClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		j := newJob(t, "*/10 * * * *", w.target(time.Second), catchesUp)
		w.pausedAhead(t, j, step, 5*time.Hour)
		at := time.Now().Truncate(10 * time.Minute).Add(20 * time.Minute).UTC()
		time.Sleep(time.Until(at))
		if row := w.rowAt(at); row.Outcome != run.Paused || scheduler.Ahead(w.registered(), time.Now()) != 0 {
			t.Fatalf("the tick is %+v, the job %+v", row, w.registered())
		}
		res, a, err := w.host(9, 0).backend.Trigger(t.Context(), t.Context(), j, at)
		if err != nil || a.Status != tick.Won || res.Outcome != run.Succeeded {
			t.Errorf("%+v, %v: %v", res, a.Status, err)
		}
		w.once(t)
	})
}

// The same of a pause that was ended on a fast clock: it ends when that is taken back, for the ticks after it.
// Holds: L12.
func TestASingleTickOfAPauseThatWasEndedOnAFastClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, step := stepping(t)
		j := newJob(t, "*/10 * * * *", w.target(time.Second), catchesUp)
		h := w.host(1, 0)
		h.start(t, j)
		time.Sleep(25 * time.Minute)
		h.pause(t, tick.PauseRequest{By: "ann"})
		step(5 * time.Hour)
		time.Sleep(3 * time.Minute)
		h.stop()
		h.pause(t, tick.PauseRequest{By: "ann", Resume: true})
		step(-5 * time.Hour)
		at := time.Now().Truncate(10 * time.Minute).Add(10 * time.Minute).UTC()
		time.Sleep(time.Until(at))
		if known := w.registered(); !known.Pause.Covers(time.Now()) {
			t.Fatalf("the job is %+v", known)
		}
		for i, want := range []tick.Status{tick.Paused, tick.Won} {
			at := at.Add(time.Duration(i) * 10 * time.Minute)
			time.Sleep(time.Until(at))
			_, a, err := w.host(uint64(9+i), 0).backend.Trigger(t.Context(), t.Context(), j, at)
			if err != nil || a.Status != want {
				t.Errorf("the tick at %s is %v, want %v: %v", at, a.Status, want, err)
			}
		}
	})
}

func (w *world) rowAt(at time.Time) tick.Tick {
	for _, r := range w.history() {
		if r.At.Equal(at) {
			return r
		}
	}
	return tick.Tick{}
}

// A pause that was ended on a fast clock is over when that clock is right again, and one that began then goes on.
// Holds: L12.
func TestAPauseOfAFastClock(t *testing.T) {
	for _, resumed := range []bool{true, false} {
		for _, begun := range []bool{true, false} { // on the fast clock
			t.Run(fmt.Sprint("resumed ", resumed, ", begun then ", begun), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, step := stepping(t)
					h := w.host(1, 0)
					h.start(t, newJob(t, "*/10 * * * * *", w.target(time.Second), nil))
					time.Sleep(2 * time.Minute)
					if !begun {
						h.pause(t, tick.PauseRequest{By: "ann"})
					}
					step(time.Hour)
					time.Sleep(3 * time.Minute)
					if begun {
						h.pause(t, tick.PauseRequest{By: "ann"})
						time.Sleep(time.Minute)
					}
					if resumed {
						h.pause(t, tick.PauseRequest{By: "ann", Resume: true})
					}
					step(-time.Hour)
					time.Sleep(3 * time.Minute)
					before := len(w.ran())
					time.Sleep(20 * time.Minute)
					want := 0
					if resumed {
						want = 120
					}
					if n := len(w.ran()) - before; n != want {
						t.Errorf("%d ticks were run in 20 minutes, want %d; the job is %+v", n, want, w.registered())
					}
					told := w.reasons("pause-brought-back")
					if ahead := resumed || begun; ahead != (len(told) > 0) {
						t.Errorf("the events say %q", told)
					}
					w.foreseen(t)
					h.stop()
					w.once(t)
				})
			})
		}
	}
}

func catchesUp(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpAll, 24*time.Hour }
