package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/bounds"
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
	if n := len(items); n > 0 && n <= maxBatch {
		return do(items)
	}
	for part := range slices.Chunk(items, maxBatch) {
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}

// Acquire sends batches of maxBatch: each is one atomic script.
func (l leases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	reqs = bounds.Of(reqs)
	out := lease.Reply{Answers: make([]lease.Answer, 0, len(reqs))}
	err := inBatches(reqs, func(reqs []lease.AcquireRequest) error {
		r, err := l.acquire(ctx, reqs)
		if err != nil {
			return err
		}
		out.Now, out.Epoch = r.time(0), lease.Seen(reqs)
		if len(r) > 1 { // else all is as asked
			out.Epoch = lease.Epoch(r.int(3))
			l.maxTTL.Store(max(l.maxTTL.Load(), r.int(2)))
		}
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

// quickArgs passes pointers to texts that it makes in one piece: go-redis takes each argument as an interface, and a
// text of its own would be copied to the heap for that.
func (l leases) quickArgs(reqs []lease.AcquireRequest) args {
	a := append(l.newArgs(2+3*len(reqs)), l.quickTerms(reqs), micros(reqs[0].NotAfter))
	var all strings.Builder
	all.Grow(len(reqs) * typicalHolder)
	texts := make([]string, 3*len(reqs))
	var room [2 * typicalHolder]byte
	for i, q := range reqs {
		from := all.Len()
		all.Write(q.Holder.AppendJSON(room[:0]))
		t := texts[3*i : 3*i+3]
		t[0], t[2] = string(q.Key), all.String()[from:]
		t[1] = t[2][len(`{"id":"`):][:2*len(q.Holder.ID)]
		a = append(a, &t[0], &t[1], &t[2])
	}
	return a
}

// typicalHolder is how long a holder's text is, about.
const typicalHolder = 256

// quickTerms are what is the same for all items, and mostly from call to call.
func (l leases) quickTerms(reqs []lease.AcquireRequest) *string {
	now := quickTerms{l.maxTTL.Load(), int64(lease.Seen(reqs)), reqs[0].TTL.Microseconds()}
	if last := l.lastTerms.Load(); last != nil && last.quickTerms == now {
		return &last.text
	}
	t := &quickTermsText{now, fmt.Sprintf("%d %d %d", now.maxTTL, now.epoch, now.ttl)}
	l.lastTerms.Store(t)
	return &t.text
}

type quickTerms struct{ maxTTL, epoch, ttl int64 }

type quickTermsText struct {
	quickTerms
	text string
}

func (l leases) acquireArgs(reqs []lease.AcquireRequest) args {
	a := append(l.newArgs(4+7*len(reqs)), freshID(), l.layout, l.maxTTL.Load(), int64(lease.Seen(reqs)))
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
	now, token := r.time(0), r.int(0)
	if len(r) > 1 {
		token = r.int(4 + i)
	}
	if token > 0 {
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

// release uses the quick script if it can, and the script that knows all cases if not. Of the answer of the quick one
// only that all went well is left: it reads no clock.
func (l leases) release(ctx context.Context, refs []lease.Ref) (reply, error) {
	a, distinct := l.newArgs(2*len(refs)), true
	texts := make([]string, 2*len(refs))
	for i, ref := range refs {
		t := texts[2*i : 2*i+2]
		t[0], t[1] = string(ref.Key), hold(ref)
		a = append(a, &t[0], &t[1])
		distinct = distinct && (i == 0 || refs[i-1].Key < ref.Key)
	}
	if distinct {
		if r, err := l.runQuick(ctx, "release", quickRelease, a); err != nil || r.int(0) != 0 {
			return nil, err
		}
	}
	return l.run(ctx, "release", releaseScript, a)
}
