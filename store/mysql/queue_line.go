package mysql

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/task"
)

// A waiter is a task in line for a limit: a row of which only the place was read, or a task that the step knows.
type waiter struct {
	id      task.ID
	ver     int64
	sub     int64
	ordinal int
	state   task.State
	task    *taskRow
}

// line is the head of the blocked tasks of a sub-queue.
type line struct {
	asked int // how many
	found []waiter
	over  int // that have expired: they are left to Maintain, and nobody is to wait behind them
}

// whole says that there are no others.
func (s *line) whole() bool { return len(s.found)+s.over < s.asked }

// begin notes what was read about the blocked tasks when the limit was locked: the first one, and the last sub-queue.
func (l *limit) begin(head string, last int64, now time.Time) error {
	w := waiter{state: task.Blocked}
	var expires int64
	if _, err := fmt.Sscan(head, &w.id, &w.ver, &w.sub, &w.ordinal, &expires); err != nil {
		return fmt.Errorf("the head of a line: %w", err)
	}
	over := expires > 0 && expires <= micros(now)
	if l.blocked[w.sub] == nil && !over { // else more of them are being read
		l.blocked[w.sub] = &line{asked: 1, found: []waiter{w}}
	}
	l.subs = []int64{w.sub}
	if last != w.sub {
		l.subs = append(l.subs, last)
		l.wide = true
	}
	return nil
}

func (b *txn) readOpen(r *sql.Rows) error {
	var hash []byte
	w := waiter{state: task.Available}
	err := r.Scan(&hash, &w.id, &w.ver, &w.sub, &w.ordinal)
	h := task.Hash(hash)
	b.members(h)
	b.limits[h].open = append(b.limits[h].open, w)
	return err
}

// settle marks a limit whose free slots or line have changed: the end of the step brings every sub-queue in order
// (rule Q5).
func (b *txn) settle(l *limit) { l.touched = true }

// settleAll does so, for mostFlips tasks at most; a wake is left for the rest.
func (b *txn) settleAll() error {
	limits := b.touched()
	if len(limits) == 0 {
		return nil
	}
	if err := b.readAhead(limits); err != nil {
		return err
	}
	for _, l := range limits {
		subs := l.everySubQueue()
		for i, sub := range subs {
			if len(b.flips) >= mostFlips {
				b.leave(wake{hash: l.hash, key: l.key})
				break
			}
			if b.lacks(l, sub) > 0 {
				if err := b.readBlocked(b.lacking(l, subs[i:], mostFlips)); err != nil {
					return err
				}
			}
			if err := b.settleSubQueue(l, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

// everySubQueue are the sub-queues in which a task may be in line.
func (l *limit) everySubQueue() []int64 {
	all := slices.Clone(l.subs)
	for _, w := range l.open {
		all = append(all, w.sub)
	}
	for _, t := range l.members {
		all = append(all, t.sub)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// settleSubQueue makes the first tasks of a sub-queue available, as many as there are free slots, and blocks the
// others, the last ones first. Where these are many, some stay available, and a wake is left for them.
func (b *txn) settleSubQueue(l *limit, sub int64) error {
	for n := b.lacks(l, sub); n > 0; n = b.lacks(l, sub) {
		if err := b.readBlocked([]part{{l, sub, n}}); err != nil {
			return err
		}
	}
	for i, w := range slices.Backward(b.inLine(l, sub)) {
		to := task.Blocked
		if i < l.nominees() || i < l.free() && w.state == task.Available {
			to = task.Available
		}
		if to == task.Blocked && w.state == task.Available && w.task == nil && len(b.flips) >= mostFlips {
			b.leave(wake{hash: l.hash, key: l.key})
			continue
		}
		b.flip(w, to)
	}
	return nil
}

// inLine are the known tasks of a sub-queue, in order, without those that another transaction has.
func (b *txn) inLine(l *limit, sub int64) (all []waiter) {
	add := func(w waiter) {
		if w.sub != sub || w.task == nil && b.tasks[w.id] != nil {
			return
		}
		if b.locked[w.id] {
			b.leave(wake{hash: l.hash, key: l.key}) // it is looked at again when it may be free
			return
		}
		all = append(all, w)
	}
	for _, w := range l.open {
		add(w)
	}
	if seen := l.blocked[sub]; seen != nil {
		for _, w := range seen.found {
			add(w)
		}
	}
	for _, t := range l.members {
		if t.Queues() && (t.State == task.Available || t.State == task.Blocked) {
			add(waiter{id: t.ID, sub: t.sub, ordinal: t.Rank(), state: t.State, task: t})
		}
	}
	slices.SortFunc(all, func(x, y waiter) int { return cmp.Or(cmp.Compare(x.ordinal, y.ordinal), cmp.Compare(x.id, y.id)) })
	return all
}

// lacks is how many blocked tasks of a sub-queue must still be read; 0 if the known ones suffice. Blocked tasks come
// after the available ones, unless the line is disturbed.
func (b *txn) lacks(l *limit, sub int64) int {
	n, seen := l.nominees(), l.blocked[sub]
	if n == 0 || seen == nil && !l.wide && !slices.Contains(l.subs, sub) {
		return 0
	}
	if !l.disturbed {
		for _, w := range l.open {
			if w.sub == sub && b.tasks[w.id] == nil && !b.locked[w.id] {
				n--
			}
		}
	}
	if n <= 0 {
		return 0
	}
	for _, t := range l.members { // these may be among them
		if t.row != nil && t.row.State == task.Blocked && t.row.sub == sub {
			n++
		}
	}
	n += len(b.locked)
	if seen == nil {
		return n
	}
	if seen.over > 0 {
		n += min(2*seen.over+20, mostOver)
	}
	if seen.asked >= n || seen.whole() {
		return 0
	}
	return n
}

// flipped is a task of which only the state changes.
type flipped struct {
	waiter
	to task.State
}

// flip gives w another state.
func (b *txn) flip(w waiter, to task.State) {
	switch {
	case w.task != nil && w.state != to:
		w.task.State = to
		b.save(w.task)
	case w.task == nil && w.state != to:
		b.flips[w.id] = flipped{w, to}
	default:
		delete(b.flips, w.id)
	}
}

// part is the first n blocked tasks of a sub-queue.
type part struct {
	l   *limit
	sub int64
	n   int
}

// readBlocked reads parts with one packet.
func (b *txn) readBlocked(parts []part) error {
	if len(parts) == 0 {
		return nil
	}
	return b.ask(func(p *packet) (readers []reader) {
		for _, x := range parts {
			readers = append(readers, b.addBlocked(p, x))
		}
		return readers
	})
}

func (b *txn) addBlocked(p *packet, x part) reader {
	seen := &line{asked: x.n}
	x.l.blocked[x.sub] = seen
	p.add("blocked-in-line", b.q.ns, x.l.hash[:], x.sub, x.n)
	return func(r *sql.Rows) error {
		w, over := waiter{state: task.Blocked}, false
		err := r.Scan(&w.id, &w.ver, &w.sub, &w.ordinal, &over)
		if over {
			seen.over++
		} else {
			seen.found = append(seen.found, w)
		}
		return err
	}
}

// readAhead reads at once what settling limits needs in any case.
func (b *txn) readAhead(limits []*limit) error {
	if err := b.readSubQueues(limits); err != nil {
		return err
	}
	var parts []part
	left := mostFlips // what is beyond is read if the step comes to it
	for _, l := range limits {
		some := b.lacking(l, l.everySubQueue(), left)
		for _, x := range some {
			left -= x.n
		}
		parts = append(parts, some...)
	}
	return b.readBlocked(parts)
}

// lacking is what must be read to settle the first of a limit's sub-queues, for most tasks or a few more.
func (b *txn) lacking(l *limit, subs []int64, most int) (parts []part) {
	for _, sub := range subs {
		if most <= 0 {
			break
		}
		if n := b.lacks(l, sub); n > 0 {
			parts = append(parts, part{l, sub, n})
			most -= n
		}
	}
	return parts
}

// probes is how many sub-queues of a limit the first packet looks for. Each one after it looks for twice as many:
// the store may be far away.
const probes = 10

// readSubQueues reads the sub-queues in which tasks are blocked.
func (b *txn) readSubQueues(limits []*limit) error {
	wide := slices.DeleteFunc(slices.Clone(limits), func(l *limit) bool { return !l.wide })
	for _, l := range wide {
		l.wide, l.subs = false, nil
	}
	for n := probes; len(wide) > 0; n *= 2 {
		over := map[*limit]bool{}
		err := b.ask(func(p *packet) (readers []reader) {
			for _, l := range wide {
				last := int64(-1)
				if known := len(l.subs); known > 0 {
					last = l.subs[known-1]
				}
				p.add("from-subqueue", b.q.ns, l.hash[:], last)
				for range n {
					p.add("next-subqueue")
					readers = append(readers, func(r *sql.Rows) error {
						var sub sql.NullInt64
						err := r.Scan(&sub)
						if sub.Valid {
							l.subs = append(l.subs, sub.Int64)
						} else {
							over[l] = true
						}
						return err
					})
				}
			}
			return readers
		})
		if err != nil {
			return err
		}
		wide = slices.DeleteFunc(wide, func(l *limit) bool { return over[l] })
	}
	return nil
}
