package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
)

// leases is lease.Store. Each of its methods sends one packet per 500 items:
//
//	START TRANSACTION; lock the rows, in the order of the primary key;
//	read the clock; change; read the records back; COMMIT
//
// An acquire whose rows are missing makes them before that. The statements decide and answer nothing. The records,
// read under the locks, show what was decided; Go only puts the reason of a refusal into words.
//
// An idle server renews and releases one lease at a time, several times per TTL. For one row a statement is a
// transaction, and the number of rows that it found says what it did: these are packets of two statements.
type leases struct{ *database }

// most is how many items travel in one packet (rule L4).
const most = 500

// allowance is what the server may grant now (rule L9).
type allowance struct {
	now    time.Time
	until  time.Time     // nothing is granted before it
	maxTTL time.Duration // negative: nothing can be granted before the namespace was looked at
	epoch  lease.Epoch
	locked int // rows
}

// batch applies do to chunks of items and joins the answers. The reply's time is the first chunk's.
func batch[T any](items []T, do func([]T) (lease.Reply, error)) (reply lease.Reply, err error) {
	for chunk := range slices.Chunk(items, most) {
		r, err := do(chunk)
		if err != nil {
			return lease.Reply{}, err
		}
		if reply.Now.IsZero() {
			reply.Now = r.Now
		}
		reply.Answers, reply.Epoch = append(reply.Answers, r.Answers...), max(reply.Epoch, r.Epoch)
	}
	return reply, nil
}

// locked begins a packet that holds the rows of ks and has read the clock.
func (l leases) locked(p *packet, ks list) *packet {
	return p.add("begin").add("lock-leases", l.ns, ks).add("clock")
}

// finish ends a packet with the records of ks, sends it, and returns the store's time with them. before reads what the
// packet selects earlier.
func (l leases) finish(ctx context.Context, p *packet, ks list, before ...reader) (time.Time, records, error) {
	var us int64
	found := records{}
	p.add("told", with("decided"), l.ns, ks).add("commit")
	err := l.run(ctx, p, append(before, found.beside(&us))...)
	return instant(us), found, err
}

func readInstant(t *time.Time) reader {
	return func(r *sql.Rows) error {
		var us int64
		err := r.Scan(&us)
		*t = instant(us)
		return err
	}
}

func (l leases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	reqs = bounds.Of(reqs)
	return batch(reqs, func(reqs []lease.AcquireRequest) (lease.Reply, error) { return l.acquire(ctx, reqs) })
}

// acquire makes the rows of keys that are used once. Other rows are mostly there, and are made only if they are
// missing.
func (l leases) acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	once := slices.ContainsFunc(reqs, func(r lease.AcquireRequest) bool { return r.Key.Once() })
	may, found, err := l.grant(ctx, reqs, once)
	if err == nil && !once && may.locked < len(reqs) {
		may, found, err = l.grant(ctx, reqs, true) // none was granted
	}
	if err != nil {
		return lease.Reply{}, fmt.Errorf("acquire: %w", err)
	}
	if may.maxTTL < 0 {
		if err := l.holdBack(ctx, &may, lease.Seen(reqs)); err != nil {
			return lease.Reply{}, fmt.Errorf("acquire: %w", err)
		}
	}
	l.maxTTL.Store(max(l.maxTTL.Load(), may.maxTTL.Microseconds()))
	reply := lease.Reply{Now: may.now, Epoch: may.epoch, Answers: make([]lease.Answer, len(reqs))}
	for i, r := range reqs {
		reply.Answers[i] = may.answer(r, found[r.Key])
	}
	return reply, nil
}

// grant sends the packet of an acquire, and returns what it was allowed to do and the records as they stand. If it
// makes no rows, it grants only if all of them are there: the INSERT of a row that another transaction makes after
// the locks could wait after the clock was read.
func (l leases) grant(ctx context.Context, reqs []lease.AcquireRequest, makes bool) (may allowance, found records, err error) {
	ks := keys(reqs, func(r lease.AcquireRequest) lease.Key { return r.Key })
	p, least := new(packet), len(reqs)
	if makes {
		p.add("begin").add("ensure", l.inNamespace(ks)).add("commit")
		least = 0 // one that somebody has deleted meanwhile keeps no other from being granted
	}
	p.add("begin").add("lock-leases", l.ns, ks)
	p.add("allowed", with("evaluated"), l.ns, with(l.identity), int64(lease.Seen(reqs)), l.maxTTL.Load())
	for _, r := range reqs {
		ttl, owner := r.TTL.Microseconds(), nonce(r.Holder.ID)
		p.add("grant", owner, toJSON(r.Holder), flag(r.Holder.Replaceable), ttl, ttl,
			l.ns, []byte(r.Key), least, bound(r.NotAfter), ttl, owner, nonce(r.Reclaim.Owner), int64(r.Reclaim.Token), flag(r.Unguarded))
	}
	found = records{}
	p.add("told", with("allowance"), l.ns, ks).add("commit")
	var now, ttl, until int64
	err = l.run(ctx, p, found.beside(&now, &ttl, &until, &may.epoch, &may.locked))
	may.now, may.maxTTL, may.until = instant(now), span(ttl), instant(until)
	return may, found, err
}

// inNamespace is the rows to be made, sorted, since they are locked in that order.
func (d *database) inNamespace(ks list) rows {
	sorted := slices.Clone(ks)
	slices.SortFunc(sorted, func(x, y any) int { return strings.Compare(string(x.([]byte)), string(y.([]byte))) })
	made := make(rows, len(sorted))
	for i, k := range sorted {
		made[i] = []any{d.ns, k}
	}
	return made
}

// answer says what became of one request, from the record as it stands.
func (a *allowance) answer(r lease.AcquireRequest, rec lease.Record) lease.Answer {
	late := !r.NotAfter.IsZero() && a.now.After(r.NotAfter)
	switch {
	case late:
		return lease.Answer{Status: lease.Late, Record: rec}
	case rec.Live(a.now) && rec.Owner == r.Holder.ID:
		return lease.Answer{Status: lease.OK, Record: rec}
	case r.TTL > a.maxTTL:
		return lease.Answer{Status: lease.TooLong, Record: rec, Until: a.now.Add(a.maxTTL)}
	case a.until.After(a.now):
		return lease.Answer{Status: lease.HeldBack, Record: rec, Until: a.until}
	}
	return lease.Answer{Status: lease.Held, Record: rec}
}
