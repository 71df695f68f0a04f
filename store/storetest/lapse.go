package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
)

var timePromises = []promise{
	// Holds: promise 1.
	{"the store's clock decides expiry", expiry},
	{"a lapsed lease is never revived", neverRevived},
	{"a request past its not_after does nothing", lateRequests},
	{"a lapsed lease waits for its last request", busyUntil},
	{"a reclaim waits for the last request", busyReclaim},
	{"a renewal never shortens the wait for a request", busyNeverLowered},
	// Holds: promise 25.
	{"a ttl beyond max_ttl is refused", tooLong},
}

// expiry lets a hold run out without any renewal.
func expiry(w *world) {
	req := request("k")
	req.TTL = 150 * time.Millisecond
	first := w.grant(w.s, req)
	other := w.process()
	for {
		a := w.acquire(other, request("k"))
		if a.Status == lease.OK {
			if a.Record.Acquired.Before(first.Expires) {
				w.Errorf("granted at %v, before %v", a.Record.Acquired, first.Expires)
			}
			return
		}
		equal(w, "Acquire before the expiry", a.Status, lease.Held)
		if w.Failed() || w.now(w.s).Sub(first.Expires) > 10*time.Second {
			w.Fatalf("still %v at %v; it expired at %v", a.Status, w.now(w.s), first.Expires)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func neverRevived(w *world) {
	req := request("k")
	r := w.grant(w.s, req)
	w.lapse(w.s, r.Ref())
	equal(w, "Renew of a lapsed lease", w.renew(w.s, r.Ref()).Status, lease.Gone)
	a := w.read(w.s, "k")
	equal(w, "it is live", a.Record.Live(w.now(w.s)), false)
	again := w.grant(w.s, req) // even its owner starts anew
	equal(w, "a larger token", again.Token > r.Token, true)
	equal(w, "Renew of the first hold", w.renew(w.s, r.Ref()).Status, lease.Gone)
}

func lateRequests(w *world) {
	past, future := w.now(w.s).Add(-time.Millisecond), w.now(w.s).Add(time.Hour)
	req := request("k")
	req.NotAfter = past
	equal(w, "a late Acquire", w.acquire(w.s, req).Status, lease.Late)
	equal(w, "records after it", len(w.list(w.s, "", true)), 0)
	req.NotAfter = future
	r := w.grant(w.s, req)

	late := lease.RenewRequest{Ref: r.Ref(), TTL: long, NotAfter: past, BusyUntil: future}
	equal(w, "a late Renew", w.renewWith(w.s, late).Status, lease.Late)
	after := w.read(w.s, "k").Record
	sameTime(w, "expires after it", after.Expires, r.Expires)
	equal(w, "busy until after it is zero", after.BusyUntil.IsZero(), true)
	late.NotAfter = future
	equal(w, "a timely Renew", w.renewWith(w.s, late).Status, lease.OK)

	// The owner of a live hold is late as well when it asks again too late.
	req.NotAfter = past
	equal(w, "a late repeated Acquire", w.acquire(w.s, req).Status, lease.Late)
}

func busyUntil(w *world) {
	busy := func(key lease.Key, d time.Duration) lease.Record {
		r := w.hold(w.s, key)
		w.lapseWith(w.s, lease.RenewRequest{Ref: r.Ref(), BusyUntil: w.now(w.s).Add(d)})
		return w.read(w.s, key).Record
	}
	r := busy("held", time.Hour)
	a := w.acquire(w.s, request("held"))
	equal(w, "Acquire while its request may be at work", a.Status, lease.Held)
	equal(w, "the hold that the answer names", a.Record.Ref(), r.Ref())
	req := request("held")
	req.Unguarded = true
	sameTime(w, "busy until of the next hold", w.grant(w.s, req).BusyUntil, time.Time{}.UTC())

	r = busy("released", time.Hour)
	equal(w, "Release", w.release(w.s, r.Ref()), lease.OK)
	w.hold(w.s, "released")

	r = busy("over", 100*time.Millisecond)
	w.until(r.BusyUntil)
	w.hold(w.s, "over")
}

// busyReclaim: that a supervisor died says nothing of the request that it sent.
func busyReclaim(w *world) {
	other := w.process()
	busy := func(key lease.Key, d time.Duration) lease.Record {
		r := w.hold(w.s, key)
		return w.renewWith(w.s, lease.RenewRequest{Ref: r.Ref(), TTL: long, BusyUntil: w.now(w.s).Add(d)}).Record
	}
	reclaim := func(r lease.Record) lease.AcquireRequest {
		req := request(r.Key)
		req.Reclaim = r.Ref()
		return req
	}
	live, over := busy("live", time.Hour), busy("over", 100*time.Millisecond)
	lapsed, released := busy("lapsed", time.Hour), busy("released", time.Hour)
	w.lapse(w.s, lapsed.Ref())
	equal(w, "Release", w.release(w.s, released.Ref()), lease.OK)

	for _, r := range []lease.Record{live, lapsed} {
		a := w.acquire(other, reclaim(r))
		equal(w, "Acquire that reclaims a busy hold, "+string(r.Key), a.Status, lease.Held)
		equal(w, "the hold that the answer names", a.Record.Ref(), r.Ref())
		sameTime(w, "the busy until that the answer names", a.Record.BusyUntil, r.BusyUntil)
		req := reclaim(r)
		req.Unguarded = true
		sameTime(w, "busy until of the next hold", w.grant(other, req).BusyUntil, time.Time{}.UTC())
	}
	w.grant(other, reclaim(released))
	w.until(over.BusyUntil)
	w.grant(other, reclaim(over))
}

func busyNeverLowered(w *world) {
	r := w.hold(w.s, "k")
	late := w.now(w.s).Add(time.Hour)
	renewed := func(busy, want time.Time) {
		w.Helper()
		a := w.renewWith(w.s, lease.RenewRequest{Ref: r.Ref(), TTL: long, BusyUntil: busy})
		equal(w, "Renew", a.Status, lease.OK)
		sameTime(w, "busy until that its answer names", a.Record.BusyUntil, want)
		sameTime(w, "busy until that is stored", w.read(w.s, "k").Record.BusyUntil, want)
	}
	renewed(late, late)
	renewed(late.Add(-time.Minute), late)
	renewed(late.Add(-2*time.Hour), late) // also one that is over
	renewed(time.Time{}, late)
	renewed(late.Add(time.Minute), late.Add(time.Minute))

	equal(w, "Release", w.release(w.s, r.Ref()), lease.OK)
	r = w.hold(w.s, "k")
	equal(w, "busy until of the next hold is zero", r.BusyUntil.IsZero(), true)
	late = late.Add(-time.Minute) // of the next hold, this is the first
	renewed(late, late)
}

func tooLong(w *world) {
	longest := w.s.Properties.MaxTTL
	over, just := request("over"), request("just")
	over.TTL, just.TTL = longest+time.Microsecond, longest
	r, err := w.s.Leases.Acquire(w.ctx, []lease.AcquireRequest{over, just})
	w.check("Acquire", err)
	if got := statuses(r); len(got) != 2 || got[0] != lease.TooLong || got[1] != lease.OK {
		w.Fatalf("Acquire: %v, want ttl too long and ok", got)
	}
	if d := r.Answers[0].Until.Sub(r.Now) - longest; d.Abs() > time.Second {
		w.Errorf("the longest ttl that the answer tells is off by %v", d)
	}
	equal(w, "what it left", w.read(w.s, "over").Status, lease.Gone)
}
