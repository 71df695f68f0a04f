// Package observe has the events by which a process of dibs tells what it does, for the metrics and traces of its
// program: dibs.Options.Observe receives them.
//
// An end is told by the process that wrote it to the store, at most once in the whole fleet, so counts of all
// processes can be added up. What nobody was there to see, such as a tick that was missed while no server was up, is
// told by the server that settles it later. An outcome is told each time that one is written: a tick that is run
// again, or caught up on, has two. A run that others took for crashed, and that reports late how it ended, is told as
// crashed only. An end is told by nobody if the store wrote it and the answer was lost with the lease, or if a process
// wrote it that is not observed, such as dibs trigger.
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
	// Lease is a lease of the process: of its runs, its workers, its locks, and of the process itself, but not its
	// turns at work for all.
	Lease
	// Request is a request about leases to the store, which may be about many of them: all that are renewed at a time
	// share one. Name is what it does: acquire, renew, release, read; ask and break if somebody wants a lease back.
	Request
)

// On says what happened.
type On uint8

// What happens.
const (
	// Started: the work begins, or the lease was granted. Wait is how long it took since it was due or asked for. Work
	// that was called off on its way has an end without a start.
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
	// Again, of a start, says that the tick is run after all: it is caught up on, or run again after a crash.
	Again bool
	// Outcome is how it ended. Ticks: succeeded, failed, timed_out, canceled, replaced, lost, crashed; skipped,
	// missed, paused, unavailable if nothing ran; HandedOver if the run ended and the tick did not. Attempts at tasks:
	// succeeded, retried, postponed, returned, failed, canceled, discarded; crashed counts tasks that have crashed too
	// often, whose names nobody knows. Locks: succeeded, failed, lost; held, unavailable or canceled if nothing ran.
	// Requests: succeeded, failed. Reason says more, for people.
	Outcome, Reason string
	// Count is how many ended so; 0 stands for one.
	Count int
	// Wait is how long the start took since it was due or asked for, Took how long the work took.
	Wait, Took time.Duration
}

// HandedOver is the outcome of a run that could not be started here, or nobody knows whether it was: its tick goes on,
// here or on another server.
const HandedOver = "handed_over"

// N is Count, of which 0 stands for one.
func (e Event) N() int { return max(e.Count, 1) }

// A Func receives events. It is called on the path of the work, by several goroutines at a time: it must return at
// once. Options of package dibs wrap it, so that it can delay nothing.
type Func func(Event)
