package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
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
		return a.Job + ": a key without a schedule"
	case explain.NoTick:
		outcome = "no tick of this job"
	case explain.NotDue:
		outcome = "not due yet"
	case explain.Due:
		outcome = "due, not claimed yet"
	case explain.NotTold:
		outcome = "nothing is known of it here"
	case explain.Forgotten:
		outcome = "settled, and no longer on record"
	case string(tick.Started):
		if outcome = running; !a.Alive {
			outcome = "started, and its process is gone or cut off"
		}
	case string(tick.Claimed):
		if outcome = waiting + ", not started yet"; !a.Alive {
			outcome = waiting + ", and the process that claimed it is gone"
		}
	}
	job := a.Job
	if a.Host != "" {
		job += " on " + a.Host
	}
	if untimed(a) {
		return fmt.Sprintf("%s: a run without a tick: %s", job, outcome)
	}
	return fmt.Sprintf("%s at %s: %s", job, stampIn(a.Tick, a.Zone), outcome)
}

// untimed says that a is of one run that has no tick.
func untimed(a explain.Account) bool {
	return a.Tick.IsZero() && len(a.Runs) > 0 && a.Outcome != explain.NoSchedule
}

// words explain an account, a sentence per line.
func words(a explain.Account) []string {
	w := &wording{Account: a}
	w.due()
	if a.Host != "" {
		w.say("It is a job of scope host: this is %s's own record, copied to this store.", a.Host)
	}
	if untimed(a) {
		w.say("No schedule made this run, so it belongs to no tick.")
		w.runs()
		return w.lines
	}
	switch a.Outcome {
	case explain.NoSchedule:
		w.unscheduled()
	case explain.NoTick:
		w.noTick()
	case explain.NotDue:
		w.say("It is in the future.")
	case explain.Due:
		w.unclaimed()
	case explain.NotTold:
		w.say("%s has not reported this tick, and was last heard of at %s: it still runs there, or that host was away. A host's ticks exist only while it is up; it reports missed ticks itself when it is back.", a.Host, w.at(a.Heard))
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

// unclaimed says of a due tick who may claim it.
func (w *wording) unclaimed() {
	app, still := tick.AppOf(w.Job), fmt.Sprintf("until %s it can still start, and after that it is missed", w.at(w.StartBy))
	switch none, _ := unserved(app, w.Serving); {
	case len(w.Serving.Up) > 0:
		w.say("Nobody has claimed it yet. A server that is up (%s) claims it soon; %s.", hostsOf(w.Serving.Up), still)
	case none != "":
		w.say("Nobody has claimed it, and %s; %s.", none, still)
	case app == "":
		w.say("Nobody has claimed it yet. The dibs run of its crontab does; %s.", still)
	default:
		w.say("Nobody has claimed it, and no server of %s is on record; %s.", app, still)
		w.say("If cron, systemd or Kubernetes fires the job, look there.")
	}
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
	if w.Work == "function" {
		w.say("Its work is a Go function: only the program that registered it can run it.")
	}
	if !w.Until.IsZero() {
		w.say("That schedule and its policy ended at %s; its ticks keep to them.", w.at(w.Until))
	}
	if !w.Removed.IsZero() {
		w.say("It was removed at %s: there are no ticks after that.", w.at(w.Removed))
	}
	if w.Ahead != "" {
		w.say("The job is %s.", w.Ahead)
	}
	if w.Pause != nil && w.Outcome != string(run.Paused) {
		w.say("The job is %s.", scheduler.PauseText(*w.Pause))
	}
	switch {
	case w.Outcome == explain.NoTick || !w.Tick.Before(w.Since):
	case w.Filled():
		w.say("That schedule took effect at %s: a back-fill has run this tick from before.", w.at(w.Since))
	default:
		w.say("That schedule took effect at %s: this tick belongs to an earlier one.", w.at(w.Since))
	}
}

// unscheduled says what is known of a key that has runs and no ticks.
func (w *wording) unscheduled() {
	if w.Spaced {
		w.say("Its runs use dibs run --once-per DURATION: a run starts only if the last start was at least that long ago. The duration is in the command line; the store does not have it.")
	} else {
		w.say("It is a lock: dibs run --key uses it without a schedule, so there are no ticks. (dibs serve, dibs trigger and dibs run --once-per 'CRON' register a schedule.)")
	}
	w.blocker("has the key")
	w.say("This is its last run; dibs history %s lists all of them.", w.Job)
}

func (w *wording) noTick() {
	if w.Tick.Before(w.Since) {
		w.say("That schedule took effect at %s. For earlier ticks only the recorded ones are known, and nothing is recorded for this instant.", w.at(w.Since))
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
	w.say("The job is not due at this instant. The nearest ticks: %s.", strings.Join(beside, ", "))
}

// runs lists each run with its attempts, also those beside the tick.
func (w *wording) runs() {
	for _, r := range w.Account.Runs {
		w.run(r)
	}
	for _, r := range w.Account.Again {
		w.say("It ran once more, beside the tick, whose outcome stays.")
		w.run(r)
	}
}

func (w *wording) run(r run.Record) {
	outcome := string(r.Outcome)
	if outcome == "" {
		outcome = "no outcome yet"
	}
	if r.Reason != "" {
		outcome += ", " + r.Reason
	}
	w.say("Run %s on %s pid %d, token %d, started %s, took %s: %s.", r.ID, r.Host, r.PID, r.Token, w.at(r.Started), took(r.Started, r.Ended), outcome)
	if r.Cause != nil {
		w.say("It was %s.", r.Cause)
	}
	if id := enqueuedBy(r.Attempts); id != 0 {
		w.say("It enqueued task %d, into the store of the job; `dibs task show` shows what happened to it.", id)
	}
	if len(r.Attempts) < 2 {
		return
	}
	for _, t := range r.Attempts {
		line := fmt.Sprintf("Attempt %d started %s, took %s: %s", t.N, w.at(t.Started), took(t.Started, t.Ended), t.Outcome)
		if t.Error != "" {
			line += ", " + t.Error
		}
		w.say("%s.", line)
	}
}

// enqueuedBy is the id of the task that the attempts of a run enqueued; 0 for none.
func enqueuedBy(attempts []run.Attempt) (id int64) {
	for _, a := range attempts {
		if a.Task != 0 {
			id = a.Task
		}
	}
	return id
}
