package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/queue"
)

// mostSpecs and mostBytes bound what is taken in with one packet, which the server must be ready to receive.
const (
	mostSpecs = 2000
	mostBytes = 1 << 20
)

// Enqueue fulfils queue.Store. A batch that does not fit into one packet is taken in with several.
func (q queues) Enqueue(ctx context.Context, specs []queue.Spec) (answers []queue.Enqueued, err error) {
	for len(specs) > 0 {
		n, size := 0, 0
		for n < len(specs) && n < mostSpecs && (n == 0 || size+len(specs[n].Args) <= mostBytes) {
			size += len(specs[n].Args) + 512
			n++
		}
		some, err := q.enqueue(ctx, specs[:n])
		if err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
		answers, specs = append(answers, some...), specs[n:]
	}
	return answers, nil
}

func (q queues) enqueue(ctx context.Context, specs []queue.Spec) (answers []queue.Enqueued, err error) {
	if !slices.ContainsFunc(specs, func(s queue.Spec) bool { return s.Unique != nil || s.Limit != nil }) {
		return q.enqueuePlain(ctx, specs)
	}
	if err := q.newLanes(ctx, specs); err != nil {
		return nil, err
	}
	err = q.step(ctx, func(b *board) error {
		a := admission{board: b, answers: make([]admitted, len(specs))}
		if err := a.prepare(specs); err != nil {
			return err
		}
		for i, s := range specs {
			if err := a.enqueue(i, s); err != nil {
				return err
			}
		}
		if err := b.carryOut(); err != nil {
			return err
		}
		answers = a.answer()
		return nil
	})
	return answers, err
}

// known are the lanes and workers that this process knows to have a row, which none of them loses while it is used.
type known struct {
	lanes   sync.Map // by namespace and place
	workers sync.Map // *member by lease.Ref
}

func (q queues) newLanes(ctx context.Context, specs []queue.Spec) error {
	p, lanes := new(packet), map[place]bool{}
	q.addLanes(p, lanes, specs)
	if len(lanes) == 0 {
		return nil
	}
	if err := q.run(ctx, p); err != nil {
		return err
	}
	q.known.keep(lanes)
	return nil
}

func (q queues) addLanes(p *packet, lanes map[place]bool, specs []queue.Spec) {
	for _, s := range specs {
		at := place{s.Queue, s.Kind}
		if _, ok := q.known.lanes.Load(at); !ok && !lanes[at] {
			lanes[at] = true
			p.add("add-lane", q.ns, []byte(s.Queue), []byte(s.Kind), 0)
		}
	}
}

func (k *known) keep(lanes map[place]bool) {
	for at := range lanes {
		k.lanes.Store(at, true)
	}
}

// enqueuePlain takes in tasks that depend on no others, with one packet that decides by itself.
func (q queues) enqueuePlain(ctx context.Context, specs []queue.Spec) ([]queue.Enqueued, error) {
	p, lanes := new(packet), map[place]bool{}
	q.addLanes(p, lanes, specs)
	p.add("begin").add("clock").add("insert-tasks")
	for i, s := range specs {
		if i > 0 {
			p.text.WriteByte(',')
		}
		q.addPlain(p, s)
	}
	p.text.WriteString("; ")
	p.add("commit").add("inserted")
	var now time.Time
	var first, each int64
	err := q.run(ctx, p, func(r *sql.Rows) error {
		var us int64
		err := r.Scan(&us, &first, &each)
		now = instant(us)
		return err
	})
	if err != nil {
		return nil, err
	}
	q.known.keep(lanes)
	answers := make([]queue.Enqueued, len(specs))
	for i, s := range specs {
		answers[i] = queue.Enqueued{Answer: queue.New, ID: queue.ID(first + int64(i)*each), State: queue.Available}
		if at := s.RunAt; at.IsZero() && s.Delay >= time.Microsecond || !at.IsZero() && micro(at).Add(s.Delay).After(now) {
			answers[i].State = queue.Scheduled
		}
	}
	return answers, nil
}

func (q queues) addPlain(p *packet, s queue.Spec) {
	s.RetryUntil = micro(s.RetryUntil)
	t := task{Task: queue.Task{Spec: s}}
	at, delay, expires := micros(s.RunAt), s.Delay.Microseconds(), micros(s.ExpiresAt)
	p.add("plain-row", q.ns, laneNumber(place{s.Queue, s.Kind}), []byte(s.Queue), []byte(s.Kind), at, at, delay, t.ordinal(), s.Priority,
		at, at, delay, at, at, delay, at, at, delay, expires, expires, t.cold(), []byte(s.Args))
}

// admission takes in a batch of tasks, one after the other.
type admission struct {
	*board
	answers []admitted
}

// admitted is the answer for one of them, as far as it is known before the step is carried out.
type admitted struct {
	queue.Admission
	*task
}

func (a *admission) answer() []queue.Enqueued {
	all := make([]queue.Enqueued, len(a.answers))
	for i, x := range a.answers {
		all[i].Answer = x.Admission
		if x.task != nil {
			all[i].ID, all[i].State = x.task.ID, x.task.State
		}
	}
	return all
}

// prepare reads what the batch needs.
func (a *admission) prepare(specs []queue.Spec) error {
	var keys list
	var limits []wake
	for _, s := range specs {
		if s.Unique != nil {
			h := s.Unique.Hash(s.Kind)
			keys = append(keys, h[:])
		}
		if s.Limit != nil {
			limits = append(limits, wake{hash: s.Limit.Hash(s.Kind), key: s.Limit.Key, slots: s.Limit.Slots()})
		}
	}
	if len(keys) > 0 {
		if _, err := a.find("tasks-by-key", a.q.ns, keys); err != nil {
			return err
		}
		if err := a.unsettled(keys); err != nil {
			return err
		}
	}
	for _, t := range a.tasks {
		if t.limit != nil {
			limits = append(limits, t.declared())
		}
	}
	switch {
	case len(limits) > 0:
		return a.lock(limits, false, a.byID(slices.Collect(maps.Keys(a.tasks))))
	case len(keys) == 0:
		return a.ask(func(*packet) []reader { return nil })
	}
	return nil
}

// errPending says that another transaction is taking a key.
var errPending = fmt.Errorf("%w: another transaction is taking a unique key", errChanged)

// unsettled looks for keys that a transaction takes which has not ended. As long as there is patience, the step is
// tried again; then they are left alone, and answered Undecided.
func (a *admission) unsettled(keys list) error {
	a.pending = map[queue.Hash]bool{}
	p := new(packet).add("unsettled-keys", a.q.ns, keys)
	err := a.q.run(a.ctx, p, func(r *sql.Rows) error {
		var key []byte
		var id int64
		err := r.Scan(&key, &id)
		if h := queue.Hash(key); err == nil && a.keys[h] == nil {
			a.pending[h] = true
		}
		return err
	})
	if err == nil && len(a.pending) > 0 && a.patient {
		return errPending
	}
	return err
}

func debounces(s *queue.Spec) bool { return s.Unique != nil && s.Unique.Again == queue.Debounce }

func (a *admission) enqueue(i int, s queue.Spec) (err error) {
	to := &a.answers[i]
	if s.RunAt.IsZero() {
		s.RunAt = a.now
	}
	if !debounces(&s) {
		s.RunAt, s.Delay = s.RunAt.Add(s.Delay), 0
	}
	if s.Unique == nil {
		return a.admit(to, s)
	}
	hash := s.Unique.Hash(s.Kind)
	if a.pending[hash] {
		*to = admitted{queue.Undecided, nil}
		return nil
	}
	there, err := a.holder(hash)
	switch {
	case err != nil:
		return err
	case there == nil:
		return a.admit(to, s)
	case s.Unique.Again != queue.Replace && s.Unique.Again != queue.Debounce:
		*to = admitted{queue.Duplicate, there}
		return nil
	case a.busy(there):
		*to = admitted{queue.Undecided, nil}
		return nil
	case there.State.Waiting():
		*to = admitted{queue.Updated, there}
		return a.replace(there, s)
	}
	// A worker has its arguments already: the new ones make a task of their own, which holds the key from now on.
	a.board.free(there)
	a.save(there)
	return a.admit(to, s)
}

// holder is who holds a unique key now; nil where nobody does.
func (b *board) holder(h queue.Hash) (*task, error) {
	t := b.keys[h]
	switch {
	case t == nil || b.locked[t.ID]:
		return t, nil
	case t.over(b.now):
		return nil, b.discard(t, queue.ReasonExpired)
	case t.State == queue.Succeeded && !b.now.Before(t.window):
		b.unlock(t)
		return nil, nil
	}
	return t, nil
}

// unlock ends the window of a task that succeeded.
func (b *board) unlock(t *task) {
	t.window = time.Time{}
	b.free(t)
	b.save(t)
}

// make is a new task of a spec.
func (b *board) make(s queue.Spec) *task {
	t := &task{Task: queue.Task{Spec: s, Enqueued: b.now}, isNew: true, lane: laneNumber(place{s.Queue, s.Kind})}
	if debounces(&s) {
		t.RunAt, t.Delay = t.RunAt.Add(s.Delay), 0
	}
	t.RunAt, t.ExpiresAt, t.RetryUntil = micro(t.RunAt), micro(t.ExpiresAt), micro(t.RetryUntil)
	t.ID = queue.ID(1<<60 + len(b.added)) // after all that are there
	t.State = queue.Available
	if t.RunAt.After(b.now) {
		t.State = queue.Scheduled
	}
	if s.Limit != nil {
		h := s.Limit.Hash(s.Kind)
		t.limit = &h
	}
	if s.Unique != nil {
		h := s.Unique.Hash(s.Kind)
		t.ukey = h[:]
	}
	return t
}

func (a *admission) admit(to *admitted, s queue.Spec) error {
	t := a.make(s)
	a.added = append(a.added, t)
	*to = admitted{queue.New, t}
	if t.ukey != nil {
		a.keys[queue.Hash(t.ukey)] = t
	}
	if t.limit == nil {
		return nil
	}
	if a.tx != nil {
		a.wakeUp(t)
		return nil
	}
	if err := a.declare(t); err != nil {
		return err
	}
	return a.move(t, "")
}

// insert appends the new tasks, in their order: one that takes a unique key by itself, the others together.
func (b *board) insert(p *packet) (readers []reader) {
	for rest := b.added; len(rest) > 0; {
		n := 1
		for rest[0].ukey == nil && n < len(rest) && rest[n].ukey == nil {
			n++
		}
		some := rest[:n]
		rest = rest[n:]
		p.add("insert-tasks")
		p.argument(b.rows(some))
		if some[0].ukey != nil {
			p.text.WriteByte(' ')
			p.add("same").add("if-one")
		} else {
			p.text.WriteString("; ")
		}
		p.add("inserted")
		readers = append(readers, func(r *sql.Rows) error {
			var now, first, each int64
			err := r.Scan(&now, &first, &each)
			for i, t := range some {
				t.ID = queue.ID(first + int64(i)*each)
			}
			return err
		})
	}
	return readers
}

func (b *board) rows(tasks []*task) (all rows) {
	for _, t := range tasks {
		all = append(all, append(append([]any{b.q.ns}, t.columns()...), t.cold(), []byte(t.Args)))
	}
	return all
}

// replace gives a waiting task what a newer spec says (rule Q3). Its id and place stay.
func (b *board) replace(t *task, s queue.Spec) error {
	from := t.State
	t.Args, t.Priority, t.Tags, t.RunAt = s.Args, s.Priority, s.Tags, s.RunAt
	t.Granted, t.Snoozes, t.respelt = t.Attempts, 0, true
	if debounces(&s) {
		t.RunAt = b.now.Add(s.Delay)
		if last := t.Enqueued.Add(s.Unique.Longest(s.Delay)); t.RunAt.After(last) {
			t.RunAt = last
		}
	}
	t.RunAt = micro(t.RunAt)
	return b.wait(t, from)
}
