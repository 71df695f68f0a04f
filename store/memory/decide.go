package memory

import (
	"time"

	"github.com/dibs-run/dibs/lease"
)

// The decisions on leases: what a record becomes, and what the caller is answered, at instant now.

// holds says whether ref is the hold that r describes, be it live or lapsed, but not released.
func holds(r lease.Record, ref lease.Ref) bool {
	return r.Owner == ref.Owner && r.Token == ref.Token && !r.Expires.IsZero()
}

// late is rule L1: the request reached the store after its sender stopped waiting for it.
func late(now, notAfter time.Time) bool { return !notAfter.IsZero() && now.After(notAfter) }

// free says whether r may be granted to req: never taken, released, lapsed, or to be reclaimed.
func free(r lease.Record, req lease.AcquireRequest, now time.Time) bool {
	if r.Expires.IsZero() {
		return true
	}
	over := !r.Live(now) || req.Reclaim.Owner != lease.Nonce{} && holds(r, req.Reclaim)
	// Neither a lapse nor its supervisor's death ends a request that works elsewhere (rule L8).
	return over && (req.Unguarded || !r.BusyUntil.After(now))
}

// grant makes the record of a new hold. The token grows even where the clock stepped back (rule L10).
func grant(r lease.Record, req lease.AcquireRequest, now time.Time) lease.Record {
	return lease.Record{
		Key: req.Key, Owner: req.Holder.ID, Token: max(r.Token+1, lease.Token(now.UnixMicro())),
		Holder: req.Holder, TTL: req.TTL, Acquired: now, Renewed: now, Expires: micro(now.Add(req.TTL)),
	}
}

// renew prolongs a hold: never one that lapsed (rule L1) or is broken (rule L5).
func renew(r lease.Record, req lease.RenewRequest, now time.Time) (lease.Record, lease.Status) {
	switch {
	case late(now, req.NotAfter):
		return r, lease.Late
	case !holds(r, req.Ref) || !r.Live(now) || r.Broken != nil:
		return r, lease.Gone
	}
	r.TTL, r.Renewed, r.Expires = req.TTL, now, micro(now.Add(req.TTL))
	if busy := micro(req.BusyUntil); busy.After(r.BusyUntil) {
		r.BusyUntil = busy // an older heartbeat may arrive after a newer one
	}
	return r, lease.OK
}

// release frees a hold, also a lapsed one that nobody took: its owner says that it is done.
func release(r lease.Record, ref lease.Ref) (lease.Record, lease.Status) {
	if !holds(r, ref) {
		return r, lease.Gone
	}
	return freed(r), lease.OK
}

func freed(r lease.Record) lease.Record {
	r.Expires, r.BusyUntil, r.Wanted = time.Time{}, time.Time{}, nil
	return r
}

// ask writes a Replace request for a holder that itself declared Replace (rule T7).
func ask(r lease.Record, ref lease.Ref, by lease.Holder, now time.Time) (lease.Record, lease.Status) {
	if !holds(r, ref) || !r.Live(now) || !r.Holder.Replaceable {
		return r, lease.Gone
	}
	r.Wanted = &by
	return r, lease.OK
}

// broken forbids renewals of the live hold, or of exactly the hold that ref names (rule L5).
func broken(r lease.Record, ref lease.Ref, b lease.Broken, now time.Time) (lease.Record, lease.Status) {
	if !r.Live(now) || ref.Owner != (lease.Nonce{}) && !holds(r, ref) {
		return r, lease.Gone
	}
	b.At = now
	r.Broken = &b
	if b.Now {
		r = freed(r)
	}
	return r, lease.OK
}

// clone keeps callers from writing into the store through a record's pointers.
func clone(r lease.Record) lease.Record {
	if r.Wanted != nil {
		w := *r.Wanted
		r.Wanted = &w
	}
	if r.Broken != nil {
		b := *r.Broken
		r.Broken = &b
	}
	return r
}
