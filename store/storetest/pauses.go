package storetest

import (
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

var pausePromises = []promise{
	{"a pause begins now, and comes back as it was written", beginPause},
	{"a pause that goes on keeps its beginning", prolongPause},
	{"a pause ends when it is resumed", resumePause},
	{"a pause ends by itself", endPause},
	{"only a registered job is paused", pauseUnregistered},
	{"no tick of a pause is claimed, all others are", claimAroundPause},
	{"a tick of a pause can be closed", closeInPause},
	{"a definition keeps its pause", defineInPause},
}

func (w *world) pause(s *store.Store, req tick.PauseRequest) tick.Job {
	w.Helper()
	j, err := s.Ticks.Pause(w.ctx, req)
	w.check("Pause", err)
	return j
}

func beginPause(w *world) {
	first := w.setJob(w.s, "j", "{}", w.at(0))
	equal(w, "the pause of a new job", first.Pause, tick.Pause{})
	before, until := w.now(w.s), w.at(600)
	j := w.pause(w.process(), tick.PauseRequest{Job: "j", Until: until, By: "ann@host é", Why: `maintenance "\ 🐘`})
	between(w, "its beginning", before, j.Pause.Since, w.now(w.s))
	equal(w, "the pause", j.Pause, tick.Pause{Since: j.Pause.Since, Until: until, By: "ann@host é", Why: `maintenance "\ 🐘`})
	equal(w, "the generation", j.Generation, first.Generation)
	equal(w, "as another process lists it", w.job("j"), j)
	equal(w, "as a registration answers it", w.setJob(w.s, "j", "{}", w.at(0)), j)
}

func prolongPause(w *world) {
	w.setJob(w.s, "j", "{}", w.at(0))
	first := w.pause(w.s, tick.PauseRequest{Job: "j", Until: w.at(600), By: "ann", Why: "one"})
	second := w.pause(w.process(), tick.PauseRequest{Job: "j", By: "bob", Why: "two"})
	equal(w, "the pause", second.Pause, tick.Pause{Since: first.Pause.Since, By: "bob", Why: "two"})
}

func resumePause(w *world) {
	w.setJob(w.s, "j", "{}", w.at(0))
	equal(w, "what a resume makes of none", w.pause(w.s, tick.PauseRequest{Job: "j", Resume: true}).Pause, tick.Pause{})
	paused := w.pause(w.s, tick.PauseRequest{Job: "j", By: "ann", Why: "one"})
	before := w.now(w.s)
	resumed := w.pause(w.process(), tick.PauseRequest{Job: "j", By: "bob", Resume: true}).Pause
	between(w, "its end", before, resumed.Until, w.now(w.s))
	equal(w, "the pause that ended", resumed, tick.Pause{Since: paused.Pause.Since, Until: resumed.Until, By: "ann", Why: "one"})
	equal(w, "a second resume", w.pause(w.s, tick.PauseRequest{Job: "j", Resume: true}).Pause, resumed)
	again := w.pause(w.s, tick.PauseRequest{Job: "j", By: "cem"}).Pause
	equal(w, "the next pause", again, tick.Pause{Since: again.Since, By: "cem"})
	equal(w, "it begins after the one before", again.Since.Before(resumed.Until), false)
}

func endPause(w *world) {
	w.setJob(w.s, "j", "{}", w.at(0))
	first := w.pause(w.s, tick.PauseRequest{Job: "j", Until: w.now(w.s).Add(20 * time.Millisecond).Truncate(time.Microsecond)}).Pause
	w.until(first.Until.Add(time.Millisecond))
	equal(w, "what a resume makes of one that ended", w.pause(w.s, tick.PauseRequest{Job: "j", Resume: true}).Pause, first)
	second := w.pause(w.s, tick.PauseRequest{Job: "j"}).Pause
	equal(w, "the next one begins after it", second.Since.After(first.Until), true)
}

func pauseUnregistered(w *world) {
	equal(w, "a job that is not registered", w.pause(w.s, tick.PauseRequest{Job: "j"}), tick.Job{Name: "j"})
	equal(w, "it is registered by that", w.job("j"), tick.Job{})
	w.setJob(w.s, "j", "{}", w.at(0))
	w.setJob(w.s, "j", "", w.at(1))
	equal(w, "a job that was removed", w.pause(w.s, tick.PauseRequest{Job: "j"}), tick.Job{Name: "j"})
}

func claimAroundPause(w *world) {
	w.setJob(w.s, "j", "{}", w.at(0))
	w.setJob(w.s, "other", "{}", w.at(0))
	server, day := w.server(w.s), 24*time.Hour
	p := w.pause(w.process(), tick.PauseRequest{Job: "j", Until: w.at(0).Add(day)}).Pause
	for _, c := range []struct {
		what, job string
		at        time.Time
		want      tick.Status
	}{
		{"the last tick before it", "j", p.Since.Add(-time.Microsecond), tick.Won},
		{"its first tick", "j", p.Since, tick.Paused},
		{"its last tick", "j", p.Until.Add(-time.Microsecond), tick.Paused},
		{"the first tick after it", "j", p.Until, tick.Won},
		{"a tick of another job", "other", p.Since, tick.Won},
	} {
		a := w.claim(w.s, tick.ClaimRequest{Job: c.job, At: c.at, Lease: server, Ahead: 2 * day})
		equal(w, c.what, a.Status, c.want)
	}
	equal(w, "a tick that was claimed before the pause, again",
		w.claim(w.s, tick.ClaimRequest{Job: "j", At: p.Since.Add(-time.Microsecond), Lease: server}).Status, tick.Won)
	w.pause(w.s, tick.PauseRequest{Job: "j"})
	equal(w, "a tick of one without an end", w.claim(w.s, tick.ClaimRequest{Job: "j", At: p.Until.Add(day), Lease: server, Ahead: 3 * day}).Status, tick.Paused)
}

func closeInPause(w *world) {
	w.setJob(w.s, "j", "{}", w.at(0))
	server := w.server(w.s)
	p := w.pause(w.s, tick.PauseRequest{Job: "j"}).Pause
	a := w.claim(w.s, tick.ClaimRequest{Job: "j", At: p.Since, Lease: server, Outcome: run.Paused, Reason: "by ann"})
	equal(w, "the claim", a.Status, tick.Won)
	equal(w, "its outcome", a.Tick.Outcome, run.Paused)
}

func defineInPause(w *world) {
	w.setJob(w.s, "j", "{}", w.at(0))
	p := w.pause(w.s, tick.PauseRequest{Job: "j", By: "ann"}).Pause
	equal(w, "the pause under another definition", w.setJob(w.process(), "j", `{"x":1}`, w.at(1)).Pause, p)
}
