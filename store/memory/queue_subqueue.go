package memory

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// A subQueue is one kind of task in one queue.
type subQueue struct {
	subQueueName
	// ready are the tasks that may be fetched, by class: plain ones, suspects, and suspects that took a worker down
	// (rule Q4).
	ready [lifecycle.Classes]taskHeap
	due   taskHeap // scheduled and retryable ones, by their instant
}

func (d *queueState) subQueue(t *taskRow) *subQueue {
	at := subQueueName{t.Queue, t.Kind}
	l := d.subs[at]
	if l == nil {
		l = &subQueue{subQueueName: at, due: taskHeap{before: sooner, pos: position}}
		for i := range l.ready {
			l.ready[i] = taskHeap{before: ranks, pos: position}
		}
		d.subs[at] = l
	}
	return l
}

func sooner(x, y *taskRow) bool {
	if !x.RunAt.Equal(y.RunAt) {
		return x.RunAt.Before(y.RunAt)
	}
	return x.ID < y.ID
}

// readyFor is the heap that t waits in when it may be fetched.
func (l *subQueue) readyFor(t *taskRow) *taskHeap {
	return &l.ready[t.Class()]
}

// file puts t where its state says. A task that waits for a limit becomes blocked here where no slot is left for it.
func (d *queueState) file(t *taskRow) {
	switch {
	case t.State == task.Scheduled || t.State == task.Retryable:
		d.subQueue(t).due.push(t)
	case t.State == task.Available && t.Queues():
		t.limit.lineUp(d, t)
	case t.State == task.Available:
		d.open(t)
	case t.State == task.Running:
		d.worker(t.Worker.Lease).running[t.ID] = t
		if t.limit != nil {
			t.limit.occupy(d, t)
		}
	case t.State.Final() && !t.Window.IsZero():
		d.windows.push(t)
	default:
		d.ended[t.State].push(t)
	}
	if t.Displaces() && (t.State == task.Available || t.State == task.Blocked) {
		t.limit.displacing[t.ID] = t
	}
	if t.State.Waiting() && !t.ExpiresAt.IsZero() {
		d.expiry.push(t)
	}
}

// pull takes t, which does not run, out of wherever it is.
func (d *queueState) pull(t *taskRow) {
	l := d.subQueue(t)
	switch {
	case t.State == task.Scheduled || t.State == task.Retryable:
		l.due.drop(t)
	case t.State == task.Available || t.State == task.Blocked:
		l.readyFor(t).drop(t)
		if t.limit != nil {
			delete(t.limit.displacing, t.ID)
			t.limit.leaveLine(d, t)
		}
	case t.State.Final():
		d.windows.drop(t)
		d.ended[t.State].drop(t)
	}
	d.expiry.drop(t)
}

// open makes t available, and wakes the watchers of its queue.
func (d *queueState) open(t *taskRow) {
	t.State = task.Available
	d.subQueue(t).readyFor(t).push(t)
	d.hint(t.Queue)
}

// makeDue makes those of a sub-queue available whose instant has come, at most most.
func (d *queueState) makeDue(l *subQueue, now time.Time, most int) (n int) {
	for t := l.due.first(); t != nil && !t.RunAt.After(now) && n < most; t = l.due.first() {
		d.change(t, now, func() lifecycle.Note { return t.Wait(now) })
		n++
	}
	return n
}

// vacate takes t, which ran, from its worker. Tasks that wait for its slot move up.
func (d *queueState) vacate(t *taskRow) {
	delete(d.worker(t.Worker.Lease).running, t.ID)
	if t.limit != nil {
		t.limit.vacate(d, t)
	}
}

// change applies what to t, with all its consequences. A task that waits or has ended is sorted by what may change; a
// running one is not, and keeps its slot unless it ends.
func (d *queueState) change(t *taskRow, now time.Time, what func() lifecycle.Note) {
	ran := t.State == task.Running
	if !ran {
		d.pull(t)
	}
	n := what()
	if n.Tried != nil {
		n.Tried.Host = t.Worker.Host
		if len(t.History) == driver.MostAttempts {
			t.History = slices.Delete(t.History, driver.FirstAttempts, driver.FirstAttempts+1)
		}
		t.History = append(t.History, *n.Tried)
	}
	if n.Count != "" {
		d.counts[driver.Count{Minute: now.Truncate(time.Minute), Queue: t.Queue, Kind: t.Kind, Name: n.Count}]++
	}
	d.index(t)
	if ran {
		if t.State == task.Running {
			return
		}
		d.vacate(t)
	}
	d.file(t)
}

// index notes whether t holds its unique key.
func (d *queueState) index(t *taskRow) {
	if t.Unique == nil {
		return
	}
	switch h := t.Unique.Hash(t.Kind); {
	case t.Key != nil:
		d.keys[h] = t
	case d.keys[h] == t:
		delete(d.keys, h)
	}
}

// discard ends a task that the store itself decided not to do.
func (d *queueState) discard(t *taskRow, reason string, now time.Time) {
	d.change(t, now, func() lifecycle.Note { return t.Discard(reason, now) })
}
