//go:build linux

package file

import (
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// taskRow is the row of a task.
type taskRow struct {
	lifecycle.Task
	sub    int64
	worker int64
	limit  int64 // 0 where it has none

	respelt bool  // its arguments or options have changed too
	aside   bool  // it is damaged, and the step that met it has ended it
	stood   int64 // the limit under which a damaged one stood …
	ran     bool  // … and ran
}

func readTask(row scanner) (t taskRow, err error) {
	var state, class, rank int
	var runAt, enqueued, expires, started, ended, window int64
	var options []byte
	err = row.Scan(&t.ID, &t.sub, &t.Queue, &t.Kind, &state, &class, &rank, &t.Priority, &runAt, &enqueued, &expires, &started, &ended,
		&t.Attempts, &t.Granted, &t.Crashes, &t.Snoozes, (*truth)(&t.Begun), (*truth)(&t.Displaced), &t.Token, &t.worker, &t.Completed,
		&t.Key, &window, &t.limit, &t.Args, &options, &t.Reason, &t.Stop)
	if err != nil {
		return t, err
	}
	t.Suspect, t.Front = class > lifecycle.Clear, lifecycle.IsFront(rank)
	t.RunAt, t.Enqueued, t.ExpiresAt, t.Started, t.Ended, t.Window = instantOf(runAt), instantOf(enqueued), instantOf(expires),
		instantOf(started), instantOf(ended), instantOf(window)
	stood := t.limit
	if t.aside = t.Read(state, options, stood != 0); t.Limit == nil {
		t.limit = 0
	}
	if t.aside {
		t.stood, t.ran = stood, lifecycle.States[state] == task.Running
	}
	return t, nil
}

// stateOf is the state that a row numbers so.
func stateOf(number int) task.State {
	if number < 0 || number >= len(lifecycle.States) {
		return task.Damaged
	}
	return lifecycle.States[number]
}

// columns are those of task_update, and the first ones of task_insert.
func (t *taskRow) columns() []any {
	return []any{t.sub, lifecycle.Number(t.State), t.Class(), t.Rank(), t.Priority, micros(t.RunAt), micros(t.Enqueued), micros(t.ExpiresAt),
		micros(t.Started), micros(t.Ended), t.Attempts, t.Granted, t.Crashes, t.Snoozes, t.Begun, t.Displaced, int64(t.Token), t.worker,
		int64(t.Completed), t.Key, micros(t.Window), t.limit, t.Queues(), t.Reason, t.Stop}
}

// spelling are the columns that change only if somebody gives the task other arguments or options.
func (t *taskRow) spelling() []any {
	options := t.MarshalOptions()
	if options == nil {
		options = []byte{}
	}
	return []any{[]byte(t.Args), options}
}

// get reads one task; nil where there is none.
func (b *txn) get(id task.ID) (*taskRow, error) {
	return b.find("task_get", int64(id))
}

func (b *txn) find(name string, args ...any) (*taskRow, error) {
	t, err := readTask(b.row(name, args...))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err == nil && t.aside && !b.looks:
		return &t, b.setAside(&t)
	}
	return &t, err
}

// setAside ends a damaged task, and gives the next one of its limit its slot.
func (b *txn) setAside(t *taskRow) error {
	had := b.limits[t.stood] != nil
	t.State, t.Reason, t.limit, t.Key = task.Discarded, task.ReasonDamaged, 0, nil
	if err := b.exec("task_set_aside", lifecycle.Number(t.State), micros(b.now), t.Reason, int64(t.ID)); err != nil || t.stood == 0 {
		return err
	}
	l, err := b.limit(t.stood)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if had && t.ran {
		l.running--
	}
	b.settle(l)
	l.disturb(t.sub)
	return nil
}

// save writes t as it is. It leaves the arguments and options alone unless they have changed: they are most of the
// row, and writing them as JSON costs much.
func (b *txn) save(t *taskRow) error {
	if err := b.exec("task_update", append(t.columns(), int64(t.ID))...); err != nil || !t.respelt {
		return err
	}
	return b.exec("task_respell", append(t.spelling(), int64(t.ID))...)
}

// change applies what to t, and writes it with all its consequences.
func (b *txn) change(t *taskRow, what func() lifecycle.Note) error {
	from := t.State
	n := what()
	if n.Tried != nil {
		if err := b.remember(t, *n.Tried); err != nil {
			return err
		}
	}
	if n.Count != "" {
		if err := b.tally(t, n.Count); err != nil {
			return err
		}
	}
	return b.move(t, from)
}

// move writes t, which was in state from. By the end of the step waiting tasks of its limit move up or step back (rule
// Q5), and t may be available then, which blocked says of it until that is settled.
func (b *txn) move(t *taskRow, from task.State) error {
	if t.limit == 0 || t.State == from && !t.State.Waiting() {
		return b.save(t)
	}
	l, err := b.limitOf(t)
	if err != nil {
		return err
	}
	if t.State == task.Available && t.Queues() {
		t.State = task.Blocked // until its line nominates it
	}
	if err := b.save(t); err != nil {
		return err
	}
	if from == task.Running {
		l.running--
	}
	if t.State == task.Running {
		l.running++
	}
	b.settle(l)
	l.disturb(t.sub)
	return nil
}

// look reads again in which state tasks are that stand in line, once their lines are in order.
func (b *txn) look(tasks []*taskRow) error {
	if len(tasks) == 0 {
		return nil
	}
	ids, at := make([]task.ID, len(tasks)), map[task.ID][]*taskRow{}
	for i, t := range tasks {
		ids[i] = t.ID
		at[t.ID] = append(at[t.ID], t)
	}
	_, err := rows(b, func(row scanner) (any, error) {
		var id task.ID
		var now int
		err := row.Scan(&id, &now)
		for _, t := range at[id] {
			t.State = stateOf(now)
		}
		return nil, err
	}, "states", listOf(ids))
	return err
}

// inLine says that the end of the step decides whether t is available or blocked.
func (t *taskRow) inLine() bool {
	return t.limit != 0 && t.Queues() && (t.State == task.Available || t.State == task.Blocked)
}

// wait lets t wait by its instant.
func (b *txn) wait(t *taskRow) error {
	return b.change(t, func() lifecycle.Note { return t.Wait(b.now) })
}

// discard ends a task that the store itself, or somebody through it, decided not to do.
func (b *txn) discard(t *taskRow, reason string) error {
	return b.change(t, func() lifecycle.Note { return t.Discard(reason, b.now) })
}

// remember adds an attempt by t's worker to its history.
func (b *txn) remember(t *taskRow, a task.Attempt) error {
	w, err := b.process(t.worker)
	if err != nil {
		return err
	}
	a.Host = w.Host
	text, err := json.Marshal(a)
	if err == nil {
		err = b.exec("attempt_add", int64(t.ID), string(text))
	}
	if err != nil || a.N+t.Snoozes+t.Crashes < driver.MostAttempts && t.Granted == 0 {
		return err
	}
	return b.exec("attempts_trim", int64(t.ID), driver.FirstAttempts, driver.MostAttempts)
}

// remove forgets a final task.
func (b *txn) remove(t *taskRow) error {
	if err := b.exec("task_delete", int64(t.ID)); err != nil {
		return err
	}
	return b.exec("attempts_delete", int64(t.ID))
}
