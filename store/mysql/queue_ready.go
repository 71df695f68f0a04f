package mysql

import (
	"context"
	"database/sql"
	"time"

	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// candidate is a task that may be given.
type candidate struct {
	id      task.ID
	name    subQueueName
	ordinal int
	class   int
	limit   *task.Hash
	expires int64
}

// subQueue is what a fetch finds in one.
type subQueue struct {
	at    subQueueName
	next  time.Time // when the first of what waits for its instant is due
	found []candidate
}

// ready makes what is due available, and gathers the first of what is.
func (f *fetch) ready() error {
	var due []*subQueue
	for _, l := range f.subs {
		if !l.next.IsZero() && !l.next.After(f.now) {
			due = append(due, l)
		}
	}
	if len(due) > 0 {
		if err := f.makeAllDue(due); err != nil {
			return err
		}
	}
	for _, l := range f.subs {
		f.found = append(f.found, l.found...)
		if !l.next.IsZero() && (f.nextDue.IsZero() || l.next.Before(f.nextDue)) {
			f.nextDue = l.next
		}
	}
	return nil
}

// makeAllDue makes tasks available, each kind of them with a step of its own, and reads what there is then.
func (f *fetch) makeAllDue(due []*subQueue) error {
	var ids list
	var limited []task.ID
	err := f.ask(func(p *packet) (readers []reader) {
		most := max(mostDue/len(due), 1)
		for _, l := range due {
			p.add("due", f.q.ns, subQueueNumber(l.at), most).add("next-due", f.q.ns, subQueueNumber(l.at), most)
			readers = append(readers, readDue(&ids, &limited), l.readNext)
		}
		return readers
	})
	if err == nil {
		err = f.q.makeDue(f.ctx, ids)
	}
	if err == nil && len(limited) > 0 {
		err = f.q.step(f.ctx, func(b *txn) error { _, err := b.makeDue(limited[:min(len(limited), chunk)]); return err })
	}
	if err != nil {
		return err
	}
	if len(limited) > chunk {
		f.nextDue = f.now // for the others
	}
	return f.ask(func(p *packet) (readers []reader) {
		for _, l := range due {
			l.found = nil
			f.q.known.quiet.heed(subQueueNumber(l.at))
			readers = append(readers, f.addReady(p, l)...)
		}
		return readers
	})
}

func readDue(ids *list, limited *[]task.ID) reader {
	return func(r *sql.Rows) error {
		var id int64
		var inLine bool
		err := r.Scan(&id, &inLine)
		if inLine {
			*limited = append(*limited, task.ID(id))
		} else {
			*ids = append(*ids, id)
		}
		return err
	}
}

// addSubQueues asks for what there is to know about sub-queues.
func (f *fetch) addSubQueues(p *packet, subs []*subQueue) (readers []reader) {
	for _, l := range subs {
		p.add("first-due", f.q.ns, subQueueNumber(l.at))
		readers = append(readers, l.readNext)
		readers = append(readers, f.addReady(p, l)...)
	}
	return readers
}

func (l *subQueue) readNext(r *sql.Rows) error {
	var next int64
	err := r.Scan(&next)
	l.next = instant(next)
	return err
}

// addReady asks for more than there is room for: others are fetching the same. Where a pass has found nothing,
// the next one looks further.
func (f *fetch) addReady(p *packet, l *subQueue) (readers []reader) {
	for class := range lifecycle.Classes {
		want := min(2*(f.r.Max-len(f.given))+20, 4*mostGiven)
		if class > lifecycle.Clear {
			want = 5
		}
		at := look{subQueueNumber(l.at), class}
		if !f.wants(class) || f.q.known.quiet.skips(at, time.Now()) {
			continue
		}
		want = min(want<<min(f.empty, mostPasses), 4*mostGiven) + len(f.passed)
		p.add("ready", f.q.ns, at.sub, class, want)
		f.looked[at] = false
		readers = append(readers, f.readReady(l, at))
	}
	return readers
}

func (f *fetch) readReady(l *subQueue, at look) reader {
	return func(r *sql.Rows) error {
		f.looked[at] = true
		var c candidate
		var limit []byte
		err := r.Scan(&c.id, &c.name.queue, &c.name.kind, &c.ordinal, &c.class, &limit, &c.expires)
		if limit != nil {
			c.limit = (*task.Hash)(limit)
		}
		if !f.passed[c.id] && !(f.held && c.limit != nil) {
			l.found = append(l.found, c)
		}
		return err
	}
}

// makeDue makes tasks without a limit available, as far as they are due and nobody has them.
func (q queues) makeDue(ctx context.Context, ids list) error {
	if len(ids) == 0 {
		return nil
	}
	p := new(packet).add("fresh").add("begin").add("clock").add("make-due", ids).add("decide")
	return q.run(ctx, p)
}

// makeDue makes those available whose instant has come.
func (b *txn) makeDue(ids []task.ID) (n int, err error) {
	if err := b.load(ids); err != nil {
		return 0, err
	}
	if err := b.lockTheirs(); err != nil {
		return 0, err
	}
	for _, id := range ids {
		t := b.tasks[id]
		if t == nil || b.locked[id] || !t.Due(b.now) {
			continue
		}
		if err := b.wait(t); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
