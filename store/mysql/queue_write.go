package mysql

import (
	"bytes"
	"cmp"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/task"
)

func (b *txn) idle() bool {
	return len(b.added)+len(b.events)+len(b.wakes)+len(b.woken)+len(b.joins)+len(b.counts)+len(b.flips) == 0 && b.claims == nil &&
		len(b.changed()) == 0 && !slices.ContainsFunc(b.touched(), (*limit).changed)
}

// changed are the tasks to write. Those that give up a unique key come first.
func (b *txn) changed() (all []*taskRow) {
	for _, t := range b.tasks {
		if t.dirty && !t.isNew {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(x, y *taskRow) int {
		return cmp.Or(cmp.Compare(flag(x.takesKey()), flag(y.takesKey())), cmp.Compare(x.ID, y.ID))
	})
	return all
}

func (b *txn) touched() (all []*limit) {
	for _, l := range b.limits {
		if l.touched {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(x, y *limit) int { return bytes.Compare(x.hash[:], y.hash[:]) })
	return all
}

// carryOut sends what the step changes as one packet, which ends the step's transaction, or is one itself.
// Locks are taken in the order limits, rates, tasks, each in that of the primary key; leases are not locked,
// and everything else is only added to.
func (b *txn) carryOut() error {
	if b.done {
		return nil
	}
	if err := b.settleAll(); err != nil || b.idle() {
		return err
	}
	p, err := b.opening()
	if err != nil {
		return err
	}
	tasks := b.changed()
	for _, t := range tasks {
		delete(b.flips, t.ID) // it was met after its line was settled, and is written as a whole
	}
	held := b.hold(p, tasks)
	b.check(p)
	readers := b.claims.add(p, b)
	readers = append(readers, b.write(p, tasks)...)
	if b.conn != nil {
		p.add("held")
	}
	var ok bool
	var got []byte
	p.add("decide")
	readers = append(readers, func(r *sql.Rows) error {
		var now int64
		return r.Scan(&ok, &now, &got)
	})
	if err := b.send(p, readers); err != nil {
		return err
	}
	b.handBack()
	if b.done = ok; ok {
		b.heedChanges(tasks)
		return nil
	}
	maps.Copy(b.locked, others(held, string(got))) // with those of earlier tries: else two of them would take turns
	return errChanged
}

// opening begins the last packet of a step. What does not fit into one needs a connection of its own.
func (b *txn) opening() (*packet, error) {
	size := 0
	for _, t := range b.added {
		size += weight(&t.Spec)
	}
	for _, t := range b.tasks {
		if t.respelt {
			size += weight(&t.Spec)
		}
	}
	switch {
	case b.conn != nil:
		return new(packet), nil
	case size > mostBytes:
		return b.begin()
	}
	return new(packet).add("fresh").add("begin"), nil
}

// hold locks what the step was decided on, and checks that it is unchanged.
func (b *txn) hold(p *packet, tasks []*taskRow) (held list) {
	var vers, ids list
	for _, kind := range slices.Sorted(maps.Keys(b.rates)) {
		if r := b.rates[kind]; r.used {
			vers, ids = append(vers, []byte(fmt.Sprintf("%d/%s", r.ver, kind))), append(ids, []byte(kind))
		}
	}
	if len(ids) > 0 {
		p.add("hold-rates", vers, b.q.ns, ids, len(ids))
	}
	vers = nil
	note := func(ver int64, id task.ID) {
		vers, held = append(vers, []byte(fmt.Sprintf("%d/%d", ver, id))), append(held, int64(id))
	}
	for _, t := range tasks {
		note(t.ver, t.ID)
	}
	for _, w := range b.flips {
		note(w.ver, w.id)
	}
	if len(held) > 0 {
		p.add("hold-tasks", vers, held, len(held))
	}
	return held
}

// check adds what must hold at the instant at which the packet has its locks.
func (b *txn) check(p *packet) {
	p.add("clock").add("if-current", micros(b.now.Add(stale)))
	if b.worker != (lease.Ref{}) {
		p.add("if-live", b.q.ns, []byte(b.worker.Key), nonce(b.worker.Owner), int64(b.worker.Token))
	}
	if !b.notAfter.IsZero() {
		p.add("if-current", micros(b.notAfter))
	}
	if b.pausedSince != nil {
		p.add("no-pause", b.q.ns).add("if-unpaused", b.q.ns, b.pausedSince)
		read := map[string]bool{}
		for kind := range b.rates {
			read[kind] = true
		}
		p.add("if-unbounded", b.q.ns, kindList(b.kinds), kindList(read))
		if len(b.limits) > 0 { // by the server that carries it out, which may be another one than was asked before
			p.add("if-not-held", b.q.ns, with(b.q.identity))
		}
	}
}

// write appends the changes themselves.
func (b *txn) write(p *packet, tasks []*taskRow) (readers []reader) {
	b.writeLimits(p)
	for _, kind := range slices.Sorted(maps.Keys(b.rates)) {
		if r := b.rates[kind]; r.used {
			p.add("use-rate", micros(r.Full), r.Taken.String(), b.q.ns, []byte(kind))
		}
	}
	b.writeTasks(p, tasks)
	salt := int64(0)
	if b.tx == nil {
		readers = b.insert(p)
	} else {
		salt = rand.Int64()
	}
	for _, t := range b.tries {
		id := int64(t.task.ID)
		p.add("add-attempt", id, toJSON(t.attempt))
		if t.attempt.N+t.task.Snoozes+t.task.Crashes >= driver.MostAttempts || t.task.Granted > 0 {
			p.add("trim-attempts", id, id, driver.FirstAttempts, id, driver.MostAttempts)
		}
	}
	b.addCounts(p, salt)
	for _, w := range b.wakes {
		p.add("add-wake", b.q.ns, w.hash[:], []byte(w.key), w.slots)
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

func (b *txn) writeLimits(p *packet) {
	tokens := map[lease.Token]list{}
	for _, l := range b.touched() {
		if l.Max != l.was.Max || l.Declared != l.was.Declared {
			p.add("set-slots", l.Max, l.Declared, b.q.ns, l.hash[:])
		}
		if !l.Since.IsZero() { // said in this step
			p.add("set-word", wordOf(l.By), micros(l.Since), b.q.ns, l.hash[:])
		}
		if l.token != l.was.token {
			tokens[l.token] = append(tokens[l.token], l.hash[:])
		}
	}
	for _, token := range slices.Sorted(maps.Keys(tokens)) {
		p.add("raise-tokens", int64(token), b.q.ns, tokens[token])
	}
}

// addCounts adds to counters, always in the same order.
func (b *txn) addCounts(p *packet, salt int64) {
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

// others are the tasks that another transaction had, by what the packet could lock.
func others(held list, got string) map[task.ID]bool {
	all := map[task.ID]bool{}
	for _, id := range held {
		all[task.ID(id.(int64))] = true
	}
	for id := range strings.SplitSeq(got, ",") {
		if n, err := strconv.ParseInt(id, 10, 64); err == nil {
			delete(all, task.ID(n))
		}
	}
	return all
}
