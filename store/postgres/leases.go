package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
)

// leases is the lease.Store of one namespace.
type leases struct {
	db *db
	ns string
	// maxTTL is the longest TTL that was seen, in µs. Each acquire and renewal carries it. If the namespace's record
	// is gone, or was made anew with a shorter one, leases of this length may still be held (rule L9).
	maxTTL *atomic.Int64
}

// listed is the most records that List returns, and pageRows is how many rows one statement looks at for some that are
// wanted, where there is no telling how many others lie between them.
const (
	listed   = 10_000
	pageRows = 1000
)

// AcquiresAtOnce: while the commit of one batch waits for the disk, another one is carried out, and both may be
// written with one fsync.
func (leases) AcquiresAtOnce() int { return 2 }

func keyBytes(k lease.Key) []byte { return []byte(k) }

// Acquire asks once more for two kinds of items. The row of a key may be missing: it is made first. Or a key looked
// free and was not granted: another transaction was being granted it at that moment. Both are rare.
func (l leases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	reqs = bounds.Of(reqs)
	if len(reqs) == 1 && reqs[0].Reclaim.Owner == (lease.Nonce{}) && !reqs[0].Key.Once() { // a key that is new has no row
		if r, err := l.acquireLone(ctx, reqs[0]); err != nil || r.Answers != nil {
			return r, err
		}
	}
	g := newGrants()
	if err := l.db.run(ctx, "acquire", l.grant(reqs).each(g.row)); err != nil {
		return lease.Reply{}, err
	}
	if g.known {
		l.maxTTL.Store(max(l.maxTTL.Load(), g.maxTTL.Microseconds()))
	}
	var again []lease.AcquireRequest
	for _, r := range reqs {
		if g.unclear(r) {
			again = append(again, r)
		}
	}
	if len(again) > 0 {
		ensure := do(sqlAcquire()[0], l.ns, column(again, func(r lease.AcquireRequest) []byte { return keyBytes(r.Key) }))
		if err := l.db.run(ctx, "acquire", ensure, l.grant(again).each(g.row)); err != nil {
			return lease.Reply{}, err
		}
		if err := l.reread(ctx, g, again); err != nil {
			return lease.Reply{}, err
		}
	}
	return lease.Reply{Now: g.now, Answers: column(reqs, g.answer), Epoch: g.epoch}, nil
}

// acquireLone grants a lease that is free. It answers nothing if it is not, or if there is anything else to find out.
func (l leases) acquireLone(ctx context.Context, q lease.AcquireRequest) (r lease.Reply, err error) {
	step := do(sqlAcquire()[2], l.ns, keyBytes(q.Key), owner(q.Holder.ID), holderJSON(q.Holder), q.TTL.Microseconds(), micros(q.NotAfter),
		q.Unguarded, l.maxTTL.Load(), int64(min(q.Seen, lease.MaxEpoch)))
	var token, acquired, maxTTL, epoch int64
	found := false
	err = l.db.run(ctx, "acquire", step.each(func(rows pgx.Rows) error {
		found = true
		return rows.Scan(&token, &acquired, &maxTTL, &epoch)
	}))
	if err != nil || !found {
		return r, err
	}
	l.maxTTL.Store(max(l.maxTTL.Load(), maxTTL))
	grant := lease.Record{Token: lease.Token(token), Acquired: instant(acquired)}
	return lease.Reply{Now: grant.Acquired, Answers: []lease.Answer{grantOf(q, grant)}, Epoch: lease.Epoch(epoch)}, nil
}

// grantOf is the answer to a request that was granted. The store returns only what the request does not contain.
func grantOf(q lease.AcquireRequest, got lease.Record) lease.Answer {
	return lease.Answer{Status: lease.OK, Record: lease.Record{Key: q.Key, Owner: q.Holder.ID, Token: got.Token,
		Holder: q.Holder, TTL: q.TTL, Acquired: got.Acquired, Renewed: got.Acquired, Expires: got.Acquired.Add(q.TTL)}}
}

// reread reads the records of keys that are still not granted: the record that was read before was free.
func (l leases) reread(ctx context.Context, g *grants, reqs []lease.AcquireRequest) error {
	var lost []lease.Key
	for _, r := range reqs {
		if g.unclear(r) {
			lost = append(lost, r.Key)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	s := newSnapshot()
	if err := l.db.run(ctx, "acquire", l.read(lost).each(s.row)); err != nil {
		return err
	}
	g.now = s.now
	for key, r := range s.records {
		g.records[key] = r
	}
	return nil
}

// grant is the step of sql/acquire.sql.
func (l leases) grant(reqs []lease.AcquireRequest) step {
	return do(sqlAcquire()[1], l.ns,
		column(reqs, func(r lease.AcquireRequest) []byte { return keyBytes(r.Key) }),
		column(reqs, func(r lease.AcquireRequest) string { return owner(r.Holder.ID) }),
		column(reqs, func(r lease.AcquireRequest) string { return holderJSON(r.Holder) }),
		column(reqs, func(r lease.AcquireRequest) int64 { return r.TTL.Microseconds() }),
		column(reqs, func(r lease.AcquireRequest) int64 { return micros(r.NotAfter) }),
		column(reqs, func(r lease.AcquireRequest) string { return owner(r.Reclaim.Owner) }),
		column(reqs, func(r lease.AcquireRequest) int64 { return int64(r.Reclaim.Token) }),
		column(reqs, func(r lease.AcquireRequest) bool { return r.Unguarded }),
		l.maxTTL.Load(), int64(lease.Seen(reqs)))
}

// grants collects the answer to an acquire: the clock, what the namespace grants, what was granted, and the records
// of the other keys.
type grants struct {
	now       time.Time
	known     bool // what the namespace grants
	holdUntil time.Time
	maxTTL    time.Duration
	epoch     lease.Epoch
	granted   map[lease.Key]lease.Record // token and instant alone
	records   map[lease.Key]lease.Record
}

func newGrants() *grants {
	return &grants{granted: map[lease.Key]lease.Record{}, records: map[lease.Key]lease.Record{}}
}

// row takes in one row of that answer.
func (g *grants) row(rows pgx.Rows) error {
	var (
		now                      int64
		holdUntil, maxTTL, epoch *int64
		token, acquired          *int64
		granted                  *bool
		key                      []byte
	)
	r, found, err := new(recordRow).scan(rows, &now, &holdUntil, &maxTTL, &epoch, &granted, &key, &token, &acquired)
	if err != nil {
		return err
	}
	g.now = instant(now)
	if g.known = holdUntil != nil; g.known {
		g.holdUntil, g.maxTTL = instant(*holdUntil), time.Duration(*maxTTL)*time.Microsecond
		g.epoch = lease.Epoch(*epoch)
	}
	switch {
	case granted != nil && *granted:
		g.granted[lease.Key(key)] = lease.Record{Token: lease.Token(*token), Acquired: instant(*acquired)}
	case found:
		g.records[r.Key] = r
	}
	return nil
}

// unclear reports whether a request was refused for no reason that was read.
func (g *grants) unclear(req lease.AcquireRequest) bool {
	_, granted := g.granted[req.Key]
	r := g.records[req.Key]
	return !granted && !late(g.now, req.NotAfter) &&
		(!g.known || !r.Live(g.now) && !r.BusyUntil.After(g.now) && req.TTL <= g.maxTTL && !g.holdUntil.After(g.now))
}

// answer is the answer to one request.
func (g *grants) answer(req lease.AcquireRequest) lease.Answer {
	if got, ok := g.granted[req.Key]; ok {
		return grantOf(req, got)
	}
	r := g.records[req.Key]
	switch {
	case late(g.now, req.NotAfter):
		return lease.Answer{Status: lease.Late, Record: r}
	case r.Live(g.now) && r.Owner == req.Holder.ID:
		return lease.Answer{Status: lease.OK, Record: r} // the answer to its first request was lost
	case req.TTL > g.maxTTL:
		return lease.Answer{Status: lease.TooLong, Record: r, Until: g.now.Add(g.maxTTL)}
	case g.holdUntil.After(g.now):
		return lease.Answer{Status: lease.HeldBack, Record: r, Until: g.holdUntil}
	}
	return lease.Answer{Status: lease.Held, Record: r}
}

func late(now, notAfter time.Time) bool { return !notAfter.IsZero() && now.After(notAfter) }

// Renew renews in one batch: compare max_ttl, lock, judge, write (see sql/renew.sql).
func (l leases) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	s := newSnapshot()
	err := l.db.run(ctx, "renew",
		do(sqlRenew()[0], l.ns, l.maxTTL.Load()),
		do(sqlRenew()[1], l.ns,
			column(reqs, func(r lease.RenewRequest) []byte { return keyBytes(r.Key) }),
			column(reqs, func(r lease.RenewRequest) string { return owner(r.Owner) }),
			column(reqs, func(r lease.RenewRequest) int64 { return int64(r.Token) }),
			column(reqs, func(r lease.RenewRequest) int64 { return r.TTL.Microseconds() }),
			column(reqs, func(r lease.RenewRequest) int64 { return micros(r.NotAfter) }),
			column(reqs, func(r lease.RenewRequest) int64 { return micros(r.BusyUntil) })).each(s.row))
	return s.reply(err, len(reqs), func(i int) (lease.Key, lease.Status) {
		switch {
		case s.done[reqs[i].Key]:
			return reqs[i].Key, lease.OK
		case late(s.now, reqs[i].NotAfter):
			return reqs[i].Key, lease.Late
		}
		return reqs[i].Key, lease.Gone
	})
}

// reply answers n items with the records as they stand after the operation.
func (s *snapshot) reply(err error, n int, item func(int) (lease.Key, lease.Status)) (lease.Reply, error) {
	if err != nil {
		return lease.Reply{}, err
	}
	r := lease.Reply{Now: s.now, Answers: make([]lease.Answer, n)}
	for i := range r.Answers {
		key, status := item(i)
		r.Answers[i] = lease.Answer{Status: status, Record: s.records[key]}
	}
	return r, nil
}

// Release frees holds (see sql/release.sql). The record of a freed key is not read back: it is free.
func (l leases) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	if len(refs) == 1 && !refs[0].Key.Once() {
		if freed, err := l.releaseLone(ctx, refs[0]); err != nil || freed {
			return lease.Reply{Answers: []lease.Answer{{Status: lease.OK, Record: freedRecord(refs[0])}}}, err
		}
	}
	s := newSnapshot()
	err := l.db.run(ctx, "release", l.release(refs, true).each(s.freed))
	for _, r := range refs {
		if s.done[r.Key] {
			s.records[r.Key] = freedRecord(r)
		}
	}
	return s.reply(err, len(refs), func(i int) (lease.Key, lease.Status) { return refs[i].Key, s.status(refs[i].Key) })
}

// freedRecord is the record of a hold that was released.
func freedRecord(r lease.Ref) lease.Record {
	return lease.Record{Key: r.Key, Owner: r.Owner, Token: r.Token}
}

// releaseLone releases a hold. It returns false if there is anything to find out about it.
func (l leases) releaseLone(ctx context.Context, r lease.Ref) (freed bool, err error) {
	step := do(sqlRelease()[1], l.ns, keyBytes(r.Key), owner(r.Owner), int64(r.Token))
	err = l.db.run(ctx, "release", step.each(func(pgx.Rows) error {
		freed = true
		return nil
	}))
	return freed, err
}

// release is the step of sql/release.sql. unsynced: its commit may be lost with the server, as long as that only
// costs a hold that has to lapse.
func (l leases) release(refs []lease.Ref, unsynced bool) step {
	return do(sqlRelease()[0], l.ns,
		column(refs, func(r lease.Ref) []byte { return keyBytes(r.Key) }),
		column(refs, func(r lease.Ref) string { return owner(r.Owner) }),
		column(refs, func(r lease.Ref) int64 { return int64(r.Token) }),
		column(refs, func(r lease.Ref) bool { return r.Key.Once() }), unsynced)
}

// status is OK for a key to which it was done.
func (s *snapshot) status(key lease.Key) lease.Status {
	if s.done[key] {
		return lease.OK
	}
	return lease.Gone
}

func (l leases) RequestRelease(ctx context.Context, ref lease.Ref, by lease.Holder) (lease.Reply, error) {
	by = bounds.Of(by)
	return l.one(ctx, "ask", ref.Key,
		do(sqlAsk(), l.ns, keyBytes(ref.Key), owner(ref.Owner), int64(ref.Token), toJSON(by)))
}

func (l leases) Break(ctx context.Context, ref lease.Ref, b lease.Broken) (lease.Reply, error) {
	b = bounds.Of(b)
	return l.one(ctx, "break", ref.Key,
		do(sqlBreak(), l.ns, keyBytes(ref.Key), owner(ref.Owner), int64(ref.Token), toJSON(b), b.Now))
}

// one carries out a step that returns the record of key if it did something, and reads the record.
func (l leases) one(ctx context.Context, what string, key lease.Key, act step) (lease.Reply, error) {
	did, s := newSnapshot(), newSnapshot()
	err := l.db.run(ctx, what, act.each(did.row), l.read([]lease.Key{key}).each(s.row))
	return s.reply(err, 1, func(int) (lease.Key, lease.Status) { return key, did.status(key) })
}

func (l leases) Trim(ctx context.Context, keys []lease.Key) error {
	return l.db.run(ctx, "trim", do(sqlTrim(), l.ns, column(keys, keyBytes), lease.MaxStep.Microseconds()))
}

func (l leases) read(keys []lease.Key) step { return do(sqlRead(), l.ns, column(keys, keyBytes)) }

func (l leases) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	s := newSnapshot()
	err := l.db.run(ctx, "read", l.read(keys).each(s.row))
	return s.reply(err, len(keys), func(i int) (lease.Key, lease.Status) { return keys[i], s.status(keys[i]) })
}

// List reads page by page: no statement reads many records that nobody asked for.
func (l leases) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	s := newSnapshot()
	for next, to := []byte(prefix), beyond(prefix); next != nil && len(s.order) < listed; {
		page := listing{snapshot: s}
		if err := l.db.run(ctx, "list", do(sqlList(), l.ns, next, to, all, pageRows).each(page.row)); err != nil {
			return lease.Reply{}, err
		}
		next = page.next()
	}
	s.order = s.order[:min(len(s.order), listed)]
	return s.reply(nil, len(s.order), func(i int) (lease.Key, lease.Status) { return s.order[i], lease.OK })
}
