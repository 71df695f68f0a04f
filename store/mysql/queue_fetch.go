package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
)

// Fetch fulfils queue.Store. It goes in passes, each a step of its own: what was met in one may have let others in.
func (q queues) Fetch(ctx context.Context, r queue.FetchRequest) (out queue.Fetch, err error) {
	id, err := q.workerID(ctx, r.Worker)
	if err != nil {
		return out, fmt.Errorf("fetch: %w", err)
	}
	for n, vain := 0, 0; vain < 3; n++ {
		var f *fetch
		err = q.step(ctx, func(b *board) error {
			f = &fetch{board: b, r: r, id: id, given: out.Tasks, first: n == 0}
			return f.pass()
		})
		if err != nil {
			if len(out.Tasks) > 0 {
				return out, nil // these are given
			}
			return out, fmt.Errorf("fetch: %w", err)
		}
		if len(out.Tasks) == 0 {
			out.Now, out.Late, out.Gone = f.now, f.late, f.gone
		}
		out.NextDue = f.nextDue
		out.Tasks = append(out.Tasks, f.granted...)
		if !f.again || len(out.Tasks) >= r.Max {
			break
		}
		if len(f.granted) == 0 {
			vain++
		}
	}
	return out, nil
}

// A fetch is one pass of a Fetch.
type fetch struct {
	*board
	r          queue.FetchRequest
	id         int64 // the worker's row
	first      bool
	late, gone bool
	given      []queue.Fetched // by earlier passes
	granted    []queue.Fetched // by this one
	plain      list            // those that this pass tries to get beside them
	suspect    bool            // one was given
	again      bool            // another pass may find more
	nextDue    time.Time
	pauses     []queue.Pause
	lanes      []place
	wanted     []wake
	found      []candidate
}

// candidate is a task that may be given.
type candidate struct {
	id      queue.ID
	place   place
	ordinal int
	class   int
	limited bool
	expires int64
}

func (f *fetch) pass() error {
	if done, err := f.look(); err != nil || done {
		return err
	}
	f.notAfter = f.r.NotAfter
	if f.first && len(f.wanted) > 0 {
		f.again = true
		return f.board.look(f.wanted) // and then the fetch
	}
	if err := f.ready(); err != nil {
		return err
	}
	f.unpaused = true
	if err := f.meetAll(); err != nil {
		return err
	}
	return f.finish()
}

// look reads what concerns the fetch as a whole, and says whether that ends it.
func (f *fetch) look() (done bool, err error) {
	var live bool
	f.rates = map[string]*rate{}
	err = f.ask(func(p *packet) []reader {
		ns := f.q.ns
		p.add("live-worker", ns, []byte(f.r.Worker.Key), nonce(f.r.Worker.Owner), int64(f.r.Worker.Token))
		p.add("lanes", ns).add("pauses", ns).add("rates", ns).add("wakes", ns)
		return []reader{func(r *sql.Rows) error { return r.Scan(&live) }, readPlaces(&f.lanes), readPauses(&f.pauses), f.readRate, readWakes(&f.wanted)}
	})
	if err != nil {
		return false, err
	}
	f.board.worker = f.r.Worker
	f.late = late(f.now, f.r.NotAfter)
	f.gone = !f.late && !live
	return f.late || f.gone, nil
}

func readPlaces(to *[]place) reader {
	return func(r *sql.Rows) error {
		var at place
		err := r.Scan(&at.queue, &at.kind)
		*to = append(*to, at)
		return err
	}
}

// open are the lanes of the fetch, in the order of its queues.
func (f *fetch) open() (all []place) {
	for _, name := range f.r.Queues {
		for _, at := range f.lanes {
			if at.queue == name && (len(f.r.Kinds) == 0 || slices.Contains(f.r.Kinds, at.kind)) && !f.paused(at) && !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	return all
}

func (f *fetch) paused(at place) bool {
	return slices.ContainsFunc(f.pauses, func(p queue.Pause) bool { return p.Covers(at.queue, at.kind, f.now) })
}

const mostDue = 1000

// ready makes what is due available, and reads the first of what is.
func (f *fetch) ready() error {
	lanes := f.open()
	if len(lanes) == 0 {
		return nil
	}
	var due, ripe list
	var limited []queue.ID
	err := f.ask(func(p *packet) (readers []reader) {
		for _, at := range lanes {
			lane := laneNumber(at)
			p.add("due", f.q.ns, lane, mostDue).add("next-due", f.q.ns, lane)
			readers = append(readers, func(r *sql.Rows) error {
				var id, ver int64
				var inLine bool
				err := r.Scan(&id, &ver, &inLine)
				if due = append(due, id); inLine {
					limited = append(limited, queue.ID(id))
				} else {
					ripe = append(ripe, id)
				}
				return err
			}, f.readNext)
			readers = append(readers, f.addReady(p, lane)...)
		}
		return readers
	})
	if err != nil || len(due) == 0 {
		return err
	}
	if err := f.q.ripen(f.ctx, ripe); err != nil {
		return err
	}
	if len(limited) > 0 {
		err := f.q.step(f.ctx, func(b *board) error { _, err := b.ripen(limited[:min(len(limited), 200)]); return err })
		if err != nil {
			return err
		}
	}
	f.found = nil
	return f.ask(func(p *packet) (readers []reader) {
		for _, at := range lanes {
			readers = append(readers, f.addReady(p, laneNumber(at))...)
		}
		return readers
	})
}

func (f *fetch) readNext(r *sql.Rows) error {
	var next int64
	err := r.Scan(&next)
	if at := instant(next); next != 0 && (f.nextDue.IsZero() || at.Before(f.nextDue)) {
		f.nextDue = at
	}
	return err
}

// addReady asks for more than there is room for: others are fetching the same.
func (f *fetch) addReady(p *packet, lane int64) (readers []reader) {
	for class := range 3 {
		want := min(2*(f.r.Max-len(f.given))+20, 1000)
		if class > 0 {
			want = 5
		}
		if !f.wants(class) {
			continue
		}
		p.add("ready", f.q.ns, lane, class, want)
		readers = append(readers, func(r *sql.Rows) error {
			var c candidate
			err := r.Scan(&c.id, &c.place.queue, &c.place.kind, &c.ordinal, &c.class, &c.limited, &c.expires)
			f.found = append(f.found, c)
			return err
		})
	}
	return readers
}

// ripen makes tasks without a limit available, as far as they are due and nobody has them.
func (q queues) ripen(ctx context.Context, ids list) error {
	if len(ids) == 0 {
		return nil
	}
	p := new(packet).add("fresh").add("begin").add("clock").add("ripe", ids).add("decide")
	return q.run(ctx, p)
}

// ripen makes those available whose instant has come.
func (b *board) ripen(ids []queue.ID) (n int, err error) {
	if err := b.load(ids); err != nil {
		return 0, err
	}
	for _, id := range ids {
		t := b.tasks[id]
		if t == nil || b.locked[id] || t.State != queue.Scheduled && t.State != queue.Retryable || t.RunAt.After(b.now) {
			continue
		}
		if err := b.wait(t, t.State); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

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

func (f *fetch) room() int { return f.r.Max - len(f.given) - len(f.granted) - len(f.plain) }

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
		case f.easy(c):
			f.plain = append(f.plain, int64(c.id))
			continue
		}
		t, err := f.get(c.id)
		if err != nil {
			return err
		}
		if t == nil || t.State != queue.Available {
			continue
		}
		if err := f.meet(t, rate); err != nil {
			return err
		}
	}
	return nil
}

// easy says that the packet can take the task where nobody else does, whatever else it decides.
func (f *fetch) easy(c candidate) bool {
	return c.class == 0 && !c.limited && f.rates[c.place.kind] == nil && (c.expires == 0 || c.expires > micros(f.now))
}

// preload reads at once what the candidates that are not easy need.
func (f *fetch) preload() error {
	var ids []queue.ID
	room := f.room()
	for _, c := range f.found {
		if len(ids) < room && !f.easy(c) && !f.locked[c.id] {
			ids = append(ids, c.id)
		}
	}
	if err := f.load(ids); err != nil {
		return err
	}
	var hashes list
	for h, l := range f.limits {
		if l.ver == 0 {
			hashes = append(hashes, h[:])
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	if err := f.loadLimits(hashes); err != nil {
		return err
	}
	var inLine []*limit
	for _, l := range f.limits {
		if l.ver != 0 {
			inLine = append(inLine, l)
		}
	}
	return f.readAhead(inLine)
}

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
	if t.queues() {
		// A transaction may have left it here without looking at the line.
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

// claims are plain tasks that a packet takes, as far as nobody else has.
type claims struct {
	worker int64
	want   int
	queues list
	ids    list
	got    []*task
}

func (c *claims) add(p *packet, b *board) []reader {
	if c == nil {
		return nil
	}
	p.add("claim-tasks", c.queues, c.ids, c.want, c.worker).add("claimed-prefix", statements()["task-columns"])
	return []reader{func(r *sql.Rows) error {
		t, err := readTask(r)
		c.got = append(c.got, t)
		return err
	}}
}

// finish takes what is easy, and puts everything in order.
func (f *fetch) finish() error {
	if len(f.plain) > 0 {
		c := &claims{worker: f.id, want: len(f.plain)}
		for _, name := range f.r.Queues {
			c.queues = append(c.queues, []byte(name))
		}
		for _, x := range f.found {
			if f.easy(x) {
				c.ids = append(c.ids, int64(x.id))
			}
		}
		f.claims = c
	}
	hard := len(f.granted)
	if err := f.carryOut(); err != nil {
		return err
	}
	if f.claims != nil {
		for _, t := range f.claims.got {
			f.granted = append(f.granted, t.fetched())
		}
		// Others were faster: there may be more behind.
		f.again = f.again || len(f.granted)-hard < f.claims.want
	}
	place := map[queue.ID]int{}
	for i, c := range f.found {
		place[c.id] = i
	}
	slices.SortStableFunc(f.granted, func(a, b queue.Fetched) int { return cmp.Compare(place[a.ID], place[b.ID]) })
	return nil
}

// A rate is how many tasks of a kind may be fetched, as a bucket that fills with time.
type rate struct {
	ver   int64
	each  time.Duration // the time that one task costs
	burst time.Duration // how far ahead of now full may be
	full  time.Time     // when the bucket is full again
	used  bool
}

func (r *rate) ready(now time.Time) bool { return r.full.Add(r.each).Sub(now) <= r.burst }

func (r *rate) take(now time.Time) {
	if r.full.Before(now) {
		r.full = now
	}
	r.full, r.used = r.full.Add(r.each), true
}

func (f *fetch) readRate(r *sql.Rows) error {
	var kind string
	var x rate
	var full int64
	err := r.Scan(&kind, &x.ver, &x.each, &x.burst, &full)
	x.full = instant(full)
	f.rates[kind] = &x
	return err
}

// Declare fulfils queue.Store.
func (q queues) Declare(ctx context.Context, rates map[string]queue.Rate) error {
	if len(rates) == 0 {
		return nil
	}
	p := new(packet).add("begin")
	for _, kind := range sortedKeys(rates) {
		r := rates[kind]
		if r.Count <= 0 || r.Per <= 0 {
			p.add("drop-rate", q.ns, []byte(kind))
			continue
		}
		burst := r.Burst
		if burst <= 0 {
			burst = r.Count
		}
		each := int64(r.Per / time.Duration(r.Count))
		p.add("set-rate", q.ns, []byte(kind), each, each*int64(burst), each, each*int64(burst))
	}
	if err := q.run(ctx, p.add("commit")); err != nil {
		return fmt.Errorf("declare: %w", err)
	}
	return nil
}
