//go:build linux

package file

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// mostVain is how many passes a fetch makes that make tasks due, or end them, and give fewer than they might.
const mostVain = 5

// Fetch fulfils driver.Store. It goes in passes of mostAtOnce tasks at most, each a step of its own: others write
// between them.
func (q queues) Fetch(ctx context.Context, r driver.FetchRequest) (out driver.Fetch, err error) {
	for vain := 0; vain < mostVain; {
		f, more, err := q.pass(ctx, r, out.Tasks)
		switch {
		case len(out.Tasks) == 0:
			out = f
		case err != nil || f.Late || f.Gone:
			return out, nil // what was given is the worker's: its next call learns why there is no more
		default:
			out.Now, out.NextDue, out.Tasks = f.Now, f.NextDue, append(out.Tasks, f.Tasks...)
		}
		if err != nil || !more || len(out.Tasks) >= r.Max {
			return out, err
		}
		if len(f.Tasks) < mostAtOnce {
			vain++
		}
	}
	return out, nil
}

// pass is one step of a Fetch, behind those that have given sofar. It says whether it has done as much as one may.
func (q queues) pass(ctx context.Context, r driver.FetchRequest, sofar []driver.Fetched) (out driver.Fetch, more bool, err error) {
	r.Max = min(r.Max-len(sofar), mostAtOnce)
	err = q.db.step(ctx, func(b *txn) error {
		out = driver.Fetch{Now: b.now, Late: !r.NotAfter.IsZero() && b.now.After(r.NotAfter)}
		if out.Late {
			return nil
		}
		live, err := b.live(r.Worker)
		if out.Gone = err == nil && !live; err != nil || out.Gone {
			return err
		}
		f := fetch{txn: b, r: r, left: mostAtOnce / 2, due: mostAtOnce / 2, looked: max(mostLooked/max(len(r.Queues), 1), leastLooked), rates: map[string]*rate{}}
		for i := range sofar {
			f.suspect, f.bytes = f.suspect || sofar[i].Suspect, f.bytes+len(sofar[i].Args)
		}
		if err := f.prepare(); err != nil {
			return err
		}
		for _, name := range r.Queues {
			if err := f.from(name); err != nil {
				return err
			}
		}
		if len(f.given) < r.Max {
			rounds, err := f.goOn()
			if err != nil {
				return err
			}
			if rounds || f.left <= 0 || f.sated || len(f.limits) >= mostLimits {
				f.nextDue = f.now
			}
		}
		out.Tasks, out.NextDue = f.given, f.nextDue
		more = !f.sated && (len(f.given) == r.Max || f.left <= 0 || f.moreDue || len(f.limits) >= mostLimits)
		if len(f.given) == 0 {
			return nil
		}
		return f.exec("worker_back", f.worker) // a worker that fetches under a live lease is there, whatever it said before
	})
	return out, more, err
}

// leastLooked is how many sub-queues of a queue a fetch looks at, however many queues it asks.
const leastLooked = 10

// beyondHeld is how many held-back tasks of a sub-queue a fetch looks behind for others.
const beyondHeld = 100

// A fetch is one call of Fetch.
type fetch struct {
	*txn
	r       driver.FetchRequest
	rates   map[string]*rate // of kinds that were asked for; nil: none
	worker  int64
	given   []driver.Fetched
	left    int  // how many tasks it may still meet, beside those that it gives
	due     int  // how many it may still make available
	looked  int  // how many sub-queues of each queue it looks at
	suspect bool // one was given
	bytes   int  // of the arguments of those that were given
	sated   bool // there is another one, and its arguments are too many
	held    bool // slots of limits are held back, as grants are (rules Q5, L9)
	nextDue time.Time
	moreDue bool // more is due than it has made available
}

type subQueue struct {
	id int64
	subQueueName
}

func readSubQueue(row scanner) (l subQueue, err error) { return l, row.Scan(&l.id, &l.queue, &l.kind) }

func (f *fetch) prepare() (err error) {
	if f.held, err = f.db.leases.heldBack(); err != nil {
		return err
	}
	f.worker, err = f.workerID(f.r.Worker)
	return err
}

// from gives what a queue has, the first in order first.
func (f *fetch) from(name string) error {
	subs, err := f.subQueuesOf(name)
	if err != nil {
		return err
	}
	for _, l := range subs {
		if err := f.makeDue(l, min(max(mostAtOnce/2/len(subs), 1), f.due)); err != nil {
			return err
		}
	}
	for f.left > 0 && !f.sated {
		if err := f.settleDisturbed(); err != nil { // by what became due, or was met before
			return err
		}
		found, err := f.candidates(subs)
		if err != nil {
			return err
		}
		met, err := f.dispatchAll(found)
		// Meeting these may have made others available.
		if err != nil || met == 0 || len(f.given) >= f.r.Max {
			return err
		}
	}
	return nil
}

// subQueuesOf are the sub-queues of a queue from which the worker may fetch now. If there are very many, some are
// drawn: the others have their turn in another fetch.
func (f *fetch) subQueuesOf(name string) (open []subQueue, err error) {
	all, err := f.allSubQueues(name)
	for _, l := range all {
		if err != nil {
			return nil, err
		}
		var paused int
		if err = f.scan("pauses_of", []any{l.queue, l.kind, micros(f.now)}, &paused); paused > 0 {
			continue
		}
		if _, asked := f.rates[l.kind]; !asked && err == nil {
			var found []*rate
			if found, err = rows(f.txn, readRate, "rate_of", l.kind); len(found) > 0 {
				f.rates[l.kind] = found[0]
			} else {
				f.rates[l.kind] = nil
			}
		}
		open = append(open, l)
	}
	return open, err
}

func (f *fetch) allSubQueues(name string) (all []subQueue, err error) {
	kinds := f.r.Kinds
	switch {
	case len(kinds) == 0:
		if all, err = rows(f.txn, readSubQueue, "subqueues_of", name, 0, f.looked); err != nil || len(all) < f.looked {
			return all, err
		}
	case len(kinds) <= mostLooked:
		if len(kinds) > f.looked { // some are drawn
			at := rand.IntN(len(kinds))
			kinds = slices.Concat(kinds[at:], kinds[:at])[:f.looked]
			f.lookAgain()
		}
		for _, kind := range kinds {
			found, err := rows(f.txn, readSubQueue, "subqueue_known", name, kind)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	}
	var first, last int64
	if err := f.scan("subqueues_range", []any{name}, &first, &last); err != nil {
		return nil, err
	}
	return f.drawn(name, first+rand.Int64N(last-first+1))
}

// drawPause is when a fetch is to look again that has found nothing in the sub-queues that it has drawn.
const drawPause = 100 * time.Millisecond

func (f *fetch) lookAgain() {
	if again := f.now.Add(drawPause); f.nextDue.IsZero() || again.Before(f.nextDue) {
		f.nextDue = again
	}
}

// drawn are at most looked sub-queues of a queue, from one number on: those that have tasks and, if these cannot
// all be looked at, some of the others.
func (f *fetch) drawn(name string, from int64) (all []subQueue, err error) {
	seen, whole := map[int64]bool{}, true
	add := func(most int, found []subQueue) {
		for _, l := range found {
			switch {
			case seen[l.id] || l.queue != name || len(f.r.Kinds) > 0 && !slices.Contains(f.r.Kinds, l.kind):
			case len(all) >= most:
				whole = false
			default:
				seen[l.id], all = true, append(all, l)
			}
		}
	}
	for i, statement := range []string{"subqueues_ready", "subqueues_waiting"} {
		for _, from := range []int64{from, 0} {
			found, err := rows(f.txn, readSubQueue, statement, from, f.looked)
			if err != nil {
				return nil, err
			}
			whole = whole && (from > 0 || len(found) < f.looked)
			add(f.looked*(2+i)/4, found)
		}
	}
	if whole {
		return all, nil
	}
	f.lookAgain()
	for _, from := range []int64{from, 0} {
		found, err := rows(f.txn, readSubQueue, "subqueues_of", name, from, f.looked)
		if err != nil {
			return nil, err
		}
		add(f.looked, found)
	}
	return all, nil
}

// makeDue makes due tasks available, and notes when the next one is.
func (f *fetch) makeDue(l subQueue, most int) error {
	n, err := f.txn.makeDue(l.id, most)
	if f.due -= n; err != nil {
		return err
	}
	var next int64
	err = f.scan("next_due", []any{l.id}, &next)
	if at := instantOf(next); err == nil && next != 0 && (f.nextDue.IsZero() || at.Before(f.nextDue)) {
		f.nextDue = at
		f.moreDue = f.moreDue || !at.After(f.now)
	}
	return err
}

// candidate is a task that may be given.
type candidate struct {
	position
	class int
	rate  *rate
}

// candidates are the first tasks in order of the sub-queues, as many as there is room for or fewer. Of each sub-queue
// only the first few are read, and a task behind the last one of those is no candidate.
func (f *fetch) candidates(subs []subQueue) (all []candidate, err error) {
	const few = 8
	var end *position
	for _, l := range subs {
		r := f.rates[l.kind]
		if r != nil && !r.Ready(f.now) {
			continue
		}
		for class := range lifecycle.Classes {
			want := f.r.Max - len(f.given)
			if class > lifecycle.Clear {
				want = min(want, 1)
			}
			if want = min(want, max(few, mostAtOnce/len(subs))); f.held {
				want += beyondHeld
			}
			if !f.wants(class) || want <= 0 {
				continue
			}
			found, err := rows(f.txn, readPosition, "ready", l.id, class, want)
			if err != nil {
				return nil, err
			}
			for _, s := range found {
				all = append(all, candidate{s, class, r})
			}
			if n := len(found); n == want && class == lifecycle.Clear && (end == nil || inOrder(found[n-1], *end) < 0) {
				end = &found[n-1]
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return inOrder(a.position, b.position) })
	if end != nil && !f.held {
		all = slices.DeleteFunc(all, func(c candidate) bool { return inOrder(c.position, *end) > 0 })
	}
	return all, nil
}

// wants says whether a task of the class may be given.
func (f *fetch) wants(class int) bool { return lifecycle.Admits(&f.r, class, f.suspect) }

// dispatchAll meets them in order, and says to how many something was done.
func (f *fetch) dispatchAll(all []candidate) (met int, err error) {
	for _, c := range all {
		switch {
		case len(f.given) >= f.r.Max || f.left <= 0 || len(f.limits) >= mostLimits:
			return met, nil
		case !f.wants(c.class) || c.rate != nil && !c.rate.Ready(f.now):
			continue
		}
		t, err := f.get(c.id)
		if err != nil {
			return met, err
		}
		if t.aside { // and others come behind it
			met++
			f.left--
		}
		if t.State != task.Available {
			continue // an earlier one took the slot
		}
		if t.limit != 0 && f.held {
			continue
		}
		if f.sated = f.r.Sates(f.bytes, len(t.Args)); f.sated {
			return met, nil
		}
		met++
		if err := f.dispatch(t, c.rate); err != nil {
			return met, err
		}
	}
	return met, nil
}

// dispatch gives a task, or does with it what its limit says.
func (f *fetch) dispatch(t *taskRow, r *rate) error {
	var l *limit
	if t.limit != 0 {
		var err error
		if l, err = f.limitOf(t); err != nil {
			return err
		}
	}
	if !t.Over(f.now) && (l == nil || l.free() > 0) {
		return f.give(t, l, r)
	}
	f.left--
	switch {
	case t.Over(f.now):
		return f.discard(t, task.ReasonExpired)
	case t.Queues(): // its sub-queue was not brought up to the limit yet
		_, err := f.settleSubQueue(l, t.sub)
		return err
	case t.Limit.OnContention == task.Discard:
		return f.discard(t, task.ReasonOverlap)
	}
	n, err := f.displace(t, f.left)
	f.left -= n
	return err
}

func (f *fetch) give(t *taskRow, l *limit, r *rate) error {
	above := lease.Token(0)
	if l != nil {
		above = l.token
	}
	from := t.State
	t.Give(above, f.now)
	t.worker = f.worker
	if l != nil {
		l.token, l.given = t.Token, true
	}
	if r != nil {
		r.Take(f.now)
		if err := f.exec("rate_use", micros(r.Full), r.Taken.String(), r.kind); err != nil {
			return err
		}
	}
	f.suspect = f.suspect || t.Suspect
	if err := f.move(t, from); err != nil {
		return err
	}
	f.given, f.bytes = append(f.given, t.Given()), f.bytes+len(t.Args)
	return nil
}

// makeDue makes those of a sub-queue available whose instant has come, at most most, and fewer if they have many
// limits: then the fetch can still give some.
func (b *txn) makeDue(sub int64, most int) (n int, err error) {
	due, err := rows(b, readID, "due", sub, micros(b.now), most)
	for _, id := range due {
		if len(b.limits) >= mostLimits/2 {
			return n, err
		}
		t, err := b.get(id)
		if err == nil && !t.aside {
			err = b.wait(t)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, err
}

// A rate is how many tasks of a kind may be fetched.
type rate struct {
	kind string
	lifecycle.Bucket
}

func readRate(row scanner) (*rate, error) {
	var r rate
	var full int64
	var taken string
	err := row.Scan(&r.kind, &r.Each, &r.Burst, &full, &r.Per, &r.Most, &taken)
	r.Full, r.Taken = instantOf(full), lifecycle.ParseTaken(taken)
	return &r, err
}

func (b *txn) rates() (map[string]*rate, error) {
	all, err := rows(b, readRate, "rates")
	by := map[string]*rate{}
	for _, r := range all {
		by[r.kind] = r
	}
	return by, err
}

// Declare fulfils driver.Store, in steps of mostAtOnce rates at most.
func (q queues) Declare(ctx context.Context, rates map[string]task.Rate) error {
	for kinds := range slices.Chunk(slices.Sorted(maps.Keys(rates)), mostAtOnce) {
		err := q.db.step(ctx, func(b *txn) error {
			for _, kind := range kinds {
				var err error
				if k, bounds := lifecycle.BucketOf(rates[kind]); bounds {
					err = b.exec("rate_set", kind, int64(k.Each), int64(k.Burst), int64(k.Per), k.Most)
				} else {
					err = b.exec("rate_delete", kind)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
