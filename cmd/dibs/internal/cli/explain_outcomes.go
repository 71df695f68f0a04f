package cli

import (
	"fmt"
	"strings"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// decided words what became of a tick, in the order in which it happened.
func (w *wording) decided() {
	if w.Count > 1 {
		w.say("It is one of %d ticks in a row that ended alike, from %s to %s.", w.Count, w.at(w.From), w.at(w.Through))
	}
	if w.Claimant != nil {
		w.say("%s pid %d claimed it at %s.", w.Claimant.Host, w.Claimant.PID, w.at(w.Claimed))
	}
	if w.CaughtUp() {
		w.say("That is after its time to start: it was caught up on, or it waited for a new or restarted store.")
	}
	switch run.Outcome(w.Outcome) {
	case run.Skipped:
		w.skipped()
	case run.Missed:
		w.missed()
	case run.Unavailable:
		if strings.Contains(w.Reason, "nothing was executed") {
			w.say("Servers were up, and could not start it: %s.", w.Reason)
			break
		}
		w.say("A server was up, and the store did not answer: %s. Nothing was started.", w.Reason)
	case run.Paused:
		w.say("Nobody could claim it: the job was %s. Ticks of a pause are not caught up on.", orDash(w.Reason))
	case run.Replaced:
		w.replaced()
	case run.Lost:
		w.say("Its run lost the lease and was stopped: %s.", w.Reason)
	case run.Crashed:
		w.say("Its run ended without a report: %s.", w.Reason)
	case run.Canceled:
		w.say("Its run was stopped: %s.", orDash(w.Reason))
	case run.Succeeded, run.Failed, run.TimedOut:
		w.ended()
	default:
		w.open()
	}
	switch {
	case w.Reruns > 0 && !w.Started.IsZero():
		w.say("It ran again %s, after the previous run had ended without finishing its work.", times(w.Reruns))
	case w.Reruns > 0 && w.Ended.IsZero():
		w.say("It will run again, because the previous run ended without finishing its work.")
	}
	if w.Inferred && run.Outcome(w.Outcome).Ran() && (w.Reruns == 0 || !w.Started.IsZero()) {
		w.say("Another process concluded this outcome. If the run still reports, its own outcome replaces it.")
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (w *wording) ended() {
	line := fmt.Sprintf("It ended at %s: %s", w.at(w.Ended), w.Outcome)
	if w.Reason != "" {
		line += ", " + w.Reason
	}
	w.say("%s.", line)
}

// skips words the closed set of rule T5.
var skips = map[string]string{
	run.ReasonOverlap:     "the previous run was still active",
	run.ReasonQueueFull:   "the previous run was still active, and another tick was already waiting for it",
	run.ReasonSuperseded:  "a newer tick asked to replace the same run",
	run.ReasonHolderStuck: "the previous run was asked to stop, and did not stop in time",
	run.ReasonWhen:        "the job's condition (when) was false",
	run.ReasonWindow:      "it was outside the job's windows",
}

func (w *wording) skipped() {
	why, ok := skips[w.Reason]
	if !ok {
		why = w.Reason
	}
	when := "It is skipped"
	if !w.Ended.IsZero() {
		when = "It was skipped at " + w.at(w.Ended)
	}
	w.say("%s (%s): %s.", when, w.Reason, why)
	w.blocker("had the key")
}

func (w *wording) blocker(did string) {
	b := w.Blocker
	if b == nil {
		return
	}
	line := fmt.Sprintf("%s %s since %s", b.Holder, did, w.at(b.Since))
	if b.Inferred {
		line += ", as its run shows; no event names the holder"
	}
	switch {
	case b.Outcome != "":
		line += fmt.Sprintf("; that run ended at %s: %s", w.at(b.Ended), b.Outcome)
	case b.RunID != "":
		line += "; that run has no outcome yet"
	}
	w.say("%s.", line)
}

func (w *wording) missed() {
	switch {
	case w.Claimant != nil || strings.HasPrefix(w.Reason, "claimed by"):
		w.say("It was missed: %s.", w.Reason)
	case w.Unsettled:
		w.say("It was missed: nobody claimed it while it could start, and no dibs process has recorded that yet.")
	default:
		w.say("It was missed: %s.", w.Reason)
	}
	if w.Unsettled && !w.CatchUpUntil.IsZero() {
		w.say("The job catches up on missed ticks: a server that starts before %s may still run it.", w.at(w.CatchUpUntil))
	}
	w.hosts()
	for i, d := range w.Differs {
		if i == 3 {
			w.say("(%d more such events: dibs history %s --events)", len(w.Differs)-i, w.Job)
			break
		}
		w.say("%s said at %s: %s.", d.Host, w.at(d.At), d.Reason)
	}
}

// hosts says no more than what was recorded: a server that started nothing leaves no trace.
func (w *wording) hosts() {
	if w.Outcome != string(run.Missed) {
		return
	}
	if len(w.Hosts) == 0 {
		w.say("No host started anything in this store in the hour before, or while it could start. dibs does not record which servers were up.")
	}
	for _, h := range w.Hosts {
		switch {
		case h.Before.IsZero():
			w.say("%s started something at %s, while this tick could start: it was up, and did not serve this job or could not claim it.", h.Host, w.at(h.After))
		case h.After.IsZero():
			w.say("%s last started something in this store at %s, and nothing while this tick could start.", h.Host, w.at(h.Before))
		default:
			w.say("%s started something at %s and, while this tick could start, at %s: it was up, and did not serve this job or could not claim it.", h.Host, w.at(h.Before), w.at(h.After))
		}
	}
}

func (w *wording) replaced() {
	w.say("Its run was stopped at %s for a newer one.", w.at(w.Ended))
	n := w.Replaced
	if n == nil {
		return
	}
	whose := "without a tick"
	if !n.Tick.IsZero() {
		whose = "for the tick " + w.at(n.Tick)
	}
	w.say("Run %s, %s, asked for that from %s at %s.", orDash(n.RunID), whose, orDash(n.Host), w.at(n.At))
}

// open words a tick that is not over.
func (w *wording) open() {
	switch {
	case w.Outcome == string(tick.Claimed) && w.Alive:
		w.say("That process is alive and has started nothing yet: it waits for the job's lease, or for a new or restarted store.")
		w.blocker("has the key")
	case w.Outcome == string(tick.Claimed) && w.Reruns > 0:
		w.say("That process is gone, and started nothing. Any server takes the tick over within the job's catch_up_window_seconds; after that it ends as its last run did.")
	case w.Outcome == string(tick.Claimed):
		w.say("That process is gone, and nothing was started, or its host could not start the tick. Any server takes the tick over until %s; after that it is missed.", w.at(w.StartBy))
	case w.Alive:
		w.say("It was started at %s and renews its lease: it is running.", w.at(w.Started))
	default:
		w.say("It was started at %s, and its process is gone or cut off: the next sweep of a server records it as crashed, or runs it again if the job says so.", w.at(w.Started))
	}
}
