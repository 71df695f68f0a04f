package redis

import (
	"context"
	"slices"

	"github.com/dibs-run/dibs/lease"
)

// leases fulfils lease.Store: one script per operation, which carries out a batch of up to maxBatch
// items. A script is atomic as a whole, and so is every item of it.
type leases struct {
	*db
	known *grants
}

// maxBatch bounds how long one script can occupy the server: about 2 ms.
const maxBatch = 500

// inBatches calls do with at most maxBatch items at a time, until it fails.
func inBatches[T any](items []T, do func([]T) error) error {
	for part := range slices.Chunk(items, maxBatch) {
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}

// Acquire sends batches of maxBatch: each is one atomic script.
func (l leases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	out := lease.Reply{Answers: make([]lease.Answer, 0, len(reqs))}
	err := inBatches(reqs, func(reqs []lease.AcquireRequest) error {
		r, err := l.acquire(ctx, reqs)
		if err != nil {
			return err
		}
		out.Now, out.Epoch = r.time(0), lease.Epoch(r.int(3))
		l.maxTTL.Store(max(l.maxTTL.Load(), r.int(2)))
		for i, q := range reqs {
			out.Answers = append(out.Answers, acquired(q, r, i))
		}
		return nil
	})
	return out, err
}

// acquire uses the quick script if it can, and the script that knows all cases if not.
func (l leases) acquire(ctx context.Context, reqs []lease.AcquireRequest) (reply, error) {
	if plainAcquires(reqs) {
		if r, err := l.runQuick(ctx, "acquire", quickAcquire, l.quickArgs(reqs)); err != nil || r.int(0) != 0 {
			return r, err
		}
	}
	return l.run(ctx, "acquire", acquireScript, l.acquireArgs(reqs))
}

// plainAcquires says that the keys are distinct and in order, as a Keeper sends them, and that all requests ask for
// the same, and nothing special.
func plainAcquires(reqs []lease.AcquireRequest) bool {
	for i, q := range reqs {
		if q.Reclaim.Owner != (lease.Nonce{}) || q.TTL != reqs[0].TTL || !q.NotAfter.Equal(reqs[0].NotAfter) || i > 0 && q.Key <= reqs[i-1].Key {
			return false
		}
	}
	return true
}

func (l leases) quickArgs(reqs []lease.AcquireRequest) args {
	a := append(l.newArgs(4+3*len(reqs)), l.maxTTL.Load(), int64(lease.Seen(reqs)), reqs[0].TTL.Microseconds(), micros(reqs[0].NotAfter))
	for _, q := range reqs {
		a = append(a, string(q.Key), q.Holder.ID.String(), text(q.Holder))
	}
	return a
}

func (l leases) acquireArgs(reqs []lease.AcquireRequest) args {
	a := append(l.newArgs(4+7*len(reqs)), freshID(), schema, l.maxTTL.Load(), int64(lease.Seen(reqs)))
	for _, q := range reqs {
		reclaim := ""
		if q.Reclaim.Owner != (lease.Nonce{}) {
			reclaim = hold(q.Reclaim)
		}
		a = append(a, string(q.Key), q.Holder.ID.String(), q.TTL.Microseconds(), micros(q.NotAfter),
			text(q.Holder), reclaim, flag(q.Unguarded))
	}
	return a
}

// acquired reads answer i. A grant is answered by its token alone; the rest is what was asked for.
func acquired(q lease.AcquireRequest, r reply, i int) lease.Answer {
	now := r.time(0)
	if token := r.int(4 + i); token > 0 {
		ttl := duration(q.TTL.Microseconds())
		return lease.Answer{Status: lease.OK, Record: lease.Record{
			Key: q.Key, Owner: q.Holder.ID, Token: lease.Token(token), Holder: q.Holder,
			TTL: ttl, Acquired: now, Renewed: now, Expires: now.Add(ttl),
		}}
	}
	found := r.list(4 + i)
	a := lease.Answer{Status: lease.Status(found.int(0)), Record: parseRecord(q.Key, found.list(1))}
	switch a.Status {
	case lease.HeldBack:
		a.Until = r.time(1)
	case lease.TooLong:
		a.Until = now.Add(duration(r.int(2)))
	}
	return a
}

// Release frees holds. The record of an OK only says which hold that was, and that it is free: to read the rest would
// cost as much again.
func (l leases) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	out := lease.Reply{Answers: make([]lease.Answer, 0, len(refs))}
	err := inBatches(refs, func(refs []lease.Ref) error {
		r, err := l.release(ctx, refs)
		if err != nil {
			return err
		}
		l.known.drop(refs...)
		out.Now = r.time(0)
		first := len(out.Answers)
		for _, ref := range refs {
			out.Answers = append(out.Answers, lease.Answer{Status: lease.OK,
				Record: lease.Record{Key: ref.Key, Owner: ref.Owner, Token: ref.Token}})
		}
		for i := 1; i < len(r); i++ {
			x := r.list(i)
			ref := refs[x.int(0)]
			out.Answers[first+int(x.int(0))] = lease.Answer{Status: lease.Gone, Record: parseRecord(ref.Key, x.list(1))}
		}
		return nil
	})
	return out, err
}

// release uses the quick script if it can, and the script that knows all cases if not.
func (l leases) release(ctx context.Context, refs []lease.Ref) (reply, error) {
	a, distinct := l.newArgs(2*len(refs)), true
	for i, ref := range refs {
		a = append(a, string(ref.Key), hold(ref))
		distinct = distinct && (i == 0 || refs[i-1].Key < ref.Key)
	}
	if distinct {
		if r, err := l.runQuick(ctx, "release", quickRelease, a); err != nil || r.int(0) != 0 {
			return r, err
		}
	}
	return l.run(ctx, "release", releaseScript, a)
}
