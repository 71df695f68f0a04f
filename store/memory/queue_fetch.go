package memory

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

func (q tasks) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	return on(ctx, q.queueState, func(now time.Time) driver.Fetch {
		out := driver.Fetch{Now: now, Late: late(now, r.NotAfter)}
		out.Gone = !out.Late && !q.b.live(r.Worker, now)
		if !out.Late && !out.Gone {
			f := fetch{queueState: q.queueState, r: r, now: now, left: mostAtOnce}
			for _, name := range r.Queues {
				f.from(name)
			}
			out.Tasks, out.NextDue = f.given, f.nextDue
			if f.sated || f.left <= 0 && len(f.given) < r.Max {
				out.NextDue = now
			}
		}
		return out
	})
}

// mostAtOnce is how many due tasks of a sub-queue a fetch makes available, and how many tasks it meets that it does
// not give. A displacing task, a changed limit and a leaving worker walk over all that they have to do with: this is
// the reference, and kept simple.
const mostAtOnce = 1000

// A fetch is one call of Fetch.
type fetch struct {
	*queueState
	r       driver.FetchRequest
	now     time.Time
	given   []driver.Fetched
	left    int  // how many tasks it may still meet in vain
	suspect bool // one was given
	bytes   int  // of the arguments of those that were given
	sated   bool // there is another one, and its arguments are too many
	nextDue time.Time
}

// from gives what a queue has, the first in order first.
func (f *fetch) from(name string) {
	subs := f.subQueuesOf(name)
	for _, l := range subs {
		f.makeDue(l, f.now, mostAtOnce)
		if t := l.due.first(); t != nil && (f.nextDue.IsZero() || t.RunAt.Before(f.nextDue)) {
			f.nextDue = t.RunAt
		}
	}
	var held []*taskRow
	for len(f.given) < f.r.Max && f.left > 0 && !f.sated {
		t := f.first(subs)
		if t == nil {
			break
		}
		if f.sated = f.r.Sates(f.bytes, len(t.Args)); f.sated {
			break
		}
		if t.limit != nil && f.b.holdUntil.After(f.now) { // slots are held back as grants are (rules Q5, L9)
			f.pull(t)
			held = append(held, t)
			continue
		}
		f.dispatch(t)
	}
	for _, t := range held {
		f.file(t)
	}
}

// subQueuesOf are the sub-queues of a queue that the worker may fetch from.
func (f *fetch) subQueuesOf(name string) (found []*subQueue) {
	for at, l := range f.subs {
		if at.queue == name && (len(f.r.Kinds) == 0 || slices.Contains(f.r.Kinds, at.kind)) && !f.paused(at, f.now) {
			found = append(found, l)
		}
	}
	return found
}

// first is the first in order of what may be given.
func (f *fetch) first(subs []*subQueue) (t *taskRow) {
	for _, l := range subs {
		if r := f.rates[l.kind]; r != nil && !r.Ready(f.now) {
			continue
		}
		for i := range l.ready {
			if !lifecycle.Admits(&f.r, i, f.suspect) {
				continue
			}
			if head := l.ready[i].first(); head != nil && (t == nil || ranks(head, t)) {
				t = head
			}
		}
	}
	return t
}

// dispatch gives a task, or does with it what its limit says.
func (f *fetch) dispatch(t *taskRow) {
	if !t.Over(f.now) && (t.limit == nil || t.limit.free() > 0) {
		f.give(t)
		return
	}
	f.left--
	switch {
	case t.Over(f.now):
		f.discard(t, task.ReasonExpired, f.now)
	case t.Limit.OnContention == task.Discard:
		f.discard(t, task.ReasonOverlap, f.now)
	default:
		f.displace(t)
	}
}

// displace asks for a slot: running tasks that displace are to stop, and older waiting ones are superseded.
func (f *fetch) displace(t *taskRow) {
	f.pull(t)
	t.Displaced = true
	for _, other := range t.limit.running {
		if other.Displaces() && other.Stop == "" {
			other.Stop = task.ReasonReplaced
		}
	}
	for _, other := range t.limit.displacing {
		if other.ID < t.ID {
			f.discard(other, task.ReasonSuperseded, f.now)
		}
	}
	f.file(t)
}

func (f *fetch) give(t *taskRow) {
	above := lease.Token(0)
	if t.limit != nil {
		above = t.limit.token
	}
	f.change(t, f.now, func() lifecycle.Note {
		t.Worker = f.worker(f.r.Worker).Process
		return t.Give(above, f.now)
	})
	if t.limit != nil {
		t.limit.token = t.Token
	}
	if r := f.rates[t.Kind]; r != nil {
		r.Take(f.now)
	}
	f.suspect = f.suspect || t.Suspect
	given := t.Given()
	given.Spec = t.Spec.Clone()
	f.given, f.bytes = append(f.given, given), f.bytes+len(given.Args)
}

func (q tasks) Declare(ctx context.Context, rates map[string]task.Rate) error {
	_, err := on(ctx, q.queueState, func(time.Time) any {
		for kind, r := range rates {
			b, bounds := lifecycle.BucketOf(r)
			switch had := q.rates[kind]; {
			case !bounds:
				delete(q.rates, kind)
				continue
			case had != nil:
				b.Full, b.Taken = had.Full, had.Taken
			}
			q.rates[kind] = &b
		}
		return nil
	})
	return err
}
