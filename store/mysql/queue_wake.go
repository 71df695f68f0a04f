package mysql

import (
	"database/sql"
	"slices"

	"github.com/dibs-run/dibs/queue"
)

// A wake asks for a look at a limit, of somebody who could not lock it.
type wake struct {
	salt  int64
	hash  queue.Hash
	key   string
	slots int // what it declares, else 0
}

// wakeUp asks for a look at t's limit later.
func (b *board) wakeUp(t *task) {
	w := wake{hash: *t.limit, key: t.Limit.Key}
	if t.isNew {
		w.slots = t.Limit.Slots() // it is new, and declares how many
	}
	b.leave(w)
}

func (b *board) leave(w wake) {
	if !slices.Contains(b.wakes, w) {
		b.wakes = append(b.wakes, w)
	}
}

// readWakes reads what was asked for.
func readWakes(to *[]wake) reader {
	return func(r *sql.Rows) error {
		var w wake
		var hash []byte
		err := r.Scan(&w.salt, &hash, &w.key, &w.slots)
		copy(w.hash[:], hash)
		*to = append(*to, w)
		return err
	}
}

// look does it.
func (b *board) look(asked []wake) error {
	limits := make([]wake, len(asked))
	for i, w := range asked {
		b.woken = append(b.woken, w.salt)
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
			if err := b.resize(l, w.slots, ""); err != nil {
				return err
			}
		}
		l.disturbed = true
		b.settle(l)
	}
	return nil
}
