package scheduler

import (
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
)

// Hooks are notified of what happens to jobs. They are beside the path of a fire: nothing waits for them, and
// nothing depends on them. A Backend calls them on a goroutine of its own, one call at a time and in order. During a
// call, up to about 1 MiB of notifications wait; more are dropped, and each time the log has a line.
type Hooks interface {
	// Wants reports whether anybody wants this notification; if not, it is not even prepared.
	Wants(job string, on job.HookEvent) bool
	// Tell is called by the one process that wrote the outcome, once the store has acknowledged it: at most once in
	// the whole fleet (rule T13).
	Tell(Happening)
}

// A Happening is what hooks are notified of.
type Happening struct {
	On  job.HookEvent
	Job string
	// Tick is zero for a run without one. Through and Count are set for several ticks that ended alike: the last
	// one, and how many there are.
	Tick, Through time.Time
	Count         int
	// Run is zero if nothing ran.
	Run run.Record
	// Outcome and Reason are empty while the run goes on.
	Outcome run.Outcome
	Reason  string
	// Amends is what was reported earlier about the same run, for a success that was reported late: others had
	// concluded that the run crashed.
	Amends run.Outcome
	// HeldBy says who had the lease of a tick that was skipped, for people.
	HeldBy string
	// Output is the end of what the run printed, if it ran in this process.
	Output []byte
	// Over, for a start, is closed when the run has ended.
	Over <-chan struct{}
}

// eventOf returns what an outcome means to hooks: nothing, if everything went as intended. Contention is not a
// failure (promise 11).
func eventOf(o run.Outcome, reason string) (job.HookEvent, bool) {
	switch o {
	case run.Succeeded:
		return job.OnSuccess, true
	case run.Skipped:
		return job.OnSkip, reason != run.ReasonWindow
	case run.Missed, run.Unavailable:
		return job.OnMiss, true
	case run.Replaced, run.Paused, "":
		return "", false
	}
	return job.OnFailure, Failure(o)
}

// Failure reports whether a run that ended so has failed, for hooks: its work was not done, and no newer run
// replaced it.
func Failure(o run.Outcome) bool {
	switch o {
	case run.Failed, run.TimedOut, run.Canceled, run.Lost, run.Crashed:
		return true
	}
	return false
}
