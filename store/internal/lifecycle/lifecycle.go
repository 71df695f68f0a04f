// Package lifecycle decides what becomes of a task: what time, a worker's verdict, a worker's death, a newer task of
// its key, or an operator makes of it. The stores that decide in Go (memory, file, mysql) read a row, ask here, and
// write the result. So rules Q1 to Q7 are written once for the three of them. PostgreSQL and Redis decide where their
// rows are, in SQL and Lua, and storetest holds all five to the same.
//
// Nothing here knows which other tasks wait. A limit's line, and with it the state Blocked, is each store's own. A
// task that may be fetched as far as this package can tell is Available.
package lifecycle

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Task is a row. Methods that return a Note, and those that say so, change it; the others only look. It belongs to
// one goroutine.
type Task struct {
	driver.Task
	// Begun says that the start was written under the token. Displaced says that the task has asked for its slot:
	// from now on it waits like others.
	Begun, Displaced bool
	// Completed is the token under which it was last finished, to know a repeated Finish.
	Completed lease.Token
	// Key is the hash of its unique key, while the task holds it. Window is until when it holds it after it
	// succeeded.
	Key    []byte
	Window time.Time
}

// Note is what a change leaves to be written beside the row.
type Note struct {
	// Count is what the store counts of it (driver.Count); empty: nothing.
	Count string
	// Tried is to be added to its history, with the host of its worker; nil: nothing.
	Tried *task.Attempt
}

// States are all states in the order by which tables number them. New ones go to the end.
var States = []task.State{task.Scheduled, task.Available, task.Blocked, task.Running, task.Retryable,
	task.Succeeded, task.Failed, task.Discarded, task.Canceled, task.Crashed}

// Read takes in the state and the options of a row; limited says that the row has a limit. A row that does not fit
// together makes t Damaged, with a reason for people. Read then reports whether the row stands among those that wait
// or run: a step that meets it must set it aside, as discarded.
func (t *Task) Read(state int, options []byte, limited bool) (aside bool) {
	damage := ""
	err := t.UnmarshalOptions(options)
	switch {
	case state < 0 || state >= len(States):
		damage = fmt.Sprintf("its state is %d", state)
	case err != nil:
		damage = "its options cannot be read: " + err.Error()
	case limited && t.Limit == nil:
		damage = "it has a limit, which its options do not name"
	case t.Key != nil && t.Unique == nil:
		damage = "it holds a unique key, which its options do not name"
	}
	known := state >= 0 && state < len(States)
	if known {
		t.State = States[state]
	}
	if damage == "" || t.State.Final() {
		return false
	}
	t.State, t.Reason = task.Damaged, string(task.Damaged)+": "+damage
	return known
}

// Number is the index of s among States.
func Number(s task.State) int {
	for i := range States {
		if States[i] == s {
			return i
		}
	}
	panic("life: no such state: " + string(s))
}

// front is added to the rank of a task that was moved to the front, so that it comes before every priority.
const front = -100

// Rank is t's place within its sub-queue, before its id: the smallest is fetched first.
func (t *Task) Rank() int {
	if t.Front {
		return front - t.Priority
	}
	return -t.Priority
}

// IsFront says whether a rank is that of a task that was moved to the front.
func IsFront(rank int) bool { return rank < front/2 }

// The classes: what is known against a task (rule Q4).
const (
	Clear   = iota
	Suspect // a worker had it when it died
	Crasher // it took one down
	Classes // how many there are
)

// Class is what is known against t.
func (t *Task) Class() int {
	switch {
	case t.Suspect && t.Crashes > 0:
		return Crasher
	case t.Suspect:
		return Suspect
	}
	return Clear
}

// Queues says that t stands in line for its limit. A task that is to be discarded or to displace must meet a fetch
// for that, and waits in the open until then.
func (t *Task) Queues() bool {
	return t.Limit != nil && (t.Limit.OnContention != task.Discard && t.Limit.OnContention != task.Displace || t.Displaced)
}

// Displaces says that a newer task of its limit may supersede t.
func (t *Task) Displaces() bool { return t.Limit != nil && t.Limit.OnContention == task.Displace }

// Over says whether t's waiting has ended unused (rule Q6).
func (t *Task) Over(now time.Time) bool {
	return t.State.Waiting() && !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

// Due says whether t waits for an instant that has come.
func (t *Task) Due(now time.Time) bool {
	return (t.State == task.Scheduled || t.State == task.Retryable) && !t.RunAt.After(now)
}

// Wait lets t wait by its instant.
func (t *Task) Wait(now time.Time) Note {
	switch {
	case !t.RunAt.After(now):
		t.State = task.Available
	case t.State != task.Retryable:
		t.State = task.Scheduled
	}
	return Note{}
}

// end gives t its final state.
func (t *Task) end(s task.State, reason string, now time.Time) {
	t.State, t.Reason, t.Ended, t.Stop = s, reason, now, ""
	if t.Key != nil && s == task.Succeeded && t.Unique != nil && t.Unique.Window > 0 {
		t.Window = micro(now.Add(t.Unique.Window))
	} else {
		t.Key = nil
	}
}

// cancel ends a task that somebody stopped, when no worker says so.
func (t *Task) cancel(reason string, now time.Time) Note {
	t.end(task.Canceled, reason, now)
	return Note{Count: counters.Canceled}
}

// Discard ends t because the store, or an operator, decided not to do it.
func (t *Task) Discard(reason string, now time.Time) Note {
	t.end(task.Discarded, reason, now)
	return Note{Count: counters.Discarded + ":" + reason}
}

// micro is t as stores keep it; the zero time stays what it is.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}
