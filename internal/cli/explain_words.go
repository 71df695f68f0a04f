package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/explain"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// headline is the answer in a line.
func headline(a explain.Account) string {
	outcome := a.Outcome
	if a.Unsettled {
		outcome += " (unsettled)"
	}
	if a.Inferred {
		outcome += " (inferred)"
	}
	switch a.Outcome {
	case explain.NoSchedule:
		return a.Job + ": it has no schedule in this store"
	case explain.NoTick:
		outcome = "no tick of this job"
	case explain.NotDue:
		outcome = "not due yet"
	case explain.Due:
		outcome = "due, not claimed yet"
	case explain.Forgotten:
		outcome = "settled, and no longer on record"
	case string(tick.Started):
		outcome = "started, and not ended yet"
	case string(tick.Claimed):
		outcome = "claimed, and not started yet"
	}
	return fmt.Sprintf("%s at %s: %s", a.Job, stampIn(a.Tick, a.Zone), outcome)
}

// words explain an account, a sentence per line.
func words(a explain.Account) []string {
	w := &wording{Account: a}
	w.due()
	switch a.Outcome {
	case explain.NoSchedule:
		w.say("Nobody registered a schedule under this name (dibs serve, dibs trigger and dibs run --once-per do), so there are no ticks; this is its last run, and dibs history %s lists them all.", a.Job)
	case explain.NoTick:
		w.noTick()
	case explain.NotDue:
		w.say("It lies in the future.")
	case explain.Due:
		w.say("Nobody has claimed it yet. A server that is up claims it within moments; until %s it can still start, and after that it is missed.", w.at(a.StartBy))
	case explain.Forgotten:
		w.say("All ticks up to this one and beyond are settled, but its record is gone: history keeps 90 days.")
	default:
		w.decided()
	}
	w.runs()
	for _, r := range a.Remarks {
		w.say("Event %s at %s on %s: %s", r.Event, w.at(r.At), orDash(r.Host), r.Reason)
	}
	return w.lines
}

// wording collects sentences.
type wording struct {
	explain.Account
	lines []string
}

func (w *wording) say(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

// at shows an instant in UTC, to the second.
func (w *wording) at(t time.Time) string { return stampOf(t) }

func (w *wording) due() {
	if w.Timezone == "" {
		return
	}
	line := fmt.Sprintf("Its schedule is %q in %s (%s)", w.Schedules, w.Timezone, w.Description)
	if !w.StartBy.IsZero() {
		line += "; a start is on time until " + w.at(w.StartBy)
	}
	w.say("%s.", line)
	if !w.Removed.IsZero() {
		w.say("It was removed at %s: there are no ticks from then on.", w.at(w.Removed))
	}
	if w.Outcome != explain.NoTick && w.Tick.Before(w.Since) {
		w.say("That schedule took effect at %s: this tick is of an earlier one.", w.at(w.Since))
	}
}

func (w *wording) noTick() {
	if w.Tick.Before(w.Since) {
		w.say("That schedule took effect at %s. Of what was due before, only what was recorded is known, and for this instant nothing is.", w.at(w.Since))
	}
	var beside []string
	if !w.Previous.IsZero() {
		beside = append(beside, stampIn(w.Previous, w.Zone)+" before it")
	}
	if !w.Next.IsZero() {
		beside = append(beside, stampIn(w.Next, w.Zone)+" after it")
	}
	if len(beside) == 0 {
		beside = []string{"none"}
	}
	w.say("The job is not due at this instant. The ticks beside it: %s.", strings.Join(beside, ", "))
}

// decided words what became of a tick, in the order in which it happened.
func (w *wording) decided() {
	if w.Count > 1 {
		w.say("It is one of %d ticks in a row that ended alike, from %s to %s.", w.Count, w.at(w.From), w.at(w.Through))
	}
	if w.Claimant != nil {
		w.say("%s pid %d claimed it at %s.", w.Claimant.Host, w.Claimant.PID, w.at(w.Claimed))
	}
	switch run.Outcome(w.Outcome) {
	case run.Skipped:
		w.skipped()
	case run.Missed:
		w.missed()
	case run.Unavailable:
		w.say("A server was there for it, and the store was not: %s. Nothing was started.", w.Reason)
	case run.Paused:
		w.say("The job was paused: %s. Ticks of a pause are not caught up on.", orDash(w.Reason))
	case run.Replaced:
		w.replaced()
	case run.Lost:
		w.say("Its run lost the lease and was stopped: %s.", w.Reason)
	case run.Crashed:
		w.say("Its run ended without a word: %s.", w.Reason)
	case run.Canceled:
		w.say("Its run was told to stop: %s.", orDash(w.Reason))
	case run.Succeeded, run.Failed, run.TimedOut:
		w.ended()
	default:
		w.open()
	}
	if w.Reruns > 0 {
		w.say("It was run again %s, after the run before it had ended without finishing its work.", times(w.Reruns))
	}
	if w.Inferred && run.Outcome(w.Outcome).Ran() {
		w.say("Others concluded this outcome. If the run still reports, its own word replaces it.")
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
	run.ReasonOverlap:     "the run before was still at work",
	run.ReasonQueueFull:   "the run before was still at work, and another tick waited for it already",
	run.ReasonSuperseded:  "a newer tick asked to replace the same run",
	run.ReasonHolderStuck: "the run before was asked to stop and did not, in the time there was",
	run.ReasonWhen:        "the job's own condition said no",
	run.ReasonWindow:      "it fell outside the job's window",
}

func (w *wording) skipped() {
	why, ok := skips[w.Reason]
	if !ok {
		why = w.Reason
	}
	w.say("It was skipped at %s (%s): %s.", w.at(w.Ended), w.Reason, why)
	w.blocker("had the key")
}

func (w *wording) blocker(did string) {
	b := w.Blocker
	if b == nil {
		return
	}
	line := fmt.Sprintf("%s %s since %s", b.Holder, did, w.at(b.Since))
	if b.Inferred {
		line += ", to go by its run; no event names the holder"
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
		w.say("It was missed: nobody claimed it while it could start, and no dibs process that works on this job has written that down yet.")
	default:
		w.say("It was missed: %s.", w.Reason)
	}
	if w.Unsettled && !w.CatchUpUntil.IsZero() {
		w.say("The job catches up on missed ticks: a server that comes up before %s may still run it.", w.at(w.CatchUpUntil))
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
		w.say("No host started anything in this store in the hour before, or while it could start. Which servers were up is not recorded.")
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
		w.say("That process is alive and has started nothing yet: it waits for the job's lease, or for a store that is holding back.")
		w.blocker("has the key")
	case w.Outcome == string(tick.Claimed):
		w.say("That process is gone, and nothing was started. Any server takes the tick over until %s; after that it is missed.", w.at(w.StartBy))
	case w.Alive:
		w.say("It was started at %s, and its lease is renewed: it runs.", w.at(w.Started))
	default:
		w.say("It was started at %s, and its process is gone or cut off: the next server that looks records it as crashed, or runs it again if the job says so.", w.at(w.Started))
	}
}

// runs lists each run with its attempts.
func (w *wording) runs() {
	for _, r := range w.Account.Runs {
		outcome := string(r.Outcome)
		if outcome == "" {
			outcome = "no outcome yet"
		}
		if r.Reason != "" {
			outcome += ", " + r.Reason
		}
		w.say("Run %s on %s pid %d, token %d, started %s, took %s: %s.", r.ID, r.Host, r.PID, r.Token, w.at(r.Started), took(r.Started, r.Ended), outcome)
		if len(r.Attempts) < 2 {
			continue
		}
		for _, t := range r.Attempts {
			line := fmt.Sprintf("Attempt %d started %s, took %s: %s", t.N, w.at(t.Started), took(t.Started, t.Ended), t.Outcome)
			if t.Error != "" {
				line += ", " + t.Error
			}
			w.say("%s.", line)
		}
	}
}
