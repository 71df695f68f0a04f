package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// queues fulfils driver.Store, admin driver.Admin. Go decides what happens to tasks, and one packet carries it out.
// Many steps contend for limits: a step that has to do with limits locks them first, in their order, and reads what it
// decides on then. Everything else is read without a lock; the packet checks that it is unchanged, or changes
// nothing.
type (
	queues struct {
		*database
		known *known
		room  room
	}
	admin struct{ queues }
)

// txn is what one step knows about the queues, and what it changes. It belongs to one goroutine.
type txn struct {
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

	// locked are tasks that another transaction had when this step was tried before. patient says that the step still
	// waits for the tasks that it is about.
	locked  map[task.ID]bool
	patient bool

	worker      lease.Ref // its lease must be live
	notAfter    time.Time
	kinds       map[string]bool // of what a fetch may give
	pausedSince list            // when the pauses began that the step knows, and 0; nil: it has nothing to do with pauses
	claims      *claims
	joins       []func(*packet)
	pending     map[task.Hash]bool // unique keys that another transaction is taking
	done        bool               // it is carried out

	// conn has the transaction that has the limits in asked locked. want are limits that the step turned out to need
	// too late: they are locked first when it is tried again. missing are limits without a row.
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
	// A subQueueName is a queue and a kind.
	subQueueName struct{ queue, kind string }
)

func (b *txn) reset() {
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

// busy says that another transaction has t, and that the step has waited for it for long enough.
func (b *txn) busy(t *taskRow) bool {
	if !b.locked[t.ID] {
		return false
	}
	if b.patient {
		delete(b.locked, t.ID) // try again
		return false
	}
	return true
}

// live says whether a worker's lease is live now. The packet that carries the step out checks again.
func (b *txn) live(ref lease.Ref) (is bool, err error) {
	err = b.ask(func(p *packet) []reader {
		p.add("live-worker", b.q.ns, []byte(ref.Key), nonce(ref.Owner), int64(ref.Token))
		return []reader{func(r *sql.Rows) error { return r.Scan(&is) }}
	})
	b.worker = ref
	return is, err
}

func (b *txn) record(kind, reason string) { b.events = append(b.events, entry{kind, reason}) }

// Watch fulfils driver.Store: the server cannot tell, so workers poll.
func (q queues) Watch(context.Context, []string) (<-chan struct{}, error) { return nil, nil }

var (
	_ driver.Store = queues{}
	_ driver.Admin = admin{}
)
