package memory

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

func (q tasks) Fetch(ctx context.Context, r queue.FetchRequest) (queue.Fetch, error) {
	return on(ctx, q.board, func(now time.Time) queue.Fetch {
		out := queue.Fetch{Now: now, Late: late(now, r.NotAfter)}
		out.Gone = !out.Late && !q.b.live(r.Worker, now)
		if !out.Late && !out.Gone {
			f := fetch{board: q.board, r: r, now: now}
			for _, name := range r.Queues {
				f.from(name)
			}
			out.Tasks, out.NextDue = f.given, f.nextDue
		}
		return out
	})
}

// A fetch is one call of Fetch.
type fetch struct {
	*board
	r       queue.FetchRequest
	now     time.Time
	given   []queue.Fetched
	suspect bool // one was given
	nextDue time.Time
}

// from takes what there is in a queue, the first in order first.
func (f *fetch) from(name string) {
	lanes := f.lanesOf(name)
	for _, l := range lanes {
		f.ripen(l, f.now, math.MaxInt)
		if t := l.due.first(); t != nil && (f.nextDue.IsZero() || t.RunAt.Before(f.nextDue)) {
			f.nextDue = t.RunAt
		}
	}
	for len(f.given) < f.r.Max {
		t := f.first(lanes)
		if t == nil {
			return
		}
		f.meet(t)
	}
}

// lanesOf are the lanes of a queue that the worker may fetch from.
func (f *fetch) lanesOf(name string) (found []*lane) {
	for at, l := range f.lanes {
		if at.queue == name && (len(f.r.Kinds) == 0 || slices.Contains(f.r.Kinds, at.kind)) && !f.paused(at, f.now) {
			found = append(found, l)
		}
	}
	return found
}

// first is the first in order of what may be given.
func (f *fetch) first(lanes []*lane) (t *task) {
	for _, l := range lanes {
		if r := f.rates[l.kind]; r != nil && !r.ready(f.now) {
			continue
		}
		for i := range l.ready {
			if i > 0 && (f.suspect || !f.r.Suspects) || i > 1 && !f.r.Charged {
				continue
			}
			if head := l.ready[i].first(); head != nil && (t == nil || ranks(head, t)) {
				t = head
			}
		}
	}
	return t
}

// meet gives a task, or does with it what its limit says.
func (f *fetch) meet(t *task) {
	switch {
	case t.over(f.now):
		f.discard(t, queue.ReasonExpired, f.now)
	case t.limit == nil || t.limit.free() > 0:
		f.give(t)
	case t.Limit.OnContention == queue.Discard:
		f.discard(t, queue.ReasonOverlap, f.now)
	default:
		f.displace(t)
	}
}

// displace asks for a slot: running rivals are to stop, and older ones that wait have been superseded.
func (f *fetch) displace(t *task) {
	f.pull(t)
	t.displaced = true
	for _, other := range t.limit.running {
		if other.rival() && other.Stop == "" {
			other.Stop = queue.ReasonReplaced
		}
	}
	for _, other := range t.limit.rivals {
		if other.ID < t.ID {
			f.discard(other, queue.ReasonSuperseded, f.now)
		}
	}
	f.file(t)
}

func (f *fetch) give(t *task) {
	f.pull(t)
	t.Token = max(t.Token+1, lease.Token(f.now.UnixMicro()))
	if l := t.limit; l != nil {
		t.Token = max(t.Token, l.token+1)
		l.token = t.Token
	}
	if r := f.rates[t.Kind]; r != nil {
		r.take(f.now)
	}
	f.suspect = f.suspect || t.Suspect
	t.State, t.Started, t.begun, t.Stop = queue.Running, f.now, false, ""
	t.Worker = f.worker(f.r.Worker).Process
	f.file(t)
	f.given = append(f.given, queue.Fetched{Ref: queue.Ref{ID: t.ID, Token: t.Token}, Spec: t.Spec.Clone(), Enqueued: t.Enqueued,
		Attempts: t.Attempts, Crashes: t.Crashes, Snoozes: t.Snoozes, Granted: t.Granted, Suspect: t.Suspect})
}

// A rate is how many tasks of a kind may be fetched, as a bucket that fills with time.
type rate struct {
	each  time.Duration // the time that one task costs
	burst time.Duration // how far ahead of now full may be
	full  time.Time     // when the bucket is full again
}

func (r *rate) ready(now time.Time) bool { return r.full.Add(r.each).Sub(now) <= r.burst }

func (r *rate) take(now time.Time) {
	if r.full.Before(now) {
		r.full = now
	}
	r.full = r.full.Add(r.each)
}

func (q tasks) Declare(ctx context.Context, rates map[string]queue.Rate) error {
	_, err := on(ctx, q.board, func(time.Time) any {
		for kind, r := range rates {
			if r.Count <= 0 || r.Per <= 0 {
				delete(q.rates, kind)
				continue
			}
			if q.rates[kind] == nil {
				q.rates[kind] = &rate{}
			}
			burst := r.Burst
			if burst <= 0 {
				burst = r.Count
			}
			each := r.Per / time.Duration(r.Count)
			q.rates[kind].each, q.rates[kind].burst = each, each*time.Duration(burst)
		}
		return nil
	})
	return err
}
