// Package observe has the events by which a process of dibs tells what it does, for the metrics and traces of its
// program: dibs.Options.Observe receives them.
//
// An end is told by the process that wrote it to the store, so each is told at most once in the whole fleet, and
// counts of all processes can be added up. What nobody was there to see, such as a tick that was missed while no
// server was up, is told by the server that settles it later. A run that others took for crashed, and that reports
// late how it ended, is told as crashed only: the history is amended, what was told is not.
package observe

import "time"

// Of says what an event is about.
type Of uint8

// What events are about.
const (
	// Cron is a tick of a scheduled function or job, or a run of one without a tick.
	Cron Of = iota + 1
	// Task is an attempt at a task.
	Task
	// Lock is a call of Client.Do.
	Lock
	// Lease is any lease of the process: of its runs, its workers, its locks, and of the process itself.
	Lease
	// Request is a request about leases to the store, which may be about many of them: all that are renewed at a time
	// share one. Name is what it does: acquire, renew, release, read.
	Request
)

// On says what happened.
type On uint8

// What happens.
const (
	// Started: the work begins, or the lease was granted. Wait is how long it took since it was due or asked for.
	Started On = iota + 1
	// Ended: the work, or the request, is over, as Outcome says. Took is how long it took; 0 if nobody knows, since
	// its process died.
	Ended
	// Skipped: nothing ran, and Outcome says why. Count ticks ended so.
	Skipped
	// Lost: a lease was lost while it was held. The work under it is told to stop.
	Lost
)

// An Event is something that happened in this process. Fields that do not apply are zero.
type Event struct {
	On On
	Of Of
	// Name is the job's, the kind of the task, or the key.
	Name string
	// Queue is the task's.
	Queue string
	// ID is the run's or the task's. Attempt counts those at a task from 1.
	ID      string
	Attempt int
	// Tick is the scheduled instant; zero for a run without one.
	Tick time.Time
	// Outcome is how it ended. Ticks: succeeded, failed, timed_out, canceled, replaced, lost, crashed; skipped,
	// missed, paused, unavailable if nothing ran. Tasks: succeeded, retried, postponed, returned, failed, canceled,
	// discarded, crashed. Locks: succeeded, failed, lost; held or unavailable if nothing ran. Requests: succeeded,
	// failed. Reason says more, for people.
	Outcome, Reason string
	// Count is how many ended so; 0 stands for one.
	Count int
	// Wait is how long the start took since it was due or asked for, Took how long the work took.
	Wait, Took time.Duration
}

// N is Count, of which 0 stands for one.
func (e Event) N() int { return max(e.Count, 1) }

// A Func receives events. It is called on the path of the work, by several goroutines at a time: it must return at
// once. Options of package dibs wrap it, so that it can delay nothing.
type Func func(Event)

// Tell calls f, unless it is nil.
func (f Func) Tell(e Event) {
	if f != nil {
		f(e)
	}
}
