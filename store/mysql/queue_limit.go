package mysql

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// A limit is a key under which so many tasks may run. In each sub-queue as many waiting tasks are available as there
// are free slots (mostGiven at most), the first ones in order. All others are blocked, and no fetch looks at them. A
// caller's transaction must not lock a limit, so the tasks that it takes in are available until a fetch or Maintain
// looks at the limit: it leaves a wake for that.
//
// Every other step that changes a line, or takes or frees a slot, has locked the limit before it read it. So its
// decision is certain, and the next step waits for it or passes the limit over.
type limit struct {
	hash   task.Hash
	there  bool // it has a row
	locked bool
	lifecycle.Cap
	key     string
	token   lease.Token // the largest that was given under it
	running int
	was     struct { // in its row
		lifecycle.Cap
		token lease.Token
	}

	members   map[task.ID]*taskRow // that are known
	open      []waiter             // those of its line that are available
	blocked   map[int64]*line      // the heads of the rest, by sub-queue, as far as they were read
	subs      []int64              // in which some are blocked
	wide      bool                 // there may be more of these
	touched   bool
	disturbed bool // some of its line may be where they should not be
}

// free is how many slots are free.
func (l *limit) free() int { return max(l.Max-l.running, 0) }

// nominees is how many tasks of a sub-queue should be available, if it has that many. Each step that takes or frees a
// slot keeps it so: a free slot always has a task that can take it.
func (l *limit) nominees() int { return min(l.free(), mostGiven) }

// changed says that its row is to be written.
func (l *limit) changed() bool { return l.Cap != l.was.Cap || l.token != l.was.token }

// members are the tasks of a limit that are known.
func (b *txn) members(h task.Hash) map[task.ID]*taskRow {
	if b.limits[h] == nil {
		b.limits[h] = &limit{hash: h, members: map[task.ID]*taskRow{}, blocked: map[int64]*line{}}
	}
	return b.limits[h].members
}

func (b *txn) limitOf(t *taskRow) (*limit, error) { return b.limit(t.declared()) }

// declared is t's limit, as it declares it.
func (t *taskRow) declared() wake {
	return wake{hash: *t.limit, key: t.Limit.Key, slots: t.Limit.Slots()}
}

// limit is a limit that the step has locked, or errLimits: the step begins again and locks it first.
func (b *txn) limit(w wake) (*limit, error) {
	b.members(w.hash)
	l := b.limits[w.hash]
	if l.locked {
		return l, nil
	}
	if !l.there {
		b.missing = append(b.missing, w)
	}
	if !b.asked[w.hash] {
		b.want[w.hash] = true
	}
	return nil, errLimits
}

// lockTheirs locks the limits of the tasks that are known, and reads these tasks again: what was read before is
// forgotten, and nothing has been decided yet.
func (b *txn) lockTheirs() error {
	if b.tx != nil {
		return nil
	}
	var limits []wake
	for _, t := range b.tasks {
		if t.limit != nil {
			limits = append(limits, t.declared())
		}
	}
	switch {
	case len(limits) == 0:
		return nil
	case b.conn != nil: // since before they were read
		return b.allThere(limits)
	}
	return b.lock(limits, false, b.byID(slices.Collect(maps.Keys(b.tasks))))
}

// byID reads tasks.
func (b *txn) byID(ids []task.ID) func(*packet) []reader {
	return func(p *packet) []reader {
		if len(ids) == 0 {
			return nil
		}
		p.add("task-columns").add("tasks-by-id", b.q.ns, idList(ids))
		return []reader{b.reads(new([]*taskRow))}
	}
}

// fresh are those of tasks that are still there after lockTheirs.
func (b *txn) fresh(tasks []*taskRow) (all []*taskRow) {
	for _, t := range tasks {
		if now := b.tasks[t.ID]; now != nil {
			all = append(all, now)
		}
	}
	return all
}

// nothing reads nothing more.
func nothing(*packet) []reader { return nil }

// lock locks limits in their order, and reads them, their lines, and what also asks for. With free, limits that
// another step has are left out. A step locks all its limits at once; if it turns out to need more, it begins again.
func (b *txn) lock(limits []wake, free bool, also func(*packet) []reader) error {
	if b.conn != nil {
		if err := b.allThere(limits); err != nil {
			return err
		}
		return b.ask(also)
	}
	b.asked = maps.Clone(b.want)
	for _, w := range limits {
		b.asked[w.hash] = true
	}
	p, err := b.begin()
	if err != nil {
		return err
	}
	hashes, locked, seen := hashList(b.asked), 0, 0
	row, open := with("every-limit"), with("every-limit")
	var readers []reader
	if free {
		p.add("lock-free-limits", b.q.ns, hashes)
		row, open = with("is-locked", with("limit-of-row")), with("is-locked", with("limit-of-task"))
	} else {
		p.add("lock-limits", b.q.ns, hashes)
		readers = append(readers, func(r *sql.Rows) error { return r.Scan(&locked) })
	}
	p.add("clock").add("now").add("locked-limits", row, b.q.ns, hashes).add("open-in-line", b.q.ns, hashes, open, mostOpen)
	b.reset()
	readers = append(readers, readInstant(&b.now), func(r *sql.Rows) error { seen++; return b.readLimit(r) }, b.readOpen)
	if err := b.send(p, append(readers, also(p)...)); err != nil {
		return err
	}
	b.leaveRest()
	if free {
		return nil
	}
	if seen > locked { // somebody made one in between
		return errChanged
	}
	return b.allThere(limits)
}

// leaveRest leaves a wake for limits under which more tasks are available than were read.
func (b *txn) leaveRest() {
	n, last := 0, []byte{}
	for h, l := range b.limits {
		if n += len(l.open); len(l.open) > 0 && bytes.Compare(h[:], last) > 0 {
			last = h[:]
		}
	}
	for h, l := range b.limits {
		if n >= mostOpen && l.locked && bytes.Compare(h[:], last) >= 0 {
			b.leave(wake{hash: l.hash, key: l.key})
		}
	}
}

// allThere says whether limits are locked, unless nobody declares them.
func (b *txn) allThere(limits []wake) (err error) {
	for _, w := range limits {
		if w.slots > 0 {
			_, e := b.limit(w)
			err = cmp.Or(err, e)
		}
	}
	return err
}

// hashList are limits in the order in which they are locked.
func hashList(set map[task.Hash]bool) (all list) {
	for _, h := range slices.SortedFunc(maps.Keys(set), func(x, y task.Hash) int { return bytes.Compare(x[:], y[:]) }) {
		all = append(all, h[:])
	}
	return all
}

func idList(ids []task.ID) (all list) {
	for _, id := range ids {
		all = append(all, int64(id))
	}
	return all
}

func (b *txn) readLimit(r *sql.Rows) error {
	var hash, head []byte
	var last sql.NullInt64
	var l limit
	if err := r.Scan(&hash, &l.key, &l.Max, &l.Declared, &l.token, &l.locked, &l.running, &head, &last); err != nil {
		return err
	}
	b.members(task.Hash(hash))
	known := b.limits[task.Hash(hash)]
	known.there, known.locked, known.key, known.Cap, known.token, known.running = true, l.locked, l.key, l.Cap, l.token, l.running
	known.was.Cap, known.was.token = l.Cap, l.token
	if len(head) == 0 {
		return nil
	}
	return known.begin(string(head), last.Int64, b.now)
}

// ensure makes limits that are new, before the step that has to lock them: a chunk of them in a transaction.
func (q queues) ensure(ctx context.Context, all []wake) error {
	slices.SortStableFunc(all, func(x, y wake) int { return bytes.Compare(x.hash[:], y.hash[:]) })
	for some := range slices.Chunk(all, chunk) {
		p := new(packet).add("clock").add("ensure-limits")
		for i, w := range some {
			if i > 0 {
				p.text.WriteByte(',')
			}
			p.add("limit-row", q.ns, w.hash[:], []byte(w.key), w.slots)
		}
		if err := q.run(ctx, p.add("unless-there")); err != nil {
			return err
		}
	}
	return nil
}

// declare is the limit that a spec names. The last declaration wins.
func (b *txn) declare(t *taskRow) error {
	l, err := b.limitOf(t)
	if err != nil {
		return err
	}
	l.members[t.ID] = t
	return b.hears(l, t.Limit.Slots())
}

// hears takes in what a task declares of a limit. It stops nothing that runs.
func (b *txn) hears(l *limit, slots int) error {
	was := l.Max
	l.Hears(slots)
	if l.Max != was {
		b.record(driver.LimitEvent(l.key, was, l.Max, ""))
		b.settle(l)
	}
	l.touched = l.touched || l.changed()
	return nil
}

// SetLimit fulfils driver.Admin.
func (d admin) SetLimit(ctx context.Context, key task.Hash, slots int, by string) (ok bool, err error) {
	err = d.step(ctx, func(b *txn) error {
		if err := b.lock([]wake{{hash: key}}, false, nothing); err != nil {
			return err
		}
		l := b.limits[key]
		if ok = l != nil && l.there; !ok {
			return nil
		}
		if l, err = b.limit(wake{hash: key}); err != nil { // somebody made it after it was looked for to be locked
			return err
		}
		was := l.Max
		if l.Says(slots, by, b.now) {
			b.record(lifecycle.SaidEvent(l.key, was, &l.Cap, by))
			b.settle(l)
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("set limit: %w", err)
	}
	return ok, nil
}

// wordOf is by as the row of a limit holds it.
func wordOf(by string) string {
	const most = 1000
	return text(by[:min(len(by), most)])
}

// Limits fulfils driver.Admin.
func (d admin) Limits(ctx context.Context) (words []driver.Word, err error) {
	err = d.run(ctx, new(packet).add("limits-said", d.ns), func(r *sql.Rows) error {
		var w driver.Word
		var hash []byte
		var since int64
		err := r.Scan(&hash, &w.Key, &w.Max, &w.Declared, &w.By, &since)
		copy(w.Hash[:], hash)
		w.Since = instant(since)
		words = append(words, w)
		return err
	})
	return words, err
}
