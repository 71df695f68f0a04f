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
	lane    int64
	ordinal int
	state   task.State
	task    *taskRow
}

// line is the head of the blocked tasks of a lane.
type line struct {
	asked int // how many
	found []waiter
	over  int // that have expired: they are left to Tend, and nobody is to wait behind them
}

// whole says that there are no others.
func (s *line) whole() bool { return len(s.found)+s.over < s.asked }

// begin notes what was read about the blocked tasks when the limit was locked: the first one, and the last lane.
func (l *limit) begin(head string, last int64, now time.Time) error {
	w := waiter{state: task.Blocked}
	var expires int64
	if _, err := fmt.Sscan(head, &w.id, &w.ver, &w.lane, &w.ordinal, &expires); err != nil {
		return fmt.Errorf("the head of a line: %w", err)
	}
	over := expires > 0 && expires <= micros(now)
	if l.blocked[w.lane] == nil && !over { // else more of them are being read
		l.blocked[w.lane] = &line{asked: 1, found: []waiter{w}}
	}
	l.lanes = []int64{w.lane}
	if last != w.lane {
		l.lanes = append(l.lanes, last)
		l.wide = true
	}
	return nil
}

func (b *board) readOpen(r *sql.Rows) error {
	var hash []byte
	w := waiter{state: task.Available}
	err := r.Scan(&hash, &w.id, &w.ver, &w.lane, &w.ordinal)
	h := task.Hash(hash)
	b.members(h)
	b.limits[h].open = append(b.limits[h].open, w)
	return err
}

// settle marks a limit whose free slots or line have changed: the end of the step brings every lane in order (rule
// Q5).
func (b *board) settle(l *limit) { l.touched = true }

// settleAll does so, for mostFlips tasks at most; a wake is left for the rest.
func (b *board) settleAll() error {
	limits := b.touched()
	if len(limits) == 0 {
		return nil
	}
	if err := b.readAhead(limits); err != nil {
		return err
	}
	for _, l := range limits {
		for _, lane := range l.everyLane() {
			if len(b.flips) >= mostFlips {
				b.leave(wake{hash: l.hash, key: l.key})
				break
			}
			if err := b.settleLane(l, lane); err != nil {
				return err
			}
		}
	}
	return nil
}

// everyLane are the lanes in which a task may be in line.
func (l *limit) everyLane() []int64 {
	all := slices.Clone(l.lanes)
	for _, w := range l.open {
		all = append(all, w.lane)
	}
	for _, t := range l.members {
		all = append(all, t.lane)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// settleLane makes the first tasks of a lane available, as many as there are free slots, and blocks the others.
func (b *board) settleLane(l *limit, lane int64) error {
	for n := b.lacks(l, lane); n > 0; n = b.lacks(l, lane) {
		if err := b.readBlocked([]part{{l, lane, n}}); err != nil {
			return err
		}
	}
	for i, w := range b.inLine(l, lane) {
		to := task.Blocked
		if i < l.nominees() || i < l.free() && w.state == task.Available {
			to = task.Available
		}
		b.flip(w, to)
	}
	return nil
}

// inLine are the known tasks of a lane, in order, without those that another transaction has.
func (b *board) inLine(l *limit, lane int64) (all []waiter) {
	add := func(w waiter) {
		if w.lane != lane || w.task == nil && b.tasks[w.id] != nil {
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
	if seen := l.blocked[lane]; seen != nil {
		for _, w := range seen.found {
			add(w)
		}
	}
	for _, t := range l.members {
		if t.Queues() && (t.State == task.Available || t.State == task.Blocked) {
			add(waiter{id: t.ID, lane: t.lane, ordinal: t.Rank(), state: t.State, task: t})
		}
	}
	slices.SortFunc(all, func(x, y waiter) int { return cmp.Or(cmp.Compare(x.ordinal, y.ordinal), cmp.Compare(x.id, y.id)) })
	return all
}

// lacks is how many blocked tasks of a lane must still be read; 0 if the known ones suffice. Blocked tasks come after
// the available ones, unless the line is disturbed.
func (b *board) lacks(l *limit, lane int64) int {
	n, seen := l.nominees(), l.blocked[lane]
	if n == 0 || seen == nil && !l.wide && !slices.Contains(l.lanes, lane) {
		return 0
	}
	if !l.disturbed {
		for _, w := range l.open {
			if w.lane == lane && b.tasks[w.id] == nil && !b.locked[w.id] {
				n--
			}
		}
	}
	if n <= 0 {
		return 0
	}
	for _, t := range l.members { // these may be among them
		if t.row != nil && t.row.State == task.Blocked && t.row.lane == lane {
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
func (b *board) flip(w waiter, to task.State) {
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

// part is the first n blocked tasks of a lane.
type part struct {
	l    *limit
	lane int64
	n    int
}

// readBlocked reads parts with one packet.
func (b *board) readBlocked(parts []part) error {
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

func (b *board) addBlocked(p *packet, x part) reader {
	seen := &line{asked: x.n}
	x.l.blocked[x.lane] = seen
	p.add("blocked-in-line", b.q.ns, x.l.hash[:], x.lane, x.n)
	return func(r *sql.Rows) error {
		w, over := waiter{state: task.Blocked}, false
		err := r.Scan(&w.id, &w.ver, &w.lane, &w.ordinal, &over)
		if over {
			seen.over++
		} else {
			seen.found = append(seen.found, w)
		}
		return err
	}
}

// readAhead reads at once what settling limits needs in any case.
func (b *board) readAhead(limits []*limit) error {
	if err := b.readLanes(limits); err != nil {
		return err
	}
	var parts []part
	for _, l := range limits {
		for _, lane := range l.everyLane() {
			if n := b.lacks(l, lane); n > 0 {
				parts = append(parts, part{l, lane, n})
			}
		}
	}
	return b.readBlocked(parts)
}

// readLanes reads the lanes in which tasks are blocked.
func (b *board) readLanes(limits []*limit) error {
	wide := slices.DeleteFunc(slices.Clone(limits), func(l *limit) bool { return !l.wide })
	if len(wide) == 0 {
		return nil
	}
	return b.ask(func(p *packet) (readers []reader) {
		for _, l := range wide {
			l.wide, l.lanes = false, nil
			p.add("blocked-lanes", b.q.ns, l.hash[:], b.q.ns, l.hash[:])
			readers = append(readers, func(r *sql.Rows) error {
				var lane int64
				err := r.Scan(&lane)
				l.lanes = append(l.lanes, lane)
				return err
			})
		}
		return readers
	})
}
