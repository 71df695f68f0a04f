package mysql

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
)

// hold is a Ref as the statements renew and release compare it.
func hold(r lease.Ref) []byte {
	return []byte(r.Owner.String() + strconv.FormatInt(int64(r.Token), 10) + "/" + string(r.Key))
}

func holdsOf(refs []lease.Ref) (ks, hs list) {
	ks = keys(refs, func(r lease.Ref) lease.Key { return r.Key })
	for _, r := range refs {
		hs = append(hs, hold(r))
	}
	return ks, hs
}

// terms are what a heartbeat asks for. Leases of one process mostly ask for the same, and each distinct terms cost
// one statement however many leases there are.
type terms struct {
	ttl                 time.Duration
	notAfter, busyUntil int64
}

func (l leases) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	return batch(reqs, func(reqs []lease.RenewRequest) (lease.Reply, error) { return l.renew(ctx, reqs) })
}

// renew is one packet for a chunk of a heartbeat.
func (l leases) renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	ks := keys(reqs, func(r lease.RenewRequest) lease.Key { return r.Key })
	alike := map[terms][]lease.Ref{}
	for _, r := range reqs {
		t := terms{r.TTL, bound(r.NotAfter), micros(r.BusyUntil)}
		alike[t] = append(alike[t], r.Ref)
	}
	if len(reqs) == 1 {
		reply, done, err := l.renewOne(ctx, reqs[0])
		if err != nil {
			return lease.Reply{}, fmt.Errorf("renew: %w", err)
		}
		if done {
			return reply, nil
		} // else what follows finds out why
	}
	p := l.locked(new(packet), ks)
	for t, refs := range alike {
		ttl := t.ttl.Microseconds()
		some, hs := holdsOf(refs)
		p.add("renew", ttl, ttl, t.busyUntil, l.ns, some, hs, t.notAfter)
	}
	var us, longest int64
	found := records{}
	p.add("told", with("renewed", with("longest", l.ns)), l.ns, ks).add("commit")
	if err := l.run(ctx, p, found.beside(&us, &longest)); err != nil {
		return lease.Reply{}, fmt.Errorf("renew: %w", err)
	}
	l.lost(ctx, longest)
	now := instant(us)
	reply := lease.Reply{Now: now}
	for _, r := range reqs {
		rec := found[r.Key]
		a := lease.Answer{Status: lease.Gone, Record: rec}
		switch {
		case !r.NotAfter.IsZero() && now.After(r.NotAfter):
			a.Status = lease.Late
		case holds(rec, r.Ref) && rec.Renewed.Equal(now) && rec.Broken == nil:
			a.Status = lease.OK
		}
		reply.Answers = append(reply.Answers, a)
	}
	return reply, nil
}

// lost holds grants back if the data was lost. Holders that still come are refused, but others may be cut off. If
// this is not answered, the next heartbeat does it again.
func (l leases) lost(ctx context.Context, longest int64) {
	if longest < l.maxTTL.Load() {
		_ = l.holdBack(ctx, new(allowance), 0)
	}
}

// committed ends a packet whose one change is a transaction by itself, in a session that autocommits.
func (d *database) committed(p *packet) *packet {
	if d.shared {
		p.add("commit")
	}
	return p
}

// renewOne renews one lease. done is false if it did not, or if the record is another one by now.
func (l leases) renewOne(ctx context.Context, r lease.RenewRequest) (reply lease.Reply, done bool, err error) {
	ttl, key, now := r.TTL.Microseconds(), []byte(r.Key), with("evaluated")
	p := new(packet).add("renew-one", ttl, now, ttl, micros(r.BusyUntil), l.ns, key, nonce(r.Owner), int64(r.Token), now, now, bound(r.NotAfter))
	l.committed(p.add("told", with("renewed-one", with("longest", l.ns)), l.ns, list{key}))
	var n, longest int64
	found := records{}
	if err := l.run(ctx, p, found.beside(&n, &longest)); err != nil {
		return lease.Reply{}, false, err
	}
	rec := found[r.Key]
	if n != 1 || !holds(rec, r.Ref) || rec.Broken != nil {
		return lease.Reply{}, false, nil
	}
	l.lost(ctx, longest)
	return lease.Reply{Now: rec.Renewed, Answers: []lease.Answer{{Status: lease.OK, Record: rec}}}, true, nil
}

func (l leases) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	return batch(refs, func(refs []lease.Ref) (lease.Reply, error) { return l.release(ctx, refs) })
}

// addRelease appends the release of refs, whose rows are locked.
func (d *database) addRelease(p *packet, refs []lease.Ref) {
	ks, hs := holdsOf(refs)
	p.add("release", d.ns, ks, hs)
	once := slices.DeleteFunc(slices.Clone(refs), func(r lease.Ref) bool { return !r.Key.Once() })
	if len(once) > 0 {
		ks, hs = holdsOf(once)
		p.add("bury", d.ns, ks, hs)
	}
}

func (l leases) release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	if len(refs) == 1 && !refs[0].Key.Once() {
		return l.releaseOne(ctx, refs[0])
	}
	ks, _ := holdsOf(refs)
	p := l.locked(new(packet), ks)
	held := records{}
	p.add("records", l.ns, ks)
	l.addRelease(p, refs)
	now, found, err := l.finish(ctx, p, ks, held.read)
	if err != nil {
		return lease.Reply{}, fmt.Errorf("release: %w", err)
	}
	reply := lease.Reply{Now: now}
	for _, r := range refs {
		a := lease.Answer{Status: lease.Gone, Record: found[r.Key]}
		if holds(held[r.Key], r) {
			a.Status = lease.OK
		}
		reply.Answers = append(reply.Answers, a)
	}
	return reply, nil
}

// releaseOne releases one lease in a transaction by itself.
func (l leases) releaseOne(ctx context.Context, ref lease.Ref) (lease.Reply, error) {
	ks, hs := holdsOf([]lease.Ref{ref})
	p := l.committed(new(packet).add("release", l.ns, ks, hs).add("told", with("released-one", with("began")), l.ns, ks))
	var n, us int64
	found := records{}
	if err := l.run(ctx, p, found.beside(&n, &us)); err != nil {
		return lease.Reply{}, fmt.Errorf("release: %w", err)
	}
	a := lease.Answer{Status: lease.Gone, Record: found[ref.Key]}
	if n == 1 {
		a.Status = lease.OK
	}
	return lease.Reply{Now: instant(us), Answers: []lease.Answer{a}}, nil
}

// RequestRelease writes a Replace request on a live hold (rule T7).
func (l leases) RequestRelease(ctx context.Context, ref lease.Ref, by lease.Holder) (lease.Reply, error) {
	by = bounds.Of(by)
	ks := list{[]byte(ref.Key)}
	p := l.locked(new(packet), ks).add("ask", toJSON(by), l.ns, []byte(ref.Key), nonce(ref.Owner), int64(ref.Token))
	now, found, err := l.finish(ctx, p, ks)
	if err != nil {
		return lease.Reply{}, fmt.Errorf("ask: %w", err)
	}
	rec := found[ref.Key]
	a := lease.Answer{Status: lease.Gone, Record: rec}
	if holds(rec, ref) && rec.Live(now) && rec.Holder.Replaceable {
		a.Status = lease.OK
	}
	return lease.Reply{Now: now, Answers: []lease.Answer{a}}, nil
}

// Break breaks a live hold (rule L5).
func (l leases) Break(ctx context.Context, ref lease.Ref, b lease.Broken) (lease.Reply, error) {
	b = bounds.Of(b)
	ks, at := list{[]byte(ref.Key)}, flag(b.Now)
	b.At = time.Time{} // a column of its own, which the store sets
	p := l.locked(new(packet), ks).add("break", toJSON(b), at, at, at, l.ns, []byte(ref.Key),
		flag(ref.Owner != lease.Nonce{}), nonce(ref.Owner), int64(ref.Token))
	now, found, err := l.finish(ctx, p, ks)
	if err != nil {
		return lease.Reply{}, fmt.Errorf("break: %w", err)
	}
	rec := found[ref.Key]
	a := lease.Answer{Status: lease.Gone, Record: rec}
	mine := ref.Owner == lease.Nonce{} || rec.Ref() == ref
	if mine && rec.Broken != nil && rec.Broken.At.Equal(now) {
		a.Status = lease.OK
	}
	return lease.Reply{Now: now, Answers: []lease.Answer{a}}, nil
}

func (l leases) Trim(ctx context.Context, all []lease.Key) error {
	for chunk := range slices.Chunk(all, most) {
		ks := keys(chunk, func(k lease.Key) lease.Key { return k })
		p := l.locked(new(packet), ks).add("trim", l.ns, ks, lease.MaxStep.Microseconds()).add("commit")
		if err := l.run(ctx, p); err != nil {
			return fmt.Errorf("trim: %w", err)
		}
	}
	return nil
}
