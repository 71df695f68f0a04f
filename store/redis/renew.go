package redis

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// Renew keeps a heartbeat small: the terms are sent once, and only items that are not simply renewed are answered.
// For a hold that is renewed here for the first time the whole record is asked for, since its holder and its start
// never change.
func (l leases) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	out := lease.Reply{Answers: make([]lease.Answer, 0, len(reqs))}
	err := inBatches(reqs, func(reqs []lease.RenewRequest) error {
		facts := l.known.lookUp(reqs)
		r, err := l.run(ctx, "renew", renewScript, l.renewArgs(reqs, facts))
		if err != nil {
			return err
		}
		out.Now = r.time(0)
		first := len(out.Answers)
		for i, q := range reqs {
			out.Answers = append(out.Answers, lease.Answer{Status: lease.OK, Record: renewed(q, facts[i], out.Now)})
		}
		for i := 2; i < len(r); i++ {
			x := r.list(i)
			n := int(x.int(0))
			out.Answers[first+n] = l.told(reqs[n], r, x)
		}
		return nil
	})
	return out, err
}

func (l leases) renewArgs(reqs []lease.RenewRequest, facts []grant) args {
	a := append(l.newArgs(3+4*len(reqs)), freshID(), l.layout, l.maxTTL.Load())
	for i, q := range reqs {
		t := ""
		if i == 0 || !sameTerms(q, reqs[i-1]) {
			t = terms(q)
		}
		a = append(a, string(q.Key), hold(q.Ref), t, flag(!facts[i].known()))
	}
	return a
}

func sameTerms(a, b lease.RenewRequest) bool {
	return a.TTL == b.TTL && a.NotAfter.Equal(b.NotAfter) && a.BusyUntil.Equal(b.BusyUntil)
}

func terms(q lease.RenewRequest) string {
	b := strconv.AppendInt(nil, q.TTL.Microseconds(), 10)
	b = strconv.AppendInt(append(b, ' '), micros(q.NotAfter), 10)
	return string(strconv.AppendInt(append(b, ' '), micros(q.BusyUntil), 10))
}

// renewed is the record of a plain renewal.
func renewed(q lease.RenewRequest, g grant, now time.Time) lease.Record {
	ttl := duration(q.TTL.Microseconds())
	return lease.Record{
		Key: q.Key, Owner: q.Owner, Token: q.Token, Holder: g.holder, TTL: ttl,
		Acquired: g.acquired, Renewed: now, Expires: now.Add(ttl), BusyUntil: instant(micros(q.BusyUntil)),
	}
}

// told reads an answer that carries its record.
func (l leases) told(q lease.RenewRequest, r, x reply) lease.Answer {
	a := lease.Answer{Status: lease.Status(x.int(1)), Record: parseRecord(q.Key, x.list(2))}
	switch a.Status {
	case lease.OK:
		l.known.add(q.Ref, grant{a.Record.Holder, a.Record.Acquired})
	case lease.Gone:
		l.known.drop(q.Ref)
	case lease.TooLong:
		a.Until = r.time(0).Add(duration(r.int(1)))
	}
	return a
}

// A grant is what never changes about a hold.
type grant struct {
	holder   lease.Holder
	acquired time.Time
}

func (g grant) known() bool { return !g.acquired.IsZero() }

// grants remembers the holds that are renewed through this store. A hold that it does not know costs
// a longer answer and nothing else.
type grants struct {
	mu sync.Mutex
	m  map[lease.Ref]grant
}

// maxGrants bounds what holds that were renewed here, and released elsewhere, can take up.
const maxGrants = 1 << 16

func (g *grants) lookUp(reqs []lease.RenewRequest) []grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := make([]grant, len(reqs))
	for i, q := range reqs {
		found[i] = g.m[q.Ref]
	}
	return found
}

func (g *grants) add(ref lease.Ref, found grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.m) >= maxGrants {
		clear(g.m)
	}
	g.m[ref] = found
}

func (g *grants) drop(refs ...lease.Ref) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ref := range refs {
		delete(g.m, ref)
	}
}
