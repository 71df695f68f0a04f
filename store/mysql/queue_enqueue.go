package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// Enqueue fulfils driver.Store. A batch of more than mostSpecs, or of more than mostArgs of arguments, is taken in
// with several steps.
func (q queues) Enqueue(ctx context.Context, specs []task.Spec) (answers []task.Enqueued, err error) {
	for len(specs) > 0 {
		n, size := 0, 0
		for n < len(specs) && n < mostSpecs && (n == 0 || size+len(specs[n].Args) <= mostArgs) {
			size += len(specs[n].Args)
			n++
		}
		some, err := q.enqueue(ctx, specs[:n])
		q.known.quiet.heedEach(specs[:n])
		if err != nil {
			return nil, fmt.Errorf("enqueue: %w", err)
		}
		answers, specs = append(answers, some...), specs[n:]
	}
	return answers, nil
}

func (q queues) enqueue(ctx context.Context, specs []task.Spec) (answers []task.Enqueued, err error) {
	size, plain := 0, true
	for i := range specs {
		size += weight(&specs[i])
		plain = plain && specs[i].Unique == nil && specs[i].Limit == nil
	}
	if plain && size <= mostBytes {
		return q.enqueuePlain(ctx, specs)
	}
	if err := q.newSubQueues(ctx, specs); err != nil {
		return nil, err
	}
	err = q.step(ctx, func(b *txn) error {
		a := admission{txn: b, answers: make([]admitted, len(specs))}
		if err := a.prepare(specs); err != nil {
			return err
		}
		if err := a.enqueueAll(specs); err != nil {
			return err
		}
		if err := b.carryOut(); err != nil {
			return err
		}
		answers = a.answer()
		return nil
	})
	return answers, err
}

// weight is about how many bytes of a packet a task takes.
func weight(s *task.Spec) int { return len(s.Args) + 512 }

// enqueueAll decides about the specs one after the other. If limits are missing it goes on, to learn all of them: the
// step is begun again then.
func (a *admission) enqueueAll(specs []task.Spec) (missing error) {
	for i, s := range specs {
		err := a.enqueue(i, s)
		switch {
		case errors.Is(err, errLimits):
			missing = err
		case err != nil:
			return err
		}
	}
	return missing
}

// known are the sub-queues and workers whose rows this process has seen. No such row goes away while it is used.
type known struct {
	subs    subQueues
	workers sync.Map // *member by lease.Ref
	quiet   quiet
	swept   atomic.Pointer[task.Hash] // the limit behind which Maintain goes on to look; nil: at the first one
}

func (q queues) newSubQueues(ctx context.Context, specs []task.Spec) error {
	p, subs := new(packet), map[subQueueName]bool{}
	q.addSubQueues(p, subs, specs)
	if len(subs) == 0 {
		return nil
	}
	if err := q.run(ctx, p); err != nil {
		return err
	}
	q.known.keep(subs)
	return nil
}

func (q queues) addSubQueues(p *packet, subs map[subQueueName]bool, specs []task.Spec) {
	for _, s := range specs {
		at := subQueueName{s.Queue, s.Kind}
		if !q.known.subs.knows(at) && !subs[at] {
			subs[at] = true
			p.add("add-subqueue", q.ns, []byte(s.Queue), []byte(s.Kind), 0)
		}
	}
}

func (k *known) keep(subs map[subQueueName]bool) {
	for at := range subs {
		k.subs.learn(at)
	}
}

// enqueuePlain takes in tasks that depend on no others, with one packet that decides by itself.
func (q queues) enqueuePlain(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	p, subs := new(packet), map[subQueueName]bool{}
	q.addSubQueues(p, subs, specs)
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
	q.known.keep(subs)
	answers := make([]task.Enqueued, len(specs))
	for i, s := range specs {
		answers[i] = task.Enqueued{Answer: task.New, ID: task.ID(first + int64(i)*each), State: task.Available}
		if at := s.RunAt; at.IsZero() && s.Delay >= time.Microsecond || !at.IsZero() && instant(micros(at)).Add(s.Delay).After(now) {
			answers[i].State = task.Scheduled
		}
	}
	return answers, nil
}

func (q queues) addPlain(p *packet, s task.Spec) {
	s.RetryUntil = instant(micros(s.RetryUntil))
	t := lifecycle.Task{Task: driver.Task{Spec: s}}
	at, delay, expires := micros(s.RunAt), s.Delay.Microseconds(), micros(s.ExpiresAt)
	p.add("plain-row", q.ns, subQueueNumber(subQueueName{s.Queue, s.Kind}), []byte(s.Queue), []byte(s.Kind), at, at, delay, t.Rank(), s.Priority,
		at, at, delay, at, at, delay, at, at, delay, expires, expires, options(&s), []byte(s.Args))
}

// admission takes in a batch of tasks, one after the other.
type admission struct {
	*txn
	answers []admitted
}

// admitted is the answer for one of them, as far as it is known before the step is carried out. The state is
// the one that the task had then; none where that is seen when its line is settled, at the end of the step.
type admitted struct {
	task.Admission
	*taskRow
	state task.State
}

func (a *admission) answer() []task.Enqueued {
	all := make([]task.Enqueued, len(a.answers))
	for i, x := range a.answers {
		all[i].Answer = x.Admission
		if x.taskRow != nil {
			all[i].ID, all[i].State = x.taskRow.ID, cmp.Or(x.state, x.taskRow.State)
		}
	}
	return all
}

// prepare reads what the batch needs.
func (a *admission) prepare(specs []task.Spec) error {
	var keys list
	var limits []wake
	for _, s := range specs {
		if s.Unique != nil {
			h := s.Unique.Hash(s.Kind)
			keys = append(keys, h[:])
		}
		if s.Limit != nil {
			limits = append(limits, wake{hash: s.Limit.Hash(s.Kind)}) // it is declared if the task is taken in
		}
	}
	if err := a.holders(keys); err != nil {
		return err
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

// holders reads which tasks hold the keys, and which keys an unfinished transaction is taking: these are seen before
// their commit, and not after. The step is tried again while it is patient; then these keys are left alone, and
// answered Undecided.
func (a *admission) holders(keys list) error {
	if len(keys) == 0 {
		return nil
	}
	var seen []task.Hash
	err := a.ask(func(p *packet) []reader {
		p.add("unsettled-keys", a.q.ns, keys).add("task-columns").add("tasks-by-key", a.q.ns, keys)
		return []reader{func(r *sql.Rows) error {
			var key []byte
			err := r.Scan(&key)
			if err == nil {
				seen = append(seen, task.Hash(key))
			}
			return err
		}, a.reads(new([]*taskRow))}
	})
	a.pending = map[task.Hash]bool{}
	for _, h := range seen {
		if a.keys[h] == nil {
			a.pending[h] = true
		}
	}
	if err == nil && len(a.pending) > 0 && a.patient {
		return errPending
	}
	return err
}

func (a *admission) enqueue(i int, s task.Spec) error {
	to := &a.answers[i]
	err := a.take(to, s)
	if t := to.taskRow; t != nil && !a.unsettled(t) {
		to.state = t.State
	}
	return err
}

// unsettled says that t stands in a line that this step has changed.
func (a *admission) unsettled(t *taskRow) bool {
	return t.limit != nil && t.Queues() && (t.State == task.Available || t.State == task.Blocked) && a.limits[*t.limit] != nil && a.limits[*t.limit].touched
}

func (a *admission) take(to *admitted, s task.Spec) error {
	s = lifecycle.Timed(s, a.now)
	if s.Unique == nil {
		return a.admit(to, s)
	}
	hash := s.Unique.Hash(s.Kind)
	if a.pending[hash] {
		*to = admitted{Admission: task.Undecided}
		return nil
	}
	there, err := a.holder(hash)
	if err != nil {
		return err
	}
	if there == nil {
		return a.admit(to, s)
	}
	*to = admitted{Admission: there.Again(&s), taskRow: there}
	switch {
	case !lifecycle.Replaces(&s): // it is not changed, whoever has it
	case a.busy(there):
		*to = admitted{Admission: task.Undecided}
	case to.Admission == task.Updated:
		there.respelt = true
		return a.change(there, func() lifecycle.Note { return there.Renew(s, a.now) })
	case to.Admission == task.New:
		a.txn.free(there)
		a.save(there)
		return a.admit(to, s)
	}
	return nil
}

// holder is the task that holds a unique key now; nil if none does.
func (b *txn) holder(h task.Hash) (*taskRow, error) {
	t := b.keys[h]
	if t == nil || b.locked[t.ID] || !t.LostKey(b.now) {
		return t, nil
	}
	return nil, b.change(t, func() lifecycle.Note { return t.LoseKey(b.now) })
}

// make is a new task of a spec.
func (b *txn) make(s task.Spec) *taskRow {
	t := &taskRow{Task: lifecycle.New(s, b.now), isNew: true, sub: subQueueNumber(subQueueName{s.Queue, s.Kind})}
	t.ID = task.ID(1<<60 + len(b.added)) // after all that are there
	if s.Limit != nil {
		h := s.Limit.Hash(s.Kind)
		t.limit = &h
	}
	return t
}

func (a *admission) admit(to *admitted, s task.Spec) error {
	t := a.make(s)
	a.added = append(a.added, t)
	*to = admitted{Admission: task.New, taskRow: t}
	a.index(t, nil)
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

// insert appends the new tasks, in their order, as few statements as packets need. If another transaction has taken a
// unique key since it was looked for, a task alone changes nothing, and one of several fails: either
// way the step is decided again.
func (b *txn) insert(p *packet) (readers []reader) {
	for rest := b.added; len(rest) > 0; {
		n, size := 1, weight(&rest[0].Spec)
		for n < len(rest) && size+weight(&rest[n].Spec) <= mostBytes {
			size += weight(&rest[n].Spec)
			n++
		}
		p.fit(size)
		some := rest[:n]
		rest = rest[n:]
		p.add("insert-tasks")
		p.argument(b.rows(some))
		if n == 1 && some[0].Key != nil {
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
				t.ID = task.ID(first + int64(i)*each)
			}
			return err
		})
	}
	return readers
}

func (b *txn) rows(tasks []*taskRow) (all rows) {
	for _, t := range tasks {
		all = append(all, append(append([]any{b.q.ns}, t.columns()...), options(&t.Spec), []byte(t.Args)))
	}
	return all
}
