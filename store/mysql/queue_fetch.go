package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// mostPasses is how many passes a Fetch makes that get on and find nothing. Each looks at twice as many as the
// one before.
const mostPasses = 10

// Fetch fulfils driver.Store. It goes in passes, each a step of its own: what one pass met may have made others
// available.
func (q queues) Fetch(ctx context.Context, r driver.FetchRequest) (out driver.Fetch, err error) {
	m, err := q.member(ctx, r.Worker)
	if err != nil {
		return out, fmt.Errorf("fetch: %w", err)
	}
	busy, passed, begin := map[task.Hash]bool{}, map[task.ID]bool{}, time.Now()
	looks, last := true, int64(math.MaxInt64) // at wakes, up to which one
	for n, vain, empty := 0, 0, 0; vain < 3; n++ {
		var f *fetch
		err = q.step(ctx, func(b *txn) error {
			f = &fetch{txn: b, r: r, id: m.id, given: out.Tasks, busy: busy, passed: passed, empty: empty, waits: vain == 2}
			f.looks, f.wanted.last = looks, last
			return f.pass()
		})
		if err != nil { // what was given in earlier passes is handed back by whoever does not know of it
			return driver.Fetch{}, fmt.Errorf("fetch: %w", err)
		}
		if len(out.Tasks) == 0 {
			out.Now, out.Late, out.Gone = f.now, f.late, f.gone
		}
		out.NextDue = f.nextDue
		m.took(f.granted)
		out.Tasks = append(out.Tasks, f.granted...)
		looks, last = false, f.wanted.last
		switch {
		case len(out.Tasks) > 0 || f.again || f.late || f.gone:
		case len(f.wanted.wakes) > 0:
			f.again, looks = true, true // there may be something under other limits
		case len(passed) > 0:
			f.again, f.stuck = true, true // these may be free by now
		}
		if !f.again || len(out.Tasks) >= r.Max || (len(out.Tasks) > 0 || f.moved) && hurry(ctx, begin) {
			break
		}
		if f.stuck {
			clear(busy)
			clear(passed)
			if err := pause(ctx, 1<<vain, false); err != nil {
				return driver.Fetch{}, fmt.Errorf("fetch: %w", err)
			}
		}
		for _, id := range f.behind {
			passed[id] = true
		}
		empty++
		switch {
		case len(f.granted) > 0 || looks:
			empty = 0
		case !f.moved || empty > mostPasses:
			vain++
		}
	}
	return out, nil
}

// hurry says that less time is left than has passed: the worker must get the tasks that were given, and a step that
// was done must not end in an error.
func hurry(ctx context.Context, begin time.Time) bool {
	end, bounded := ctx.Deadline()
	return bounded && time.Until(end) < time.Since(begin)
}

// A fetch is one pass of a Fetch.
type fetch struct {
	*txn
	r          driver.FetchRequest
	id         int64 // the worker's row
	looks      bool  // at what is wanted, before it gives anything
	late, gone bool
	given      []driver.Fetched // by earlier passes
	granted    []driver.Fetched // by this one
	plain      list             // those that this pass tries to get beside them
	suspect    bool             // one was given
	again      bool             // another pass may find more
	nextDue    time.Time
	pauses     []driver.Pause
	subs       []*subQueue
	wanted     wanted
	found      []candidate
	busy       map[task.Hash]bool // limits that others had
	passed     map[task.ID]bool   // tasks that others had: the Fetch looks behind them
	behind     []task.ID          // some more of these
	empty      int                // how many passes before this one have found nothing
	moved      bool               // it has got on: more of these are known, or something was ended
	stuck      bool               // nothing but what others had was left
	held       bool               // slots of limits are held back
	looked     map[look]bool      // the looks of this pass, and whether they found anything
	waits      bool               // for others, if need be
	spent      map[task.Hash]bool // limits under which this pass has ended as many as a step may
}

func (f *fetch) pass() error {
	if done, err := f.look(); err != nil || done {
		return err
	}
	f.notAfter = f.r.NotAfter
	if f.looks && len(f.wanted.wakes) > 0 {
		f.again, f.moved = true, true
		return f.txn.look(f.wanted.wakes) // and then the fetch
	}
	return f.giveAll()
}

// giveAll gives what may be given by what was looked at.
func (f *fetch) giveAll() error {
	if err := f.ready(); err != nil {
		return err
	}
	f.pausedSince = list{int64(0)}
	for _, p := range f.pauses {
		f.pausedSince = append(f.pausedSince, micros(p.Since))
	}
	if err := f.dispatchAll(); err != nil {
		return err
	}
	return f.finish()
}

// look reads what concerns the fetch as a whole and the sub-queues that are known. It says whether the fetch is over.
func (f *fetch) look() (done bool, err error) {
	var live, more bool
	var held holding
	var places []subQueueName
	var took int64
	first := f.now.IsZero() // else what was read before is not part of it
	f.rates, f.looked = map[string]*rate{}, map[look]bool{}
	known := f.fetched(f.q.known.names())
	err = f.ask(func(p *packet) []reader {
		ns := f.q.ns
		p.add("this-server", with(f.q.identity)).add("whats-up", ns, []byte(f.r.Worker.Key), nonce(f.r.Worker.Owner), int64(f.r.Worker.Token), ns, ns, ns, ns).add("subqueues", ns)
		readers := append([]reader{func(r *sql.Rows) error { return r.Scan(&live, &held, &more) }, readSubQueueNames(&places)}, f.addSubQueues(p, known)...)
		p.add("took")
		return append(readers, func(r *sql.Rows) error { return r.Scan(&took) })
	})
	if err == nil && first {
		f.q.known.quiet.saw(f.looked, time.Duration(took)*time.Microsecond, time.Now())
	}
	if err == nil && more {
		err = f.ask(func(p *packet) []reader {
			p.add("pauses", f.q.ns).add("rates", f.q.ns)
			return []reader{readPauses(&f.pauses), f.readRate, f.q.addWakes(p, &f.wanted)}
		})
	}
	if err != nil {
		return false, err
	}
	f.txn.worker = f.r.Worker
	f.late = late(f.now, f.r.NotAfter)
	if f.gone = !f.late && !live; f.late || f.gone {
		return true, nil
	}
	if f.held = held != goesOn; f.held {
		f.leave(known)
		if err := f.holdBack(held); err != nil {
			return false, err
		}
	}
	return false, f.lookAgain(known, places)
}

// lookAgain reads the sub-queues that were not known.
func (f *fetch) lookAgain(known []*subQueue, places []subQueueName) error {
	fresh := slices.DeleteFunc(f.fetched(places), func(x *subQueue) bool {
		return slices.ContainsFunc(known, func(y *subQueue) bool { return y.at == x.at })
	})
	if len(fresh) > 0 {
		if err := f.ask(func(p *packet) []reader { return f.addSubQueues(p, fresh) }); err != nil {
			return err
		}
		for _, at := range places {
			f.q.known.subs.Store(at, true)
		}
	}
	f.subs = slices.DeleteFunc(append(known, fresh...), func(l *subQueue) bool {
		return slices.ContainsFunc(f.pauses, func(p driver.Pause) bool { return p.Covers(l.at.queue, l.at.kind, f.now) })
	})
	return nil
}

// names are the sub-queues that this process knows.
func (k *known) names() (all []subQueueName) {
	k.subs.Range(func(at, _ any) bool {
		all = append(all, at.(subQueueName))
		return true
	})
	return all
}

func readSubQueueNames(to *[]subQueueName) reader {
	return func(r *sql.Rows) error {
		var at subQueueName
		err := r.Scan(&at.queue, &at.kind)
		*to = append(*to, at)
		return err
	}
}

// fetched are the places from which the fetch may give.
func (f *fetch) fetched(places []subQueueName) (all []*subQueue) {
	for _, at := range places {
		if slices.Contains(f.r.Queues, at.queue) && (len(f.r.Kinds) == 0 || slices.Contains(f.r.Kinds, at.kind)) {
			all = append(all, &subQueue{at: at})
		}
	}
	return all
}
