package scheduler

import (
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// maxReruns is how often a tick is run again after crashes (rule T3).
const maxReruns = 1

// runsAgain reports whether a tick whose run has ended must be run again: once, within the window, if the job asks
// for that (rule T3).
func (j *Job) runsAgain(t tick.Tick, now time.Time) bool {
	return j.Spec.Policy.OnCrash == job.CrashRerun && !j.Dormant && t.State == tick.Closed && t.Reruns < maxReruns &&
		mayRerun(t) && now.Sub(t.At) <= j.Spec.Policy.CatchUpWindow
}

func mayRerun(t tick.Tick) bool {
	switch t.Outcome {
	case run.Lost, run.Crashed:
		return true
	case run.Canceled:
		return t.Reason == run.ReasonShutdown
	}
	return false
}

// takeBy returns until when a claim that lapsed unstarted may be taken over. A claim that was to run a tick again
// has the bound of that, and none if the job no longer asks for it.
func (j *Job) takeBy(t tick.Tick) time.Time {
	switch {
	case t.Reruns == 0:
		return j.StartBy(t.At)
	case j.Spec.Policy.OnCrash != job.CrashRerun:
		return time.Time{}
	}
	return t.At.Add(j.Spec.Policy.CatchUpWindow)
}

// notAgain returns the end of a tick that ran and should have been run again, but was not: it ended as its last run
// did (rule T3), so it was neither missed nor skipped.
func notAgain(r, last run.Record) run.Record {
	r.Outcome, r.Inferred, r.Reason = run.Crashed, true, "not run again: "+r.Reason
	if mayRerun(tick.Tick{Outcome: last.Outcome, Reason: last.Reason}) {
		r.Outcome, r.Inferred = last.Outcome, last.Inferred
	}
	if last.Reason != "" {
		r.Reason = last.Reason + "; " + r.Reason
	}
	return r
}
