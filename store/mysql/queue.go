package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// queues fulfils driver.Store, desk driver.Admin. What they do to tasks is decided here, in Go, and carried out
// by one packet. Limits are what many contend for: a step that has to do with them locks them first, in their
// order, and reads what it decides on then. All else was read without a lock; the packet sees whether it is
// unchanged, or changes nothing.
type (
	queues struct {
		*database
		known *known
		room  room
	}
	desk struct{ queues }
)

// board is what one step knows of the queues, and what it wants to be different.
type board struct {
	ctx   context.Context
	q     queues
	tx    *Tx // the caller's transaction, nil where there is none
	now   time.Time
	looks bool // and changes nothing

	tasks   map[task.ID]*taskRow
	added   []*taskRow
	keys    map[task.Hash]*taskRow
	limits  map[task.Hash]*limit
	rates   map[string]*rate
	workers map[int64]worker
	counts  map[counter]int64
	tries   []try
	events  []entry
	wakes   []wake
	woken   list // ids of wakes that this step answers

	// locked are tasks that somebody else had when this step was tried before; patient is how long the step
	// still tries to have those that it is about.
	locked  map[task.ID]bool
	patient bool

	worker      lease.Ref // its lease must be live
	notAfter    time.Time
	pausedSince list // when the pauses began that the step knows, and 0; nil: it has nothing to do with pauses
	claims      *claims
	joins       []func(*packet)
	pending     map[task.Hash]bool // unique keys that another transaction is taking
	done        bool               // it is carried out

	// conn is of the transaction that has limits locked: those that were asked for. want are limits that the step was
	// found to need too late, so that they are asked for first when it is tried again; missing those without a row.
	conn    *sql.Conn
	asked   map[task.Hash]bool
	want    map[task.Hash]bool
	missing []wake
	flips   map[task.ID]flipped // what becomes of others in line
}

type (
	entry struct{ kind, reason string }
	try   struct {
		task    *taskRow
		attempt task.Attempt
	}
	counter struct {
		queue, kind, name string
	}
	// A place is a queue and a kind.
	place struct{ queue, kind string }
)

func (b *board) reset() {
	b.tasks, b.keys, b.limits = map[task.ID]*taskRow{}, map[task.Hash]*taskRow{}, map[task.Hash]*limit{}
	b.workers, b.counts, b.flips = map[int64]worker{}, map[counter]int64{}, map[task.ID]flipped{}
}

// answer answers items one by one, in one step.
func answer[Q, A any](items []Q, one func(Q) (A, error)) (answers []A, err error) {
	for _, item := range items {
		a, err := one(item)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// busy says that somebody else has t, and that it has been waited for long enough.
func (b *board) busy(t *taskRow) bool {
	if !b.locked[t.ID] {
		return false
	}
	if b.patient {
		delete(b.locked, t.ID) // try again
		return false
	}
	return true
}

// live says whether a worker's lease is now. The packet that carries the step out asks once more.
func (b *board) live(ref lease.Ref) (is bool, err error) {
	err = b.ask(func(p *packet) []reader {
		p.add("live-worker", b.q.ns, []byte(ref.Key), nonce(ref.Owner), int64(ref.Token))
		return []reader{func(r *sql.Rows) error { return r.Scan(&is) }}
	})
	b.worker = ref
	return is, err
}

func (b *board) record(kind, reason string) { b.events = append(b.events, entry{kind, reason}) }

// Watch fulfils driver.Store: the server cannot tell, so workers poll.
func (q queues) Watch(context.Context, []string) (<-chan struct{}, error) { return nil, nil }

var (
	_ driver.Store = queues{}
	_ driver.Admin = desk{}
)
