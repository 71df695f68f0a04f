package scheduler

import (
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
)

// Hooks are told what happens to jobs. They stand beside the path of a fire: nothing waits for
// them, and nothing depends on them. A Place calls them on a goroutine of its own, one call after the other and in
// order. While a call goes on about 1 MiB of what happens waits for it; what comes beyond that is not told, and each
// time a line in the log says so.
type Hooks interface {
	// Wants says whether anybody is to hear of this; else it is not even found out.
	Wants(job string, on job.HookEvent) bool
	// Tell is called by the one process that wrote the outcome, once the store has acknowledged it:
	// at most once in the whole fleet (rule T13).
	Tell(Happening)
}

// hooked is what a Happening counts for beside its Output, in bytes, while it waits for the hooks.
const hooked = 1 << 10

// aside does something with the hooks, as soon as they have taken what was there before. what and the attributes
// describe it to people, where there is no room for it.
func (p *Place) aside(size int, do func(Hooks), attrs ...any) {
	hooks := p.Hooks
	if hooks == nil || p.telling.Do("happening", hooked+size, func() { do(hooks) }) {
		return
	}
	p.log().Warn("reports to hooks are dropped, because the hooks have not taken earlier ones",
		append([]any{"event", "hooks-behind"}, attrs...)...)
}

// FlushHooks waits until the hooks have taken what happened before, but no longer than within, and reports
// whether they have. Call it before you close what they tell on. Server.Run and Fire have waited so for a
// second when they return.
func (p *Place) FlushHooks(within time.Duration) bool { return p.telling.Flush(within) }

// A Happening is what hooks are told of.
type Happening struct {
	On  job.HookEvent
	Job string
	// Tick is zero of a run without one. Through and Count are of several ticks that ended alike:
	// the last one, and how many they are.
	Tick, Through time.Time
	Count         int
	// Run is zero where nothing ran.
	Run run.Record
	// Outcome and Reason are empty while the run goes on.
	Outcome run.Outcome
	Reason  string
	// Amends is what was told of the same run before, of a success that came late: others had concluded
	// that the run crashed.
	Amends run.Outcome
	// HeldBy says who had the lease of a tick that was skipped, for people.
	HeldBy string
	// Output is the end of what the run printed, where it ran in this process.
	Output []byte
	// Over, of a start, is closed when the run has ended.
	Over <-chan struct{}
}

// eventOf is what an outcome means to hooks: nothing, where all went as somebody wants it.
// Contention is no failure (promise 11).
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

// Failure says whether a run that ended so has failed, to hooks: its work was not done, and no newer
// run took its place.
func Failure(o run.Outcome) bool {
	switch o {
	case run.Failed, run.TimedOut, run.Canceled, run.Lost, run.Crashed:
		return true
	}
	return false
}
