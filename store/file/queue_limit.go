//go:build linux

package file

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// A limit is a key under which so many tasks may run (rule Q5). In each sub-queue as many waiting tasks are available
// as there are free slots, mostReady at most, the first ones in order. All others are blocked, and no fetch looks at
// them.
type limit struct {
	lifecycle.Cap
	id      int64
	key     string
	token   lease.Token // the largest that was given under it
	running int
	round   round
	touched bool           // its slots have changed in this step
	dirty   map[int64]bool // sub-queues whose line has changed
	calm    map[int64]bool // sub-queues that are in order now
	given   bool           // token is to be written
}

const (
	// mostReady is how many tasks of a sub-queue a limit makes available at most. A task that is given makes room for
	// the next.
	mostReady = 100
	// doors is how many sub-queues of a limit one step brings in order beside those of its own tasks. Of all its
	// limits it brings mostAtOnce in order at most, and stops once it has changed mostAtOnce tasks there.
	doors = 20
)

// A round is how far the sub-queues of a limit are in order: it goes on with the sub-queue at, and over the first one
// again up to end.
type round struct{ at, end int64 }

// complete is the round of a limit whose sub-queues are all in order.
var complete = round{-1, 0}

func readLimit(row scanner) (*limit, error) {
	var l limit
	err := row.Scan(&l.id, &l.key, &l.Max, &l.Declared, &l.token, &l.round.at, &l.round.end, &l.running)
	return &l, err
}

func (b *txn) limit(id int64) (*limit, error) {
	if l := b.limits[id]; l != nil {
		return l, nil
	}
	return b.known(readLimit(b.row("limit_get", id)))
}

// known keeps one copy of each limit for the step.
func (b *txn) known(l *limit, err error) (*limit, error) {
	if err != nil {
		return nil, err
	}
	if had := b.limits[l.id]; had != nil {
		return had, nil
	}
	b.limits[l.id] = l
	return l, nil
}

// free is how many slots are free.
func (l *limit) free() int { return max(l.Max-l.running, 0) }

// declare is the limit that a spec names, made where it is new. The last declaration wins.
func (b *txn) declare(s *task.Spec) (*limit, error) {
	l, err := b.ensure(s)
	if err != nil {
		return nil, err
	}
	return l, b.hears(l, s.Limit.Slots())
}

// ensure is the limit that a spec names, made where there is none.
func (b *txn) ensure(s *task.Spec) (*limit, error) {
	h := s.Limit.Hash(s.Kind)
	return b.known(readLimit(b.row("limit_declare", h[:], s.Limit.Key, s.Limit.Slots(), micros(b.now))))
}

// limitOf is the limit of a task. One that was forgotten meanwhile (see unused) is made anew.
func (b *txn) limitOf(t *taskRow) (*limit, error) {
	l, err := b.limit(t.limit)
	if errors.Is(err, sql.ErrNoRows) {
		if l, err = b.ensure(&t.Spec); err == nil {
			t.limit = l.id
		}
	}
	return l, err
}

// hears takes in what a task declares of a limit. It stops nothing that runs.
func (b *txn) hears(l *limit, slots int) error {
	was := l.Cap
	if l.Hears(slots); l.Cap == was {
		return nil
	}
	if err := b.exec("limit_declared", l.Max, l.Declared, l.id); err != nil || l.Max == was.Max {
		return err
	}
	kind, reason := driver.LimitEvent(l.key, was.Max, l.Max, "")
	if err := b.record(kind, reason); err != nil {
		return err
	}
	b.settle(l)
	return nil
}

// position is where a task stands in an order.
type position struct {
	id   task.ID
	rank int
}

func readPosition(row scanner) (s position, err error) { return s, row.Scan(&s.id, &s.rank) }

func inOrder(a, b position) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id)) }

// settle notes that l's free slots or its line have changed: the end of the step brings every sub-queue in order (rule
// Q5).
func (b *txn) settle(l *limit) {
	l.touched = true
	clear(l.calm)
}

// disturb notes that the line of a sub-queue has changed. It is brought in order once, however many of its tasks the
// step changes: at the end of the step, or before a fetch looks at what is available.
func (l *limit) disturb(sub int64) {
	if l.dirty == nil {
		l.dirty, l.calm = map[int64]bool{}, map[int64]bool{}
	}
	l.dirty[sub] = true
	delete(l.calm, sub)
}

// settleDisturbed brings those sub-queues in order.
func (b *txn) settleDisturbed() error {
	for _, id := range slices.Sorted(maps.Keys(b.limits)) {
		l := b.limits[id]
		for _, sub := range slices.Sorted(maps.Keys(l.dirty)) {
			all, err := b.settleSubQueue(l, sub)
			if err != nil {
				return err
			}
			l.touched = l.touched || !all
			l.calm[sub] = all
		}
		clear(l.dirty)
	}
	return nil
}

// settleAll does so for all limits of the step, and for their other sub-queues if slots have changed.
func (b *txn) settleAll() error {
	if err := b.settleDisturbed(); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(b.limits)) {
		l := b.limits[id]
		if l.given {
			l.given = false
			if err := b.exec("limit_given", int64(l.token), l.id); err != nil {
				return err
			}
		}
		if !l.touched {
			continue
		}
		l.touched = false
		was := l.round
		if l.round.at = max(was.at, 0); was == complete {
			l.round.end = 0
		} else {
			l.round.end = l.round.at // a whole round from here
		}
		if err := b.goRound(l, was); err != nil {
			return err
		}
	}
	return nil
}

// goRound brings some more sub-queues in order, and stores how far it came.
func (b *txn) goRound(l *limit, was round) error {
	for left := min(doors, b.doors); l.round != complete && left > 0; {
		end := int64(math.MaxInt64)
		if wrapped := l.round.at < l.round.end; wrapped {
			end = l.round.end
		}
		subs, err := rows(b, func(row scanner) (id int64, err error) { return id, row.Scan(&id) }, "line_subqueues", l.id, l.round.at, left, end)
		if err != nil {
			return err
		}
		over := len(subs) < left
		for _, sub := range subs {
			all := l.calm[sub]
			if !all && b.turned < mostAtOnce {
				before := b.flips
				if all, err = b.settleSubQueue(l, sub); err != nil {
					return err
				}
				b.doors--
				b.turned += b.flips - before
			}
			if !all { // it goes on with this one in the next step
				l.round.at, left, over = sub, 0, false
				break
			}
			l.round.at = sub + 1
			left--
		}
		switch {
		case end != math.MaxInt64 && (over || l.round.at == end), over && l.round.end == 0:
			l.round = complete
		case over:
			l.round.at = 0
		}
	}
	if l.round == was {
		return nil
	}
	return b.exec("limit_round", l.round.at, l.round.end, l.id)
}

// goOn continues what earlier steps left to do, for a few limits, and says whether there was any.
func (b *txn) goOn() (more bool, err error) {
	const few = 5
	turn := &b.db.turns.limit
	ids, err := b.rounds(turn.Load(), few)
	if len(ids) == 0 && err == nil && turn.Load() > 0 {
		turn.Store(0)
		ids, err = b.rounds(0, few)
	}
	for _, id := range ids {
		l, err := b.limit(id)
		if err != nil {
			return true, err
		}
		if err := b.goRound(l, l.round); err != nil {
			return true, err
		}
		turn.Store(id + 1)
	}
	return len(ids) > 0, err
}

func (b *txn) rounds(from int64, most int) ([]int64, error) {
	return rows(b, func(row scanner) (id int64, err error) { return id, row.Scan(&id) }, "rounds", from, most)
}

// settleSubQueue makes the first waiting tasks of a sub-queue available, as many as there are free slots, mostReady at
// most. If there are more slots than that, suspects are counted apart: they are given one by one, and must
// not delay others. It looks at few more rows than it changes, and says whether that was all.
func (b *txn) settleSubQueue(l *limit, sub int64) (all bool, err error) {
	free := l.free()
	if free <= mostReady {
		return b.settleLine(line{"line", []any{l.id, sub}}, free)
	}
	all, err = b.settleLine(line{"part", []any{l.id, sub, 0}}, mostReady)
	if err == nil && all {
		all, err = b.settleLine(line{"part", []any{l.id, sub, 1}}, mostReady)
	}
	return all, err
}

// A line is one line of waiting tasks in a sub-queue: the statements that find it, and their arguments.
type line struct {
	name string
	args []any
}

// settleLine brings one line in order, 3·mostReady changes at most.
func (b *txn) settleLine(in line, free int) (all bool, err error) {
	const most = 3 * mostReady
	var open int
	if err = b.scan(in.name+"_count", append(in.args[:len(in.args):len(in.args)], most), &open); err != nil {
		return false, err
	}
	var n int
	switch {
	case open > free:
		_, err = b.turn(task.Blocked, in, open-free)
	case open < free:
		n, err = b.turn(task.Available, in, free-open)
	}
	if err != nil || free == 0 || open == 0 || n < free-open { // none is left that could stand before another one
		return open < most, err
	}
	return open < most, b.swap(in, free)
}

// swap has tasks that came later, and stand before some that were chosen, take their place. Most often there are none.
func (b *txn) swap(in line, free int) error {
	for _, n := range []int{1, free} {
		last, err := b.positions(in, "_last", n)
		if err != nil {
			return err
		}
		next, err := b.positions(in, "_next", n)
		if err != nil {
			return err
		}
		wrong := 0
		for wrong < min(len(last), len(next)) && inOrder(next[wrong], last[wrong]) < 0 {
			wrong++
		}
		if wrong == 0 {
			return nil
		}
		if n < free {
			continue
		}
		if err := b.setState(task.Blocked, last[:wrong]); err != nil {
			return err
		}
		return b.setState(task.Available, next[:wrong])
	}
	return nil
}

func (b *txn) positions(in line, which string, n int) ([]position, error) {
	return rows(b, readPosition, in.name+which, append(in.args[:len(in.args):len(in.args)], n)...)
}

// turn makes n of those in line available, the first blocked ones; or blocked, the last available ones.
// It says how many there were.
func (b *txn) turn(to task.State, in line, n int) (int, error) {
	which := "_next"
	if to == task.Blocked {
		which = "_last"
	}
	found, err := b.positions(in, which, n)
	if err != nil {
		return 0, err
	}
	return len(found), b.setState(to, found)
}

// setState changes the state of tasks, and nothing else of them.
func (b *txn) setState(to task.State, found []position) error {
	if len(found) == 0 {
		return nil
	}
	ids := make([]task.ID, len(found))
	for i, s := range found {
		ids[i] = s.id
	}
	b.flips += len(ids)
	return b.exec("set_states", lifecycle.Number(to), listOf(ids))
}

// listOf is a list of ids as one argument of a statement.
func listOf(ids []task.ID) string {
	text := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(id), 10)
	}
	return string(append(text, ']'))
}

// displace asks for a slot: running tasks that displace are to stop, and older waiting ones are superseded. It
// touches most tasks at most, and says how many. Once that was all, t waits like others.
func (b *txn) displace(t *taskRow, most int) (n int, err error) {
	displaceable, err := rows(b, readID, "displaceable", t.limit, most)
	for _, id := range displaceable {
		if err != nil {
			return n, err
		}
		var other *taskRow
		if other, err = b.get(id); err == nil && other.Displaces() {
			other.Stop = task.ReasonReplaced
			n++
			err = b.save(other)
		}
	}
	for last := task.ID(0); err == nil && n < most; {
		older, err := rows(b, readID, "displacing", t.limit, int64(last), int64(t.ID), most)
		if err != nil {
			return n, err
		}
		for _, id := range older {
			last = id
			other, err := b.get(id)
			if err != nil {
				return n, err
			}
			if other.Displaces() && other.State.Waiting() {
				n++
				if err := b.discard(other, task.ReasonSuperseded); err != nil || n == most {
					return n, err
				}
			}
		}
		if len(older) < most {
			t.Displaced = true
			return n, b.move(t, t.State)
		}
	}
	return n, err
}

// SetLimit fulfils driver.Admin.
func (d admin) setLimit(b *txn, key task.Hash, slots int, by string) (bool, error) {
	l, err := b.known(readLimit(b.row("limit_find", key[:])))
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	was := l.Max
	if !l.Says(slots, by, b.now) {
		return true, nil
	}
	kind, reason := lifecycle.SaidEvent(l.key, was, &l.Cap, by)
	if err := b.record(kind, reason); err != nil {
		return false, err
	}
	if err := b.exec("limit_said", l.Max, l.Declared, l.By, micros(l.Since), l.id); err != nil {
		return false, err
	}
	b.settle(l)
	return true, nil
}

// Limits fulfils driver.Admin.
func (d admin) Limits(ctx context.Context) (words []driver.Word, err error) {
	err = d.look(ctx, func(b *txn) (err error) {
		words, err = rows(b, func(row scanner) (w driver.Word, err error) {
			var hash []byte
			var since int64
			err = row.Scan(&hash, &w.Key, &w.Max, &w.Declared, &w.By, &since)
			copy(w.Hash[:], hash)
			w.Since = instantOf(since)
			return w, err
		}, "limits_said")
		return err
	})
	return words, err
}
