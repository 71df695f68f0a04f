//go:build linux

package file

import (
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

// task is a row.
type task struct {
	queue.Task
	lane      int64
	begun     bool // its start was written under its token
	displaced bool // it has asked for its slot: from now on it waits like others
	completed lease.Token
	worker    int64
	ukey      []byte    // while it holds its unique key
	window    time.Time // until when it holds it after it succeeded
	limit     int64     // 0 where it has none
}

// states are as the database numbers them.
var states = []queue.State{queue.Scheduled, queue.Available, queue.Blocked, queue.Running, queue.Retryable,
	queue.Succeeded, queue.Failed, queue.Discarded, queue.Canceled, queue.Crashed}

func stateNumber(s queue.State) int {
	for i := range states {
		if states[i] == s {
			return i
		}
	}
	panic("file: no such state: " + string(s))
}

// front is added to the rank of what was moved to the front, so that it comes before every priority.
const front = -100

func (t *task) rank() int {
	if t.Front {
		return front - t.Priority
	}
	return -t.Priority
}

// class is what is known against it.
func (t *task) class() int {
	switch {
	case t.Suspect && t.Crashes > 0:
		return 2
	case t.Suspect:
		return 1
	}
	return 0
}

// queues says that t stands in line for its limit. What wants to be discarded or to displace must meet a fetch to do
// so, and waits in the open until then.
func (t *task) queues() bool {
	return t.limit != 0 && (t.Limit.OnContention != queue.Discard && t.Limit.OnContention != queue.Displace || t.displaced)
}

// over says whether t's waiting has ended unused (rule Q6).
func (t *task) over(now time.Time) bool {
	return t.State.Waiting() && !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

func readTask(row scanner) (t task, err error) {
	var state, class, rank int
	var runAt, enqueued, expires, started, ended, window int64
	var cold []byte
	err = row.Scan(&t.ID, &t.lane, &t.Queue, &t.Kind, &state, &class, &rank, &t.Priority, &runAt, &enqueued, &expires, &started, &ended,
		&t.Attempts, &t.Granted, &t.Crashes, &t.Snoozes, &t.begun, &t.displaced, &t.Token, &t.worker, &t.completed,
		&t.ukey, &window, &t.limit, &t.Args, &cold, &t.Reason, &t.Stop)
	if err != nil {
		return t, err
	}
	t.State, t.Suspect, t.Front = states[state], class > 0, rank < front/2
	t.RunAt, t.Enqueued, t.ExpiresAt, t.Started, t.Ended, t.window = instantOf(runAt), instantOf(enqueued), instantOf(expires),
		instantOf(started), instantOf(ended), instantOf(window)
	return t, t.Thaw(cold)
}

// columns are those of task_insert and task_update.
func (t *task) columns() []any {
	cold := t.Cold()
	if cold == nil {
		cold = []byte{}
	}
	return []any{t.lane, stateNumber(t.State), t.class(), t.rank(), t.Priority, micros(t.RunAt), micros(t.Enqueued), micros(t.ExpiresAt),
		micros(t.Started), micros(t.Ended), t.Attempts, t.Granted, t.Crashes, t.Snoozes, t.begun, t.displaced, int64(t.Token), t.worker,
		int64(t.completed), t.ukey, micros(t.window), t.limit, t.queues(), []byte(t.Args), cold, t.Reason, t.Stop}
}

// get reads one task; nil where there is none.
func (b *board) get(id queue.ID) (*task, error) {
	return b.find("task_get", int64(id))
}

func (b *board) find(name string, args ...any) (*task, error) {
	t, err := readTask(b.row(name, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &t, err
}

// save writes t as it is.
func (b *board) save(t *task) error {
	return b.exec("task_update", append(t.columns(), int64(t.ID))...)
}

// move writes t, which was in state from, and does what its going means for its limit: who waits moves up, or steps
// back (rule Q5).
func (b *board) move(t *task, from queue.State) error {
	if t.limit == 0 {
		return b.save(t)
	}
	l, err := b.limit(t.limit)
	if err != nil {
		return err
	}
	if t.State == queue.Available && t.queues() {
		t.State = queue.Blocked // until its door nominates it
	}
	if err := b.save(t); err != nil {
		return err
	}
	if from == queue.Running {
		l.running--
	}
	if t.State == queue.Running {
		l.running++
	}
	if err := b.settle(l); err != nil {
		return err
	}
	if t.State == queue.Blocked {
		return b.look(t)
	}
	return nil
}

// look reads again in which state t is.
func (b *board) look(t *task) error {
	var now int
	err := b.scan("state", []any{int64(t.ID)}, &now)
	if err == nil {
		t.State = states[now]
	}
	return err
}

// wait lets t, which was in state from, wait by its instant.
func (b *board) wait(t *task, from queue.State) error {
	switch {
	case !t.RunAt.After(b.now):
		t.State = queue.Available
	case t.State != queue.Retryable:
		t.State = queue.Scheduled
	}
	return b.move(t, from)
}

// end gives t its final state.
func (b *board) end(t *task, s queue.State, reason string) error {
	from := t.State
	t.State, t.Reason, t.Ended, t.Stop = s, reason, b.now, ""
	if t.ukey != nil && s == queue.Succeeded && t.Unique.Window > 0 {
		t.window = micro(b.now.Add(t.Unique.Window))
	} else {
		t.ukey = nil
	}
	return b.move(t, from)
}

// cancel ends a task that somebody stopped, where no worker says so.
func (b *board) cancel(t *task, reason string) error {
	if err := b.end(t, queue.Canceled, reason); err != nil {
		return err
	}
	return b.tally(t, queue.CountCanceled)
}

// discard ends a task that the store itself, or somebody through it, decided not to do.
func (b *board) discard(t *task, reason string) error {
	if err := b.end(t, queue.Discarded, reason); err != nil {
		return err
	}
	return b.tally(t, queue.CountDiscarded+":"+reason)
}

// remember adds an attempt to t's history.
func (b *board) remember(t *task, a queue.Attempt) error {
	text, err := json.Marshal(a)
	if err == nil {
		err = b.exec("attempt_add", int64(t.ID), string(text))
	}
	return err
}

// remove forgets a final task.
func (b *board) remove(t *task) error {
	if err := b.exec("task_delete", int64(t.ID)); err != nil {
		return err
	}
	return b.exec("attempts_delete", int64(t.ID))
}
