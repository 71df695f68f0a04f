package mysql

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// wants says whether a task of the class may be given (rule Q4).
func (f *fetch) wants(class int) bool {
	suspect := f.suspect || slices.ContainsFunc(f.given, func(t driver.Fetched) bool { return t.Suspect })
	return lifecycle.Admits(&f.r, class, suspect)
}

// room is for how many more tasks there is some, in this pass.
func (f *fetch) room() int {
	return min(f.r.Max-len(f.given), mostGiven) - len(f.granted) - len(f.plain)
}

// dispatchAll meets candidates in order, as many as there is room for.
func (f *fetch) dispatchAll() error {
	slices.SortFunc(f.found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(slices.Index(f.r.Queues, a.name.queue), slices.Index(f.r.Queues, b.name.queue)),
			cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.id, b.id))
	})
	if err := f.preload(); err != nil {
		return err
	}
	for _, c := range f.found {
		rate := f.rates[c.name.kind]
		switch {
		case f.room() <= 0:
			return nil
		case f.locked[c.id]:
			f.passBy(c.id)
			continue
		case !f.wants(c.class) || rate != nil && !rate.Ready(f.now):
			continue
		case c.limit != nil && f.spent[*c.limit]:
			f.again = true
			continue
		case c.limit != nil && !f.has(*c.limit):
			f.again = f.again || !f.busy[*c.limit] // others were before it, some of which were not met after all
			continue
		case f.easy(c):
			f.plain = append(f.plain, int64(c.id))
			continue
		case f.over(c) && f.tasks[c.id] == nil: // there are too many of these for one pass, or somebody has ended it
			f.again = true
			continue
		}
		if f.heavy[c.id] {
			f.sated = true
			return nil
		}
		if f.flips[c.id].to == task.Blocked { // its line was brought in order when an earlier one was met
			f.again = true
			continue
		}
		t := f.tasks[c.id] // as preload has read it
		if t == nil || t.gone || t.State != task.Available || t.sub != subQueueNumber(c.name) || !f.wants(t.Class()) {
			f.again = true // somebody has met or moved it since, or it has become suspect: there may be more behind
			continue
		}
		if f.sated = f.r.Sates(f.bytes, len(t.Args)); f.sated {
			return nil
		}
		if err := f.dispatch(t, rate); err != nil {
			return err
		}
	}
	return nil
}

// passBy looks behind a task from the next pass on: another transaction has it, or it cannot displace the task that
// has its slot yet.
func (f *fetch) passBy(id task.ID) {
	f.behind = append(f.behind, id)
	f.again, f.moved = true, true
}

// spare is how many candidates more than there is room for a fetch may lock.
const spare = 4

// preload locks the limits of as many candidates as there is room for, and reads these candidates. A limit that
// another step has locked is left out: there may be other candidates. If there are none, it is looked at again a
// little later, and waited for in the end.
func (f *fetch) preload() error {
	var ids []task.ID
	var limits []wake
	ended := 0
	if len(f.found) > 0 && !slices.ContainsFunc(f.found, f.prompt) {
		f.stuck = !f.waits && len(f.given) == 0
		f.again = f.stuck
	}
	for _, c := range f.found {
		rate := f.rates[c.name.kind]
		over := f.over(c) && ended < mostEnded // of these all are met
		if !over && len(ids)-ended >= f.room()+spare || f.easy(c) || f.locked[c.id] || !f.prompt(c) || !f.wants(c.class) || rate != nil && !rate.Ready(f.now) {
			continue
		}
		ids = append(ids, c.id)
		if over {
			ended++
		}
		if c.limit != nil {
			limits = append(limits, wake{hash: *c.limit})
		}
	}
	ids, err := f.readable(ids)
	if err != nil {
		return err
	}
	if len(limits) == 0 {
		return f.load(ids)
	}
	if err := f.lock(limits, !f.waits, f.byID(ids)); err != nil {
		return err
	}
	return f.passOver(ids)
}

// readable are the first of some tasks whose arguments fit together into what the fetch may give: they are read whole.
// The others are heavy.
func (f *fetch) readable(ids []task.ID) ([]task.ID, error) {
	if f.r.Bytes <= 0 || len(ids)*task.MaxArgs <= f.r.Bytes {
		return ids, nil
	}
	sizes := map[task.ID]int{}
	err := f.ask(func(p *packet) []reader {
		p.add("sizes", f.q.ns, idList(ids))
		return []reader{func(r *sql.Rows) error {
			var id task.ID
			var n int
			err := r.Scan(&id, &n)
			sizes[id] = n
			return err
		}}
	})
	n, sum := 0, 0
	for n < len(ids) && (n == 0 || sum+sizes[ids[n]] <= f.r.Bytes) {
		sum += sizes[ids[n]]
		n++
	}
	f.heavy = map[task.ID]bool{}
	for _, id := range ids[n:] {
		f.heavy[id] = true
	}
	return ids[:n], err
}

// over says that c has expired.
func (f *fetch) over(c candidate) bool { return c.expires > 0 && c.expires <= micros(f.now) }

// prompt says that c need not be waited for, as far as this Fetch knows.
func (f *fetch) prompt(c candidate) bool { return c.limit == nil || f.waits || !f.busy[*c.limit] }

// passOver notes the limits that others have. Those that have no row yet are made.
func (f *fetch) passOver(ids []task.ID) (err error) {
	for _, id := range ids {
		t := f.tasks[id]
		if t == nil || t.limit == nil || f.has(*t.limit) {
			continue
		}
		if !f.limits[*t.limit].there {
			_, e := f.limitOf(t)
			err = cmp.Or(err, e)
			continue
		}
		f.busy[*t.limit], f.moved, f.again = true, true, true
	}
	return err
}

// has says that the limit is locked by this pass.
func (f *fetch) has(h task.Hash) bool { return f.limits[h] != nil && f.limits[h].locked }

// dispatch gives a task, or does with it what its limit says.
func (f *fetch) dispatch(t *taskRow, r *rate) error {
	if t.Over(f.now) {
		f.again, f.moved = true, true
		return f.discard(t, task.ReasonExpired)
	}
	if t.limit == nil {
		return f.give(t, nil, r)
	}
	l, err := f.limitOf(t)
	if err != nil {
		return err
	}
	if t.Queues() && f.crowded(l, t.sub) {
		// A transaction has left it here without looking at the line.
		before := len(f.flips)
		err := f.settleSubQueue(l, t.sub)
		f.moved = f.moved || len(f.flips) > before
		if err != nil || t.State != task.Available {
			f.again = true
			return err
		}
	}
	switch {
	case l.free() > 0:
		return f.give(t, l, r)
	case t.Limit.OnContention == task.Discard:
		f.again, f.moved = true, true
		return f.discard(t, task.ReasonOverlap)
	}
	f.again = true
	more, err := f.displace(t)
	switch {
	case more:
		f.moved, f.nextDue = true, f.now
		if f.spent == nil {
			f.spent = map[task.Hash]bool{}
		}
		f.spent[*t.limit] = true
	case !t.Displaced:
		f.passBy(t.ID)
	}
	return err
}

// crowded says that more of a sub-queue are available than may run.
func (f *fetch) crowded(l *limit, sub int64) bool {
	n := 0
	for _, w := range f.inLine(l, sub) {
		if w.state == task.Available {
			n++
		}
	}
	return n > l.free()
}

func (f *fetch) give(t *taskRow, l *limit, r *rate) error {
	above := lease.Token(0)
	if l != nil {
		above = l.token
	}
	from := t.State
	t.Give(above, f.now)
	t.worker = f.id
	if l != nil {
		l.token, l.touched = t.Token, true
	}
	if r != nil {
		r.Take(f.now)
		r.used = true
	}
	f.suspect = f.suspect || t.Suspect
	if err := f.move(t, from); err != nil {
		return err
	}
	f.granted, f.bytes = append(f.granted, t.Given()), f.bytes+len(t.Args)
	return nil
}
