package mysql

import (
	"cmp"
	"slices"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

// wants says whether a task of the class may be given (rule Q4).
func (f *fetch) wants(class int) bool {
	suspect := f.suspect || slices.ContainsFunc(f.given, func(t queue.Fetched) bool { return t.Suspect })
	switch class {
	case 1:
		return f.r.Suspects && !suspect
	case 2:
		return f.r.Suspects && f.r.Charged && !suspect
	}
	return true
}

// mostGiven is how many tasks one pass gives at most: a packet is not to take longer than a worker waits for it.
const mostGiven = 250

// room is for how many more tasks there is some, in this pass.
func (f *fetch) room() int {
	return min(f.r.Max-len(f.given), mostGiven) - len(f.granted) - len(f.plain)
}

// meetAll meets candidates in order, as many as there is room for.
func (f *fetch) meetAll() error {
	slices.SortFunc(f.found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(slices.Index(f.r.Queues, a.place.queue), slices.Index(f.r.Queues, b.place.queue)),
			cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.id, b.id))
	})
	if err := f.preload(); err != nil {
		return err
	}
	for _, c := range f.found {
		rate := f.rates[c.place.kind]
		switch {
		case f.room() <= 0:
			return nil
		case !f.wants(c.class) || f.locked[c.id] || rate != nil && !rate.ready(f.now):
			continue
		case c.limit != nil && !f.has(*c.limit):
			f.again = f.again || !f.busy[*c.limit] // others were before it, some of which were not met after all
			continue
		case f.easy(c):
			f.plain = append(f.plain, int64(c.id))
			continue
		}
		t, err := f.get(c.id)
		if err != nil {
			return err
		}
		if t == nil || t.State != queue.Available || t.lane != laneNumber(c.place) || !f.wants(t.class()) {
			f.again = true // somebody has met or moved it since, or it has become suspect: there may be more behind
			continue
		}
		if err := f.meet(t, rate); err != nil {
			return err
		}
	}
	return nil
}

// spare is how many candidates more than there is room for a fetch may lock.
const spare = 4

// preload locks the limits of as many candidates as there is room for, and reads these candidates. A limit that somebody
// else has locked is left to him: there may be others. Where there are none, they are looked at again a little later,
// and he is waited for in the end.
func (f *fetch) preload() error {
	var ids []queue.ID
	var limits []wake
	if len(f.found) > 0 && !slices.ContainsFunc(f.found, f.prompt) {
		f.stuck = !f.waits && len(f.given) == 0
		f.again = f.stuck
	}
	for _, c := range f.found {
		rate := f.rates[c.place.kind]
		if len(ids) >= f.room()+spare || f.easy(c) || f.locked[c.id] || !f.prompt(c) || !f.wants(c.class) || rate != nil && !rate.ready(f.now) {
			continue
		}
		ids = append(ids, c.id)
		if c.limit != nil {
			limits = append(limits, wake{hash: *c.limit})
		}
	}
	if len(limits) == 0 {
		return f.load(ids)
	}
	if err := f.lock(limits, !f.waits, f.byID(ids)); err != nil {
		return err
	}
	return f.passOver(ids)
}

// prompt says that c need not be waited for, as far as this Fetch knows.
func (f *fetch) prompt(c candidate) bool { return c.limit == nil || f.waits || !f.busy[*c.limit] }

// passOver notes the limits that others have. One that has no row yet is made.
func (f *fetch) passOver(ids []queue.ID) error {
	for _, id := range ids {
		t := f.tasks[id]
		if t == nil || t.limit == nil || f.has(*t.limit) {
			continue
		}
		if !f.limits[*t.limit].there {
			_, err := f.limitOf(t)
			return err
		}
		f.busy[*t.limit], f.skipped, f.again = true, true, true
	}
	return nil
}

// has says that the limit is locked by this pass.
func (f *fetch) has(h queue.Hash) bool { return f.limits[h] != nil && f.limits[h].locked }

// meet gives a task, or does with it what its limit says.
func (f *fetch) meet(t *task, r *rate) error {
	if t.over(f.now) {
		f.again = true
		return f.discard(t, queue.ReasonExpired)
	}
	if t.limit == nil {
		return f.give(t, nil, r)
	}
	l, err := f.limitOf(t)
	if err != nil {
		return err
	}
	if t.queues() && f.crowded(l, t.lane) {
		// A transaction has left it here without looking at the line.
		if err := f.settleLane(l, t.lane); err != nil || t.State != queue.Available {
			f.again = true
			return err
		}
	}
	switch {
	case l.free() > 0:
		return f.give(t, l, r)
	case t.Limit.OnContention == queue.Discard:
		f.again = true
		return f.discard(t, queue.ReasonOverlap)
	}
	f.again = true
	return f.displace(t)
}

// crowded says that more of a lane are available than may run.
func (f *fetch) crowded(l *limit, lane int64) bool {
	n := 0
	for _, w := range f.inLine(l, lane) {
		if w.state == queue.Available {
			n++
		}
	}
	return n > l.free()
}

func (f *fetch) give(t *task, l *limit, r *rate) error {
	t.Token = max(t.Token+1, lease.Token(f.now.UnixMicro()))
	if l != nil {
		t.Token = max(t.Token, l.token+1)
		l.token, l.touched = t.Token, true
	}
	if r != nil {
		r.take(f.now)
	}
	f.suspect = f.suspect || t.Suspect
	t.State, t.Started, t.begun, t.Stop, t.worker = queue.Running, f.now, false, "", f.id
	if err := f.move(t, queue.Available); err != nil {
		return err
	}
	f.granted = append(f.granted, t.fetched())
	return nil
}

func (t *task) fetched() queue.Fetched {
	return queue.Fetched{Ref: queue.Ref{ID: t.ID, Token: t.Token}, Spec: t.Spec, Enqueued: t.Enqueued,
		Attempts: t.Attempts, Crashes: t.Crashes, Snoozes: t.Snoozes, Granted: t.Granted, Suspect: t.Suspect}
}
