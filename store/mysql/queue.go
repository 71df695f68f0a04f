package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
)

// queues fulfils queue.Store, desk queue.Admin. What they do to tasks is decided here, in Go, over rows
// that were read without a lock; one packet then carries it out, if none of these rows has changed
// since, or changes nothing. A client that dies or is stopped in between has nothing locked.
type (
	queues struct {
		*database
		known *known
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

	tasks   map[queue.ID]*task
	added   []*task
	keys    map[queue.Hash]*task
	limits  map[queue.Hash]*limit
	rates   map[string]*rate
	workers map[int64]worker
	counts  map[counter]int64
	tries   []try
	events  []entry
	wakes   []wake
	woken   list // salts of wakes that this step answers

	// locked are tasks that somebody else had when this step was tried before; patient is how long the step
	// still tries to have those that it is about.
	locked  map[queue.ID]bool
	patient bool

	worker   lease.Ref // its lease must be live
	notAfter time.Time
	unpaused bool // no pause may have begun since now
	claims   *claims
	joins    []func(*packet)
	pending  map[queue.Hash]bool // unique keys that another transaction is taking
	done     bool                // it is carried out
}

type (
	entry struct{ kind, reason string }
	try   struct {
		task    *task
		attempt queue.Attempt
	}
	counter struct {
		queue, kind, name string
	}
	wake struct {
		salt  int64
		hash  queue.Hash
		key   string
		slots int
	}
	// A place is a queue and a kind.
	place struct{ queue, kind string }
)

const (
	// lockWait is how long a step waits for a task that another transaction has (rule Q2).
	lockWait = 2 * time.Second
	// stale is how long what was decided may take to be carried out.
	stale = 3 * time.Second
	// tenacity is how long a step is tried again while others change what it was decided on.
	tenacity = 20 * time.Second
)

// errChanged says that a step was not carried out: what it was decided on has changed.
var errChanged = errors.New("others keep changing the same tasks")

// step decides and carries out one atomic step on the queues.
func (q queues) step(ctx context.Context, do func(b *board) error) error {
	locked := map[queue.ID]bool{}
	begin := time.Now()
	for n := 1; ; n++ {
		b := &board{ctx: ctx, q: q, locked: locked, patient: time.Since(begin) < lockWait}
		b.reset()
		err := do(b)
		if err == nil {
			err = b.carryOut()
		}
		code := number(err)
		if !errors.Is(err, errChanged) && code != 1213 && code != 1205 {
			return err
		}
		if time.Since(begin) > tenacity {
			return fmt.Errorf("%w: %w", lease.ErrUnavailable, err)
		}
		locked = b.locked
		if err := pause(ctx, n, len(locked) > 0); err != nil {
			return err
		}
	}
}

// pause lets others go first, for about as long as a packet takes, or, where somebody holds a task, a little longer.
func pause(ctx context.Context, n int, longer bool) error {
	d := rand.N(time.Duration(min(n, 8)) * time.Millisecond)
	if longer {
		d += 5 * time.Millisecond
	}
	return rest(ctx, d)
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", lease.ErrUnavailable, ctx.Err())
	}
}

func (b *board) reset() {
	b.tasks, b.keys, b.limits = map[queue.ID]*task{}, map[queue.Hash]*task{}, map[queue.Hash]*limit{}
	b.workers, b.counts = map[int64]worker{}, map[counter]int64{}
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

// reading begins a packet that only reads. All packets of a step read at the same instant, its own.
func (b *board) reading() (*packet, []reader) {
	if b.now.IsZero() {
		return new(packet).add("clock").add("now"), []reader{readInstant(&b.now)}
	}
	return new(packet).add("at", micros(b.now)), nil
}

// ask reads with one statement, or several.
func (b *board) ask(add func(*packet) []reader) error {
	p, readers := b.reading()
	readers = append(readers, add(p)...)
	return b.send(p, readers)
}

func (b *board) send(p *packet, readers []reader) error {
	if b.tx != nil {
		return b.tx.send(b.ctx, p, readers)
	}
	return b.q.run(b.ctx, p, readers...)
}

// busy says that somebody else has t, and that it has been waited for long enough.
func (b *board) busy(t *task) bool {
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

// tally counts what the store itself did to t.
func (b *board) tally(t *task, name string) {
	b.counts[counter{t.Queue, t.Kind, name}]++
}

// remember adds an attempt to t's history.
func (b *board) remember(t *task, a queue.Attempt) { b.tries = append(b.tries, try{t, a}) }

func (b *board) idle() bool {
	return len(b.added)+len(b.events)+len(b.wakes)+len(b.woken)+len(b.joins)+len(b.counts) == 0 && b.claims == nil &&
		len(b.changed()) == 0 && len(b.touched()) == 0
}

// changed are the tasks to write, those first that give a unique key up.
func (b *board) changed() (all []*task) {
	for _, t := range b.tasks {
		if (t.dirty || t.counts) && !t.isNew {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(x, y *task) int {
		return cmp.Or(cmp.Compare(flag(x.takesKey()), flag(y.takesKey())), cmp.Compare(x.ID, y.ID))
	})
	return all
}

func (b *board) touched() (all []*limit) {
	for _, l := range b.limits {
		if l.touched {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(x, y *limit) int { return strings.Compare(string(x.hash[:]), string(y.hash[:])) })
	return all
}

// carryOut sends what the step changes as one packet. It locks leases never, then rates, limits and tasks, each in the
// order of the primary key; everything else is only added to.
func (b *board) carryOut() error {
	if b.done {
		return nil
	}
	if err := b.settleAll(); err != nil || b.idle() {
		return err
	}
	tasks, limits := b.changed(), b.touched()
	p := new(packet).add("fresh").add("begin")
	b.hold(p, tasks, limits)
	p.add("clock").add("if-current", micros(b.now.Add(stale)))
	if b.worker != (lease.Ref{}) {
		p.add("if-live", b.q.ns, []byte(b.worker.Key), nonce(b.worker.Owner), int64(b.worker.Token))
	}
	if !b.notAfter.IsZero() {
		p.add("if-current", micros(b.notAfter))
	}
	if b.unpaused {
		p.add("if-unpaused", b.q.ns, micros(b.now))
	}
	readers := b.claims.add(p, b)
	readers = append(readers, b.write(p, tasks, limits)...)
	var ok bool
	var got []byte
	p.add("decide")
	readers = append(readers, func(r *sql.Rows) error {
		var now int64
		return r.Scan(&ok, &now, &got)
	})
	if err := b.q.run(b.ctx, p, readers...); err != nil {
		return err
	}
	if b.done = ok; ok {
		return nil
	}
	b.locked = others(tasks, string(got))
	return errChanged
}

// hold locks what the step was decided on, and sees whether it is unchanged.
func (b *board) hold(p *packet, tasks []*task, limits []*limit) {
	var vers, ids list
	for _, kind := range slices.Sorted(maps.Keys(b.rates)) {
		if r := b.rates[kind]; r.used {
			vers, ids = append(vers, []byte(fmt.Sprintf("%d/%s", r.ver, kind))), append(ids, []byte(kind))
		}
	}
	if len(ids) > 0 {
		p.add("hold-rates", vers, b.q.ns, ids, len(ids))
	}
	vers, ids = nil, nil
	for _, l := range limits {
		vers, ids = append(vers, []byte(fmt.Sprintf("%d/%X", l.ver, l.hash[:]))), append(ids, l.hash[:])
	}
	if len(ids) > 0 {
		p.add("hold-limits", vers, b.q.ns, ids, len(ids))
	}
	vers, ids = nil, nil
	for _, t := range tasks {
		vers, ids = append(vers, []byte(fmt.Sprintf("%d/%d", t.ver, t.ID))), append(ids, int64(t.ID))
	}
	if len(ids) > 0 {
		p.add("hold-tasks", vers, ids, len(ids))
	}
}

// write appends the changes themselves.
func (b *board) write(p *packet, tasks []*task, limits []*limit) (readers []reader) {
	for _, l := range limits {
		p.add("update-limit", l.max, int64(l.token), b.q.ns, l.hash[:])
	}
	for _, kind := range slices.Sorted(maps.Keys(b.rates)) {
		if r := b.rates[kind]; r.used {
			p.add("use-rate", micros(r.full), b.q.ns, []byte(kind))
		}
	}
	var gone list
	for _, t := range tasks {
		if !t.dirty {
			continue
		}
		if t.gone {
			gone = append(gone, int64(t.ID))
			p.add("delete-task", int64(t.ID))
			continue
		}
		t.addUpdate(p)
	}
	if len(gone) > 0 {
		p.add("delete-attempts", gone)
	}
	salt := int64(0)
	if b.tx == nil {
		readers = b.insert(p)
	} else {
		salt = rand.Int64()
	}
	for _, t := range b.tries {
		p.add("add-attempt", int64(t.task.ID), toJSON(t.attempt))
	}
	b.addCounts(p, salt)
	for _, w := range b.wakes {
		p.add("add-wake", b.q.ns, rand.Int64(), w.hash[:], []byte(w.key), w.slots)
	}
	if len(b.woken) > 0 {
		p.add("drop-wakes", b.q.ns, b.woken)
	}
	for _, e := range b.events {
		b.q.addEvent(p, e.kind, e.reason)
	}
	for _, join := range b.joins {
		join(p)
	}
	return readers
}

// addCounts adds to counters, always in the same order.
func (b *board) addCounts(p *packet, salt int64) {
	minute := micros(b.now.Truncate(time.Minute))
	for _, c := range slices.SortedFunc(maps.Keys(b.counts), func(x, y counter) int {
		return cmp.Or(strings.Compare(x.queue, y.queue), strings.Compare(x.kind, y.kind), strings.Compare(x.name, y.name))
	}) {
		p.add("count", b.q.ns, minute, []byte(c.queue), []byte(c.kind), []byte(c.name), salt, b.counts[c], b.counts[c])
	}
}

func (q queues) addEvent(p *packet, kind, reason string) {
	p.add("append", q.ns, 0, 0, []byte(run.NewID()), []byte(kind), []byte{}, []byte{}, 0, []byte{}, "", text(reason))
}

// others are the tasks that somebody else had, by what the packet got.
func others(tasks []*task, got string) map[queue.ID]bool {
	all := map[queue.ID]bool{}
	for _, t := range tasks {
		all[t.ID] = true
	}
	for id := range strings.SplitSeq(got, ",") {
		if n, err := strconv.ParseInt(id, 10, 64); err == nil {
			delete(all, queue.ID(n))
		}
	}
	return all
}

// Watch fulfils queue.Store: the server cannot tell, so workers poll.
func (q queues) Watch(context.Context, []string) (<-chan struct{}, error) { return nil, nil }

var (
	_ queue.Store = queues{}
	_ queue.Admin = desk{}
)
