package mysql

import (
	"database/sql"
	"slices"

	"github.com/dibs-run/dibs/task"
)

// A wake asks for a look at a limit, from a step that could not lock it.
type wake struct {
	id    int64
	hash  task.Hash
	key   string
	slots int // what it declares, else 0
}

// wakeUp asks for a look at t's limit later.
func (b *txn) wakeUp(t *taskRow) {
	w := wake{hash: *t.limit, key: t.Limit.Key}
	if t.isNew {
		w.slots = t.Limit.Slots() // it is new, and declares how many
	}
	b.leave(w)
}

func (b *txn) leave(w wake) {
	if !slices.Contains(b.wakes, w) {
		b.wakes = append(b.wakes, w)
	}
}

// wanted are some wakes, the oldest ones, as far as they are no younger than last. Younger ones are not waited for: a
// look at a limit leaves a wake again if another transaction has a task of its line.
type wanted struct {
	wakes []wake
	last  int64
}

func (q queues) addWakes(p *packet, to *wanted) reader {
	p.add("wakes", q.ns, q.ns, to.last)
	return func(r *sql.Rows) error {
		var w wake
		var hash []byte
		var youngest int64
		err := r.Scan(&w.id, &hash, &w.key, &w.slots, &youngest)
		copy(w.hash[:], hash)
		to.wakes, to.last = append(to.wakes, w), min(to.last, youngest)
		return err
	}
}

// look answers wakes: it locks the limits, hears what they declare, and settles them.
func (b *txn) look(asked []wake) error {
	limits := make([]wake, len(asked))
	for i, w := range asked {
		b.woken = append(b.woken, w.id)
		limits[i] = w
		limits[i].slots = max(w.slots, 1)
	}
	if err := b.lock(limits, false, nothing); err != nil {
		return err
	}
	for _, w := range asked {
		l, err := b.limit(w)
		if err != nil {
			return err
		}
		if w.slots > 0 {
			if err := b.hears(l, w.slots); err != nil {
				return err
			}
		}
		l.disturbed = true
		b.settle(l)
	}
	return nil
}
