package memory

import (
	"time"

	"github.com/dibs-run/dibs/queue"
)

// A lane is one kind of task in one queue.
type lane struct {
	place
	// ready are the tasks that may be fetched: those that nothing is known against, suspects, and
	// suspects that took a worker down.
	ready [3]pile
	due   pile // scheduled and retryable ones, by their instant
}

func (d *board) lane(t *task) *lane {
	at := place{t.Queue, t.Kind}
	l := d.lanes[at]
	if l == nil {
		l = &lane{place: at, due: pile{before: sooner, pos: position}}
		for i := range l.ready {
			l.ready[i] = pile{before: ranks, pos: position}
		}
		d.lanes[at] = l
	}
	return l
}

func sooner(x, y *task) bool {
	if !x.RunAt.Equal(y.RunAt) {
		return x.RunAt.Before(y.RunAt)
	}
	return x.ID < y.ID
}

// readyFor is the pile that t waits in when it may be fetched.
func (l *lane) readyFor(t *task) *pile {
	switch {
	case t.Suspect && t.Crashes > 0:
		return &l.ready[2]
	case t.Suspect:
		return &l.ready[1]
	}
	return &l.ready[0]
}

// file puts t where its state says. A task that waits for a limit becomes blocked here where no slot is left for it.
func (d *board) file(t *task) {
	switch {
	case t.State == queue.Scheduled || t.State == queue.Retryable:
		d.lane(t).due.push(t)
	case t.State == queue.Available && t.queues():
		t.limit.line(d, t)
	case t.State == queue.Available:
		d.open(t)
	case t.State == queue.Running:
		d.worker(t.Worker.Lease).running[t.ID] = t
		if t.limit != nil {
			t.limit.occupy(d, t)
		}
	case t.State.Final() && !t.window.IsZero():
		d.windows.push(t)
	default:
		d.ended[t.State].push(t)
	}
	if t.rival() && (t.State == queue.Available || t.State == queue.Blocked) {
		t.limit.rivals[t.ID] = t
	}
	if t.State.Waiting() && !t.ExpiresAt.IsZero() {
		d.expiry.push(t)
	}
}

// pull takes t out of wherever it is. What waits for the slot that it frees moves up.
func (d *board) pull(t *task) {
	l := d.lane(t)
	switch {
	case t.State == queue.Scheduled || t.State == queue.Retryable:
		l.due.drop(t)
	case t.State == queue.Available || t.State == queue.Blocked:
		l.readyFor(t).drop(t)
		if t.limit != nil {
			delete(t.limit.rivals, t.ID)
			t.limit.unline(d, t)
		}
	case t.State == queue.Running:
		delete(d.worker(t.Worker.Lease).running, t.ID)
		if t.limit != nil {
			t.limit.vacate(d, t)
		}
	case t.State.Final():
		d.windows.drop(t)
		d.ended[t.State].drop(t)
	}
	d.expiry.drop(t)
}

// open lets t be fetched, and tells who watches.
func (d *board) open(t *task) {
	t.State = queue.Available
	d.lane(t).readyFor(t).push(t)
	d.hint(t.Queue)
}

// wait files a task that waits, by its instant.
func (d *board) wait(t *task, now time.Time) {
	switch {
	case !t.RunAt.After(now):
		t.State = queue.Available
	case t.State != queue.Retryable:
		t.State = queue.Scheduled
	}
	d.file(t)
}

// ripen makes those of a lane available whose instant has come, at most most.
func (d *board) ripen(l *lane, now time.Time, most int) (n int) {
	for t := l.due.first(); t != nil && !t.RunAt.After(now) && n < most; t = l.due.first() {
		d.pull(t)
		d.wait(t, now)
		n++
	}
	return n
}

// over says whether t's waiting has ended unused (rule Q6).
func (t *task) over(now time.Time) bool {
	return t.State.Waiting() && !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

// end gives t its final state.
func (d *board) end(t *task, s queue.State, reason string, now time.Time) {
	d.pull(t)
	t.State, t.Reason, t.Ended, t.Stop = s, reason, now, ""
	if u := t.Unique; u != nil && d.keys[u.Hash(t.Kind)] == t {
		if s == queue.Succeeded && u.Window > 0 {
			t.window = micro(now.Add(u.Window))
		} else {
			delete(d.keys, u.Hash(t.Kind))
		}
	}
	d.file(t)
}

// cancel ends a task that somebody stopped, where no worker says so.
func (d *board) cancel(t *task, reason string, now time.Time) {
	d.end(t, queue.Canceled, reason, now)
	d.tally(t, queue.CountCanceled, now)
}

// discard ends a task that the store itself, or somebody through it, decided not to do.
func (d *board) discard(t *task, reason string, now time.Time) {
	d.end(t, queue.Discarded, reason, now)
	d.tally(t, queue.CountDiscarded+":"+reason, now)
}
