package storetest

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// PausedAhead checks what Unsettle makes of pauses that began, or were ended, when the store's clock was
// further ahead. ahead moves the pause of a job of c's namespace as that would have: its beginning and its end,
// where it has one, one hour further. No store is asked to step its clock.
func PausedAhead(t *testing.T, open Open, c store.Config, ahead func(job string)) {
	w := &world{T: t, ctx: t.Context(), open: open, config: c}
	w.s = w.prepare()
	paused := func(name string, since time.Time, resume bool, until time.Time) tick.Job {
		t.Helper()
		w.setJob(w.s, name, "{}", since)
		w.pause(w.s, tick.PauseRequest{Job: name, Until: until, By: "x"})
		if resume {
			w.pause(w.s, tick.PauseRequest{Job: name, Resume: true})
		}
		ahead(name)
		j := w.job(name)
		if resume && !j.Pause.Ahead(w.now(w.s)) {
			t.Fatalf("its pause was to be an hour ahead: %+v", j.Pause)
		}
		return j
	}
	unsettled := func(j tick.Job, to time.Time) (before, after time.Time, p tick.Pause) {
		t.Helper()
		before = w.now(w.s).Truncate(time.Microsecond)
		equal(w, "Unsettle", w.unsettle(tick.UnsettleRequest{Job: j.Name, From: j.Mark, To: to}), tick.Won)
		return before, w.now(w.s), w.job(j.Name).Pause
	}
	now := w.now(w.s).Truncate(time.Microsecond)
	past, future := now.Add(-time.Hour), now.Add(time.Hour)

	j := paused("on", past, false, time.Time{})
	before, after, p := unsettled(j, j.Mark)
	between(w, "the beginning of a pause that goes on", before, p.Since, after)
	equal(w, "its end is zero", p.Until.IsZero(), true)

	j = paused("on and settled", future, false, time.Time{})
	to := now.Add(-time.Second)
	_, _, p = unsettled(j, to)
	sameTime(w, "the beginning of a pause where the mark is lowered", p.Since, to.Add(time.Microsecond))

	j = paused("ended", past, true, time.Time{})
	before, after, p = unsettled(j, j.Mark)
	between(w, "the end of a pause that was ended", before, p.Until, after)
	sameTime(w, "its beginning", p.Since, p.Until)
	equal(w, "it was ended by somebody", p.Resumed, true)
	claim := tick.ClaimRequest{Job: "ended", At: future, Ahead: 2 * time.Hour, Lease: w.server(w.s)}
	equal(w, "Claim after it", w.claim(w.s, claim).Status, tick.Won)

	j = paused("planned", past, false, future)
	_, _, p = unsettled(j, j.Mark)
	equal(w, "a pause whose end was set beforehand", p, j.Pause)
}
