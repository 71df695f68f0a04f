package mysql

import (
	"context"
	"database/sql"
	"math"
	"slices"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

// A limit is a key of which so many tasks may run. In each lane as many of those in line for it as there are free slots
// are available, the first ones in order; all others are blocked, and no fetch looks at them. A transaction of a caller's
// cannot see to that, since it must not lock the limit: what it takes in is available until a fetch or Tend looks at
// the limit, which it asks for with a wake.
//
// Every change of a line, but for a transaction's, and every taken slot makes a new version of the limit.
type limit struct {
	hash    queue.Hash
	ver     int64
	key     string
	max     int
	token   lease.Token // the largest that was given under it
	running int

	members map[queue.ID]*task // that are known
	lanes   []int64            // where somebody stands in line; nil: not read
	wide    bool               // there may be more
	lines   map[stand]*line
	touched bool
}

// A stand is a state in a lane.
type stand struct {
	state queue.State
	lane  int64
}

// line says how much of a lane's line has been read.
type line struct {
	asked int
	last  *lastInLine // nil: all of it
}

type lastInLine struct {
	ordinal int
	id      queue.ID
}

// free is how many slots are.
func (l *limit) free() int { return max(l.max-l.running, 0) }

// members are the tasks of a limit that are known.
func (b *board) members(h queue.Hash) map[queue.ID]*task {
	if b.limits[h] == nil {
		b.limits[h] = &limit{hash: h, members: map[queue.ID]*task{}, lines: map[stand]*line{}}
	}
	return b.limits[h].members
}

func (b *board) limitOf(t *task) (*limit, error) {
	return b.limit(wake{hash: *t.limit, key: t.Limit.Key, slots: t.Limit.Slots()})
}

// limit is one by its hash, made where it is new.
func (b *board) limit(w wake) (*limit, error) {
	b.members(w.hash)
	l := b.limits[w.hash]
	if l.ver == 0 {
		if err := b.loadLimits(list{w.hash[:]}); err != nil {
			return nil, err
		}
	}
	if l.ver == 0 {
		if err := b.q.ensure(b.ctx, []wake{w}); err != nil {
			return nil, err
		}
		return l, b.loadLimits(list{w.hash[:]})
	}
	return l, nil
}

// loadLimits reads limits, and the heads of their lines in the lanes of the tasks that are known. The limits come first,
// so that a later version is noticed.
func (b *board) loadLimits(hashes list) error {
	var parts []part
	var found [][]*task
	err := b.ask(func(p *packet) []reader {
		p.add("limits", b.q.ns, hashes)
		readers := []reader{b.readLimit}
		if b.looks {
			return readers
		}
		for _, hash := range hashes {
			h := queue.Hash(hash.([]byte))
			b.members(h)
			l := b.limits[h]
			l.lanes = []int64{}
			readers = append(readers, b.addLineEnds(p, l)...)
			for _, lane := range l.everyLane() {
				parts = append(parts, part{l, stand{queue.Available, lane}, 5}, part{l, stand{queue.Blocked, lane}, 5})
			}
		}
		found = make([][]*task, len(parts))
		return append(readers, b.addParts(p, parts, found)...)
	})
	note(parts, found)
	return err
}

func (b *board) readLimit(r *sql.Rows) error {
	var l limit
	var hash []byte
	if err := r.Scan(&hash, &l.ver, &l.key, &l.max, &l.token, &l.running); err != nil {
		return err
	}
	b.members(queue.Hash(hash))
	known := b.limits[queue.Hash(hash)]
	known.ver, known.key, known.max, known.token, known.running = l.ver, l.key, l.max, l.token, l.running
	return nil
}

// addLineEnds reads the first and the last lane in which somebody stands in line.
func (b *board) addLineEnds(p *packet, l *limit) (readers []reader) {
	for _, state := range []queue.State{queue.Available, queue.Blocked} {
		p.add("line-ends", b.q.ns, l.hash[:], stateNumber(state))
		readers = append(readers, func(r *sql.Rows) error {
			var first, last int64
			err := r.Scan(&first, &last)
			l.lanes = append(l.lanes, first, last)
			l.wide = l.wide || first != last
			return err
		})
	}
	return readers
}

// ensure makes limits that are new, before the step that has to lock them.
func (q queues) ensure(ctx context.Context, all []wake) error {
	p := new(packet)
	for _, w := range all {
		p.add("ensure-limit", q.ns, w.hash[:], []byte(w.key), w.slots)
	}
	return q.run(ctx, p)
}

// declare is the limit that a spec names. The last declaration wins.
func (b *board) declare(t *task) error {
	l, err := b.limitOf(t)
	if err != nil {
		return err
	}
	l.members[t.ID] = t
	return b.resize(l, t.Limit.Slots(), "")
}

// resize sets how many may run, and records it. It stops nothing that runs.
func (b *board) resize(l *limit, slots int, by string) error {
	if l.max == slots {
		return nil
	}
	b.record(queue.LimitEvent(l.key, l.max, slots, by))
	l.max = slots
	return b.settle(l)
}

// line is the first n of those in line, in order, without those that somebody else has.
func (b *board) line(l *limit, at stand, n int) (all []*task, err error) {
	for {
		seen := l.lines[at]
		if seen == nil {
			if err := b.readLines([]part{{l, at, min(n+2, 1000)}}); err != nil {
				return nil, err
			}
			seen = l.lines[at]
		}
		all = all[:0]
		for _, t := range l.members {
			if t.State == at.state && t.lane == at.lane && t.queues() && seen.reaches(t) {
				all = append(all, t)
			}
		}
		all = slices.DeleteFunc(all, func(t *task) bool {
			if b.locked[t.ID] {
				b.wakeUp(t) // it is looked at again when it may be free
			}
			return b.locked[t.ID]
		})
		slices.SortFunc(all, before)
		if len(all) >= n || seen.last == nil || seen.asked >= 1000 {
			return all[:min(n, len(all))], nil
		}
		if err := b.readLines([]part{{l, at, min(4*seen.asked, 1000)}}); err != nil {
			return nil, err
		}
	}
}

// reaches says that t comes before what has not been read.
func (s *line) reaches(t *task) bool {
	return s.last == nil || t.ordinal() < s.last.ordinal || t.ordinal() == s.last.ordinal && t.ID <= s.last.id
}

// part is so much of a line.
type part struct {
	l  *limit
	at stand
	n  int
}

// readLines reads parts of lines with one packet.
func (b *board) readLines(parts []part) error {
	if len(parts) == 0 {
		return nil
	}
	found := make([][]*task, len(parts))
	err := b.ask(func(p *packet) []reader { return b.addParts(p, parts, found) })
	note(parts, found)
	return err
}

func (b *board) addParts(p *packet, parts []part, found [][]*task) (readers []reader) {
	for i, x := range parts {
		p.add("task-columns").add("tasks-in-line", b.q.ns, x.l.hash[:], stateNumber(x.at.state), x.at.lane, x.n)
		readers = append(readers, b.reads(&found[i]))
	}
	return readers
}

// note keeps how far lines have been read.
func note(parts []part, found [][]*task) {
	for i, x := range parts {
		seen := &line{asked: x.n}
		if len(found[i]) == x.n {
			t := found[i][x.n-1]
			seen.last = &lastInLine{t.tabled, t.ID}
		}
		x.l.lines[x.at] = seen
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
			if at := (stand{queue.Available, lane}); l.lines[at] == nil {
				parts = append(parts, part{l, at, 20})
			}
			if at := (stand{queue.Blocked, lane}); l.lines[at] == nil && l.free() > 0 {
				parts = append(parts, part{l, at, min(l.free()+2, 1000)})
			}
		}
	}
	return b.readLines(parts)
}

// readLanes reads in which lanes somebody stands in line for limits.
func (b *board) readLanes(limits []*limit) error {
	fresh := slices.DeleteFunc(slices.Clone(limits), func(l *limit) bool { return l.lanes != nil })
	if len(fresh) > 0 {
		err := b.ask(func(p *packet) (readers []reader) {
			for _, l := range fresh {
				l.lanes = []int64{}
				readers = append(readers, b.addLineEnds(p, l)...)
			}
			return readers
		})
		if err != nil {
			return err
		}
	}
	wide := slices.DeleteFunc(slices.Clone(limits), func(l *limit) bool { return !l.wide })
	if len(wide) == 0 {
		return nil
	}
	return b.ask(func(p *packet) (readers []reader) {
		for _, l := range wide {
			l.wide = false
			p.add("line-lanes", b.q.ns, l.hash[:], b.q.ns, l.hash[:])
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

// settle does what a changed number of free slots, or of those in line, asks for, in every lane (rule Q5). It is put off
// to the end of the step.
func (b *board) settle(l *limit) error {
	l.touched = true
	return nil
}

// settleAll carries it out.
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
			if err := b.settleLane(l, lane); err != nil {
				return err
			}
		}
	}
	return nil
}

// everyLane are those in which somebody may stand in line.
func (l *limit) everyLane() []int64 {
	all := slices.Clone(l.lanes)
	for _, t := range l.members {
		all = append(all, t.lane)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (b *board) settleLane(l *limit, lane int64) error {
	open, err := b.line(l, stand{queue.Available, lane}, math.MaxInt32)
	if err != nil {
		return err
	}
	var next []*task
	if l.free() > 0 {
		if next, err = b.line(l, stand{queue.Blocked, lane}, l.free()); err != nil {
			return err
		}
	}
	all := slices.SortedFunc(slices.Values(slices.Concat(open, next)), before)
	for i, t := range all {
		t.counts = true
		to := queue.Blocked
		if i < l.free() {
			to = queue.Available
		}
		if t.State != to {
			t.State, l.touched = to, true
			b.save(t)
		}
	}
	return nil
}

// rival says that a newer task of its limit may supersede t.
func (t *task) rival() bool { return t.limit != nil && t.Limit.OnContention == queue.Displace }

// displace asks for a slot: running rivals are to stop, and older ones that wait have been superseded.
func (b *board) displace(t *task) error {
	running, err := b.find("tasks-slots", b.q.ns, t.limit[:])
	if err != nil {
		return err
	}
	for _, other := range running {
		if other.State == queue.Running && other.rival() && other.Stop == "" && !b.locked[other.ID] {
			other.Stop = queue.ReasonReplaced
			b.save(other)
		}
	}
	older, err := b.find("tasks-rivals", b.q.ns, t.limit[:], int64(t.ID))
	if err != nil {
		return err
	}
	for _, other := range older {
		if other.rival() && other.State.Waiting() && !b.locked[other.ID] {
			if err := b.discard(other, queue.ReasonSuperseded); err != nil {
				return err
			}
		}
	}
	t.displaced = true
	return b.move(t, t.State)
}

// wakeUp asks for a look at t's limit later.
func (b *board) wakeUp(t *task) {
	w := wake{hash: *t.limit, key: t.Limit.Key}
	if t.isNew {
		w.slots = t.Limit.Slots() // it is new, and declares how many
	}
	if !slices.Contains(b.wakes, w) {
		b.wakes = append(b.wakes, w)
	}
}

// readWakes reads what was asked for.
func readWakes(to *[]wake) reader {
	return func(r *sql.Rows) error {
		var w wake
		var hash []byte
		err := r.Scan(&w.salt, &hash, &w.key, &w.slots)
		copy(w.hash[:], hash)
		*to = append(*to, w)
		return err
	}
}

// look does it.
func (b *board) look(asked []wake) error {
	for _, w := range asked {
		b.woken = append(b.woken, w.salt)
		known := w
		known.slots = max(w.slots, 1)
		l, err := b.limit(known)
		if err != nil {
			return err
		}
		if w.slots > 0 {
			if err := b.resize(l, w.slots, ""); err != nil {
				return err
			}
		}
		if err := b.settle(l); err != nil {
			return err
		}
	}
	return nil
}

// SetLimit fulfils queue.Admin.
func (d desk) SetLimit(ctx context.Context, key queue.Hash, slots int, by string) (ok bool, err error) {
	err = d.step(ctx, func(b *board) error {
		if err := b.loadLimits(list{key[:]}); err != nil {
			return err
		}
		l := b.limits[key]
		if ok = l != nil && l.ver != 0; !ok {
			return nil
		}
		return b.resize(l, max(slots, 1), by)
	})
	return ok, err
}
