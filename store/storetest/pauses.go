package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
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
	{"no tick is claimed during a pause", claimInPause},
	{"no tick of a pause is claimed after it, all others are", claimAfterPause},
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
	equal(w, "the pause that ended", resumed, tick.Pause{Since: paused.Pause.Since, Until: resumed.Until, Resumed: true, By: "ann", Why: "one"})
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

// claims tries ticks around a pause, and one of another job.
func (w *world) claims(p tick.Pause, server lease.Ref, want map[string]tick.Status) {
	w.Helper()
	for what, at := range map[string]time.Time{
		"the last tick before it":   p.Since.Add(-time.Microsecond),
		"its first tick":            p.Since,
		"its last tick":             p.Until.Add(-time.Microsecond),
		"the first tick after it":   p.Until,
		"the tick of another job":   p.Since,
		"a tick that was another's": w.at(0),
	} {
		job := "j"
		if what == "the tick of another job" {
			job = "other"
		}
		a := w.claim(w.s, tick.ClaimRequest{Job: job, At: at, Lease: server, Ahead: 48 * time.Hour})
		equal(w, what, a.Status, want[what])
	}
}

func claimInPause(w *world) {
	w.setJob(w.s, "j", "{}", w.at(0))
	w.setJob(w.s, "other", "{}", w.at(0))
	server := w.server(w.s)
	equal(w, "a claim before the pause", w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(0), Lease: w.server(w.process())}).Status, tick.Won)
	p := w.pause(w.process(), tick.PauseRequest{Job: "j", Until: w.at(0).Add(24 * time.Hour)}).Pause
	w.claims(p, server, map[string]tick.Status{"the last tick before it": tick.Paused, "its first tick": tick.Paused,
		"its last tick": tick.Paused, "the first tick after it": tick.Paused, "the tick of another job": tick.Won,
		"a tick that was another's": tick.Taken})
	w.pause(w.s, tick.PauseRequest{Job: "j"})
	equal(w, "a tick of one without an end", w.claim(w.s, tick.ClaimRequest{Job: "j", At: p.Until, Lease: server, Ahead: 48 * time.Hour}).Status, tick.Paused)
}

func claimAfterPause(w *world) {
	w.setJob(w.s, "j", "{}", w.at(0))
	w.setJob(w.s, "other", "{}", w.at(0))
	server := w.server(w.s)
	equal(w, "a claim before the pause", w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(0), Lease: w.server(w.process())}).Status, tick.Won)
	w.pause(w.process(), tick.PauseRequest{Job: "j"})
	w.until(w.now(w.s).Add(2 * time.Millisecond))
	p := w.pause(w.process(), tick.PauseRequest{Job: "j", Resume: true}).Pause
	w.until(p.Until)
	w.claims(p, server, map[string]tick.Status{"the last tick before it": tick.Won, "its first tick": tick.Paused,
		"its last tick": tick.Paused, "the first tick after it": tick.Won, "the tick of another job": tick.Won,
		"a tick that was another's": tick.Taken})
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
