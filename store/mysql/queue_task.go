package mysql

import (
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

// task is a row.
type task struct {
	queue.Task
	ver       int64
	lane      int64
	begun     bool // its start was written under its token
	displaced bool // it has asked for its slot: from now on it waits like others
	completed lease.Token
	worker    int64
	ukey      []byte    // while it holds its unique key
	window    time.Time // until when it holds it after it succeeded
	limit     *queue.Hash

	row     *task  // as the table has it
	had     []byte // its unique key there
	isNew   bool   // it is not there yet, and its id is only for the order
	dirty   bool   // to be written
	respelt bool   // its arguments too
	gone    bool   // to be deleted
}

// states are as the table numbers them.
var states = []queue.State{queue.Scheduled, queue.Available, queue.Blocked, queue.Running, queue.Retryable,
	queue.Succeeded, queue.Failed, queue.Discarded, queue.Canceled, queue.Crashed}

func stateNumber(s queue.State) int {
	for i := range states {
		if states[i] == s {
			return i
		}
	}
	panic("mysql: no such state: " + string(s))
}

// front is added to the ordinal of what was moved to the front, so that it comes before every priority.
const front = -100

func (t *task) ordinal() int {
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
	return t.limit != nil && (t.Limit.OnContention != queue.Discard && t.Limit.OnContention != queue.Displace || t.displaced)
}

// over says whether t's waiting has ended unused (rule Q6).
func (t *task) over(now time.Time) bool {
	return t.State.Waiting() && !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}

// due says whether t waits for an instant that has come.
func (t *task) due(now time.Time) bool {
	return (t.State == queue.Scheduled || t.State == queue.Retryable) && !t.RunAt.After(now)
}

// takesKey says that t is to hold a unique key that it does not hold in the table.
func (t *task) takesKey() bool { return t.ukey != nil && t.had == nil }

// laneNumber is that of a queue and a kind.
func laneNumber(at place) int64 {
	b := binary.AppendUvarint(nil, uint64(len(at.queue)))
	sum := sha256.Sum256(append(append(b, at.queue...), at.kind...))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 1)
}

func readTask(r *sql.Rows) (t *task, err error) {
	t = new(task)
	var state, class, ordinal int
	var runAt, enqueued, expires, started, ended, window int64
	var limit, cold []byte
	err = r.Scan(&t.ID, &t.ver, &t.lane, &t.Queue, &t.Kind, &state, &class, &ordinal, &t.Priority, &runAt, &enqueued, &expires, &started, &ended,
		&t.Attempts, &t.Granted, &t.Crashes, &t.Snoozes, &t.begun, &t.displaced, &t.Token, &t.worker, &t.completed,
		&t.ukey, &window, &limit, &t.Args, &cold, &t.Reason, &t.Stop)
	if err != nil {
		return nil, err
	}
	t.had = t.ukey
	t.State, t.Suspect, t.Front = states[state], class > 0, ordinal < front/2
	t.RunAt, t.Enqueued, t.ExpiresAt, t.Started, t.Ended, t.window = instant(runAt), instant(enqueued), instant(expires),
		instant(started), instant(ended), instant(window)
	if limit != nil {
		t.limit = new(queue.Hash)
		copy(t.limit[:], limit)
	}
	err = t.Thaw(cold)
	row := *t
	t.row = &row
	return t, err
}

// columns are those of columnNames.
func (t *task) columns() []any {
	var due, lapses, done, holder int64
	switch {
	case t.State == queue.Scheduled || t.State == queue.Retryable:
		due = max(micros(t.RunAt), 1)
	case t.State == queue.Running:
		holder = t.worker
	case t.State.Final():
		done = int64(stateNumber(t.State))
	}
	if t.State.Waiting() {
		lapses = micros(t.ExpiresAt)
	}
	var ukey, limit any
	if t.ukey != nil {
		ukey = t.ukey
	}
	if t.limit != nil {
		limit = t.limit[:]
	}
	return []any{t.lane, []byte(t.Queue), []byte(t.Kind), stateNumber(t.State), t.class(), t.ordinal(), t.Priority, micros(t.RunAt), due,
		micros(t.Enqueued), micros(t.ExpiresAt), lapses, micros(t.Started), micros(t.Ended), done, t.Attempts, t.Granted, t.Crashes, t.Snoozes,
		flag(t.begun), flag(t.displaced), int64(t.Token), t.worker, holder, int64(t.completed), ukey, micros(t.window), limit, flag(t.queues()),
		text(t.Reason), text(t.Stop)}
}

func (t *task) cold() []byte {
	if c := t.Cold(); c != nil {
		return c
	}
	return []byte{}
}

// reads takes tasks in that a statement found; one that is known already stays as it is known.
func (b *board) reads(found *[]*task) reader {
	return func(r *sql.Rows) error {
		t, err := readTask(r)
		if err != nil {
			return err
		}
		if had := b.tasks[t.ID]; had != nil && !b.looks {
			if had.ver != t.ver {
				return errChanged
			}
			t = had
		} else {
			b.tasks[t.ID] = t
			if t.ukey != nil {
				b.keys[queue.Hash(t.ukey)] = t
			}
			if t.limit != nil {
				b.members(*t.limit)[t.ID] = t
			}
		}
		*found = append(*found, t)
		return nil
	}
}

// find reads the tasks that a selection finds.
func (b *board) find(selection string, args ...any) (found []*task, err error) {
	err = b.ask(func(p *packet) []reader {
		p.add("task-columns").add(selection, args...)
		return []reader{b.reads(&found)}
	})
	return found, err
}

// load reads tasks by id.
func (b *board) load(ids []queue.ID) error {
	var missing list
	for _, id := range ids {
		if b.tasks[id] == nil {
			missing = append(missing, int64(id))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err := b.find("tasks-by-id", b.q.ns, missing)
	return err
}

// get reads one task; nil where there is none.
func (b *board) get(id queue.ID) (*task, error) {
	err := b.load([]queue.ID{id})
	t := b.tasks[id]
	if t != nil && t.gone {
		return nil, err
	}
	return t, err
}

// save has t written as it is.
func (b *board) save(t *task) { t.dirty = !t.isNew }

// move has t written, which was in state from, and does what its going means for its limit: who waits moves up, or steps
// back (rule Q5).
func (b *board) move(t *task, from queue.State) error {
	b.save(t)
	if t.limit == nil {
		return nil
	}
	if b.tx != nil {
		if t.State == queue.Blocked {
			t.State = queue.Available
		}
		b.wakeUp(t)
		return nil
	}
	l, err := b.limitOf(t)
	if err != nil {
		return err
	}
	if t.State == queue.Available && t.queues() {
		t.State = queue.Blocked // until its lane nominates it
	}
	if from == queue.Running {
		l.running--
	}
	if t.State == queue.Running {
		l.running++
	}
	b.settle(l)
	return nil
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

// free gives t's unique key up.
func (b *board) free(t *task) {
	if t.ukey != nil {
		b.keys[queue.Hash(t.ukey)] = nil
		t.ukey = nil
	}
}

// end gives t its final state.
func (b *board) end(t *task, s queue.State, reason string) error {
	from := t.State
	t.State, t.Reason, t.Ended, t.Stop = s, reason, b.now, ""
	if t.ukey != nil && s == queue.Succeeded && t.Unique.Window > 0 {
		t.window = micro(b.now.Add(t.Unique.Window))
	} else {
		b.free(t)
	}
	return b.move(t, from)
}

// cancel ends a task that somebody stopped, where no worker says so.
func (b *board) cancel(t *task, reason string) error {
	b.tally(t, queue.CountCanceled)
	return b.end(t, queue.Canceled, reason)
}

// discard ends a task that the store itself, or somebody through it, decided not to do.
func (b *board) discard(t *task, reason string) error {
	b.tally(t, queue.CountDiscarded+":"+reason)
	return b.end(t, queue.Discarded, reason)
}

// remove forgets a final task.
func (b *board) remove(t *task) {
	b.free(t)
	t.dirty, t.gone = true, true
}

// micro is t as the tables keep it.
func micro(t time.Time) time.Time { return instant(micros(t)) }
