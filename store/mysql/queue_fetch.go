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
	fresh := !q.known.subs.complete()
	var turn turn
	looks, last := true, int64(math.MaxInt64) // at wakes, up to which one
	for n, vain, empty := 0, 0, 0; vain < 3; n++ {
		var f *fetch
		err = q.step(ctx, func(b *txn) error {
			f = &fetch{txn: b, r: r, id: m.id, given: out.Tasks, busy: busy, passed: passed, empty: empty, waits: vain == 2}
			for i := range out.Tasks {
				f.bytes += len(out.Tasks[i].Args)
			}
			f.looks, f.wanted.last, f.turn = looks, last, turn
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
		looks, last, turn = false, f.wanted.last, f.turn
		switch {
		case len(out.Tasks) > 0 || f.again || f.late || f.gone:
		case len(f.wanted.wakes) > 0:
			f.again, looks = true, true // there may be something under other limits
		case len(passed) > 0:
			f.again, f.stuck = true, true // these may be free by now
		}
		if f.sated && len(out.Tasks) > 0 {
			out.NextDue = out.Now
			break
		}
		f.again, f.moved = f.again || f.sated, f.moved || f.sated
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
	if fresh && !q.known.subs.complete() {
		out.NextDue = out.Now // there are sub-queues of which this process does not know yet
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
	turn       turn
	wanted     wanted
	found      []candidate
	busy       map[task.Hash]bool // limits that others had
	passed     map[task.ID]bool   // tasks that others had: the Fetch looks behind them
	behind     []task.ID          // some more of these
	empty      int                // how many passes before this one have found nothing
	moved      bool               // it has got on: more of these are known, or something was ended
	bytes      int                // of the arguments of those that were given
	sated      bool               // there is another one, and its arguments are too many
	heavy      map[task.ID]bool   // those that were not read, because of that
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
	f.kinds = map[string]bool{}
	for _, c := range f.found {
		f.kinds[c.name.kind] = true
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
	learn := func() []subQueueName { return nil }
	var took int64
	first := f.now.IsZero() // else what was read before is not part of it
	f.rates, f.looked = map[string]*rate{}, map[look]bool{}
	learns := f.turn.fits == nil // the first pass reads the next names
	if learns {
		f.turn.fits = fits(&f.r)
		f.turn.names = f.q.known.subs.turn("fetch", f.turn.fits, f.q.known.quiet.isBusy)
	}
	known, asked := subQueuesOf(f.turn.names), time.Now()
	err = f.ask(func(p *packet) []reader {
		ns := f.q.ns
		p.add("this-server", with(f.q.identity)).add("whats-up", ns, []byte(f.r.Worker.Key), nonce(f.r.Worker.Owner), int64(f.r.Worker.Token), ns, ns, ns, ns)
		readers := []reader{func(r *sql.Rows) error { return r.Scan(&live, &held, &more) }}
		if learns {
			var names reader
			names, learn = f.q.known.subs.addNames(p, ns)
			readers = append(readers, names)
		}
		readers = append(readers, f.addSubQueues(p, known)...)
		p.add("took")
		return append(readers, func(r *sql.Rows) error { return r.Scan(&took) })
	})
	if err == nil && first {
		f.q.known.quiet.saw(f.looked, time.Duration(took)*time.Microsecond, time.Now())
		f.q.known.quiet.turned(f.looked, asked)
	}
	if err != nil {
		return false, err
	}
	learned := learn()
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
	if known, err = f.lookAgain(known, learned); err != nil {
		return false, err
	}
	if more {
		err = f.lookBeside(known)
	}
	f.subs = slices.DeleteFunc(known, func(l *subQueue) bool {
		return slices.ContainsFunc(f.pauses, func(p driver.Pause) bool { return p.Covers(l.at.queue, l.at.kind, f.now) })
	})
	return false, err
}

// lookBeside reads what else concerns sub-queues.
func (f *fetch) lookBeside(subs []*subQueue) error {
	kinds := map[string]bool{}
	for _, l := range subs {
		kinds[l.at.kind] = true
	}
	return f.ask(func(p *packet) []reader {
		p.add("pauses", f.q.ns).add("rates-of", f.q.ns, kindList(kinds))
		return []reader{readPauses(&f.pauses), f.readRate, f.q.addWakes(p, &f.wanted)}
	})
}

func kindList(kinds map[string]bool) list {
	all := list{[]byte{}} // a list is not empty
	for _, kind := range sortedKeys(kinds) {
		all = append(all, []byte(kind))
	}
	return all
}

// lookAgain also reads the sub-queues that were not known, as far as there is room for more.
func (f *fetch) lookAgain(known []*subQueue, learned []subQueueName) ([]*subQueue, error) {
	learned = slices.DeleteFunc(learned, func(at subQueueName) bool { return !f.turn.fits(at) })
	learned = learned[:min(len(learned), max(mostLooked-len(known), 0))]
	if len(learned) == 0 {
		return known, nil
	}
	fresh := subQueuesOf(learned)
	f.turn.names = append(f.turn.names, learned...)
	err := f.ask(func(p *packet) []reader { return f.addSubQueues(p, fresh) })
	return append(known, fresh...), err
}

func subQueuesOf(names []subQueueName) []*subQueue {
	subs := make([]*subQueue, len(names))
	for i, at := range names {
		subs[i] = &subQueue{at: at}
	}
	return subs
}
