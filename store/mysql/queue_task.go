package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"

	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// taskRow is the row of a task.
type taskRow struct {
	lifecycle.Task
	ver    int64
	sub    int64
	worker int64
	limit  *task.Hash

	row     *taskRow // as the table has it
	had     []byte   // its unique key there
	isNew   bool     // it is not there yet, and its id is only for the order
	dirty   bool     // to be written
	respelt bool     // its arguments too
	aside   bool     // it is damaged, and a step has to set it aside
	gone    bool     // to be deleted
}

// takesKey says that t is to hold a unique key that it does not hold in the table.
func (t *taskRow) takesKey() bool { return t.Key != nil && t.had == nil }

// subQueueNumber is that of a queue and a kind.
func subQueueNumber(at subQueueName) int64 {
	b := binary.AppendUvarint(nil, uint64(len(at.queue)))
	sum := sha256.Sum256(append(append(b, at.queue...), at.kind...))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 1)
}

func readTask(r *sql.Rows) (t *taskRow, err error) {
	t = new(taskRow)
	var state, class, ordinal int
	var runAt, enqueued, expires, started, ended, window int64
	var limit, options []byte
	err = r.Scan(&t.ID, &t.ver, &t.sub, &t.Queue, &t.Kind, &state, &class, &ordinal, &t.Priority, &runAt, &enqueued, &expires, &started, &ended,
		&t.Attempts, &t.Granted, &t.Crashes, &t.Snoozes, (*truth)(&t.Begun), (*truth)(&t.Displaced), &t.Token, &t.worker, &t.Completed,
		&t.Key, &window, &limit, &t.Args, &options, &t.Reason, &t.Stop)
	if err != nil {
		return nil, err
	}
	t.had = t.Key
	t.Suspect, t.Front = class > lifecycle.Clear, lifecycle.IsFront(ordinal)
	t.RunAt, t.Enqueued, t.ExpiresAt, t.Started, t.Ended, t.Window = instant(runAt), instant(enqueued), instant(expires),
		instant(started), instant(ended), instant(window)
	if limit != nil {
		t.limit = new(task.Hash)
		copy(t.limit[:], limit)
	}
	if t.aside = t.Read(state, options, limit != nil); t.Limit == nil {
		t.limit = nil
	}
	row := *t
	t.row = &row
	return t, nil
}

// asideError ends a step that met a task that it does not understand. The step begins again once the task is set
// aside.
type asideError struct {
	id  task.ID
	why string
}

func (e *asideError) Error() string { return fmt.Sprintf("task %d is %s", e.id, e.why) }

// setAside ends such a task as discarded, without its limit, where others move up, and its unique key. All else of it
// stays as it is.
func (q queues) setAside(ctx context.Context, e *asideError) error {
	return q.run(ctx, new(packet).add("begin").add("clock").add("wake-of", int64(e.id), q.ns).add("set-aside", lifecycle.Number(task.Discarded),
		lifecycle.Number(task.Discarded), task.ReasonDamaged, q.ns, int64(e.id)).add("commit"))
}

// columns are those of columnNames.
func (t *taskRow) columns() []any {
	var due, lapses, done, holder int64
	switch {
	case t.State == task.Scheduled || t.State == task.Retryable:
		due = max(micros(t.RunAt), 1)
	case t.State == task.Running:
		holder = t.worker
	case t.State.Final():
		done = int64(lifecycle.Number(t.State))
	}
	if t.State.Waiting() {
		lapses = micros(t.ExpiresAt)
	}
	var ukey, limit any
	if t.Key != nil {
		ukey = t.Key
	}
	if t.limit != nil {
		limit = t.limit[:]
	}
	return []any{t.sub, []byte(t.Queue), []byte(t.Kind), lifecycle.Number(t.State), t.Class(), t.Rank(), t.Priority, micros(t.RunAt), due,
		micros(t.Enqueued), micros(t.ExpiresAt), lapses, micros(t.Started), micros(t.Ended), done, t.Attempts, t.Granted, t.Crashes, t.Snoozes,
		flag(t.Begun), flag(t.Displaced), int64(t.Token), t.worker, holder, int64(t.Completed), ukey, micros(t.Window), limit, flag(t.Queues()),
		text(t.Reason), text(t.Stop)}
}

func options(s *task.Spec) []byte {
	if c := s.MarshalOptions(); c != nil {
		return c
	}
	return []byte{}
}

// reads takes tasks in that a statement found; one that is known already stays as it is known.
func (b *txn) reads(found *[]*taskRow) reader {
	return func(r *sql.Rows) error {
		t, err := readTask(r)
		if err == nil && t.aside && !b.looks && b.tx == nil {
			err = &asideError{t.ID, t.Reason}
		}
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
			if t.Key != nil {
				b.keys[task.Hash(t.Key)] = t
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
func (b *txn) find(selection string, args ...any) (found []*taskRow, err error) {
	err = b.ask(func(p *packet) []reader {
		p.add("task-columns").add(selection, args...)
		return []reader{b.reads(&found)}
	})
	return found, err
}

// load reads tasks by id.
func (b *txn) load(ids []task.ID) error {
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
func (b *txn) get(id task.ID) (*taskRow, error) {
	err := b.load([]task.ID{id})
	t := b.tasks[id]
	if t != nil && t.gone {
		return nil, err
	}
	return t, err
}

// save has t written as it is.
func (b *txn) save(t *taskRow) { t.dirty = !t.isNew }

// change does what what says to t, and has it written with all that follows from it.
func (b *txn) change(t *taskRow, what func() lifecycle.Note) error {
	from, key := t.State, t.Key
	n := what()
	b.index(t, key)
	if n.Tried != nil {
		w, err := b.process(t.worker)
		if err != nil {
			return err
		}
		n.Tried.Host = w.Host
		b.tries = append(b.tries, try{t, *n.Tried})
	}
	if n.Count != "" {
		b.counts[counter{t.Queue, t.Kind, n.Count}]++
	}
	return b.move(t, from)
}

// index notes whether t holds its unique key, which it did as had says.
func (b *txn) index(t *taskRow, had []byte) {
	switch {
	case t.Key != nil:
		b.keys[task.Hash(t.Key)] = t
	case had != nil:
		b.keys[task.Hash(had)] = nil
	}
}

// move writes t, which was in state from, and brings its limit up to date: a waiting task moves up, or steps back
// (rule Q5).
func (b *txn) move(t *taskRow, from task.State) error {
	b.save(t)
	if t.limit == nil || t.State == from && !t.State.Waiting() {
		return nil
	}
	if b.tx != nil {
		if t.State == task.Blocked {
			t.State = task.Available
		}
		b.wakeUp(t)
		return nil
	}
	l, err := b.limitOf(t)
	if err != nil {
		return err
	}
	if t.State == task.Available && t.Queues() {
		t.State = task.Blocked // until its sub-queue nominates it
	}
	if from == task.Running {
		l.running--
	}
	if t.State == task.Running {
		l.running++
	}
	b.settle(l)
	return nil
}

// wait lets t wait by its instant.
func (b *txn) wait(t *taskRow) error {
	return b.change(t, func() lifecycle.Note { return t.Wait(b.now) })
}

// discard ends a task that the store itself decided not to do.
func (b *txn) discard(t *taskRow, reason string) error {
	return b.change(t, func() lifecycle.Note { return t.Discard(reason, b.now) })
}

// free gives t's unique key up.
func (b *txn) free(t *taskRow) {
	had := t.Key
	t.Key = nil
	b.index(t, had)
}

// remove forgets a final task.
func (b *txn) remove(t *taskRow) {
	b.free(t)
	t.dirty, t.gone = true, true
}
