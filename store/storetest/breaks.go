package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
)

var breakPromises = []promise{
	// Holds: promise 5.
	{"a break forbids renewal and frees nothing", breakSafely},
	{"a broken lease is free once it lapses", brokenLapses},
	{"a break now frees at once", breakNow},
	// Holds: promise 5.
	{"a break names a hold or finds nothing", breakNothing},
	{"dibs's own leases are listed, read and broken alike", breakInternal},
	// Holds: promise 13.
	{"a request is written for a replaceable holder only", askReplaceable},
	// Holds: promise 13.
	{"the newest request stands and ends with the hold", newestRequest},
}

// breakInternal: by the name that a list prints, as people have it.
func breakInternal(w *world) {
	own := []lease.Key{lease.OnceKey(), "app/j"}
	for _, k := range []lease.Key{"app/j", "k"} {
		own = append(own, k.Next(), k.Gate(), k.CatchUp(), k.Mirror(), k.Backfill())
	}
	holds := map[lease.Key]lease.Record{}
	for _, key := range own {
		holds[key] = w.hold(w.s, key)
	}
	other := w.process()
	listed := w.list(other, "", false)
	equal(w, "leases that are listed", len(listed), len(own))
	for _, found := range listed {
		name := found.String()
		parse := lease.ParseKey
		if found.Internal() {
			parse = lease.ParseInternal
		}
		key, err := parse(name)
		w.check("parse "+name, err)
		equal(w, "the hold that is read by the name "+name, w.read(other, key).Record.Ref(), holds[found].Ref())
		equal(w, "Break by the name "+name, w.breakIt(other, lease.Ref{Key: key}, lease.Broken{By: "ann"}).Status, lease.OK)
		equal(w, "Renew after it", w.renew(w.s, holds[found].Ref()).Status, lease.Gone)
	}
}

func breakSafely(w *world) {
	r := w.hold(w.s, "k")
	other := w.process()
	before := w.now(w.s)
	a := w.breakIt(other, r.Ref(), lease.Broken{By: "Zoë", Why: `it "hangs" \ 🐌`, At: before.Add(-time.Hour)})
	equal(w, "Break", a.Status, lease.OK)
	sameTime(w, "expires", a.Record.Expires, r.Expires)

	a = w.renew(w.s, r.Ref())
	equal(w, "Renew of a broken lease", a.Status, lease.Gone)
	if b := a.Record.Broken; b == nil {
		w.Error("the answer to Renew does not say who broke it")
	} else {
		equal(w, "by", b.By, "Zoë")
		equal(w, "why", b.Why, `it "hangs" \ 🐌`)
		equal(w, "now", b.Now, false)
		between(w, "at, by the store's clock", before, b.At, w.now(w.s))
	}
	sameTime(w, "expires after the refusal", w.read(w.s, "k").Record.Expires, r.Expires)
	equal(w, "Acquire before its end", w.acquire(other, request("k")).Status, lease.Held)
	equal(w, "Release by the broken holder", w.release(w.s, r.Ref()), lease.OK)
	equal(w, "a new hold is not broken", w.hold(other, "k").Broken == nil, true)
}

func brokenLapses(w *world) {
	var r lease.Record
	for ttl := 100 * time.Millisecond; ; ttl *= 3 { // until it is broken before it lapses, however slow the machine is
		req := request("k")
		req.TTL = ttl
		r = w.grant(w.s, req)
		a := w.breakIt(w.s, lease.Ref{Key: "k"}, lease.Broken{By: "x"}) // whoever it is
		if a.Status == lease.OK {
			break
		}
		if w.now(w.s).Before(r.Expires) {
			w.Fatalf("Break: %v", a.Status)
		}
	}
	w.until(r.Expires)
	next := w.hold(w.s, "k")
	equal(w, "a larger token", next.Token > r.Token, true)
	equal(w, "the new hold is broken", next.Broken != nil || w.read(w.s, "k").Record.Broken != nil, false)
	equal(w, "Renew of the new hold", w.renew(w.s, next.Ref()).Status, lease.OK)
}

func breakNow(w *world) {
	r := w.hold(w.s, "k")
	equal(w, "a safe Break first", w.breakIt(w.s, r.Ref(), lease.Broken{By: "x"}).Status, lease.OK)
	a := w.breakIt(w.s, r.Ref(), lease.Broken{By: "y", Why: "it is dead", Now: true})
	equal(w, "Break now", a.Status, lease.OK)
	equal(w, "it is live", a.Record.Live(w.now(w.s)), false)
	if b := w.read(w.s, "k").Record.Broken; b == nil || b.By != "y" || !b.Now {
		w.Errorf("what is kept of it: %+v", b)
	}
	equal(w, "Renew of what is freed", w.renew(w.s, r.Ref()).Status, lease.Gone)
	equal(w, "Release of what is freed", w.release(w.s, r.Ref()), lease.Gone)
	equal(w, "a larger token", w.hold(w.process(), "k").Token > r.Token, true)
}

func breakNothing(w *world) {
	b := lease.Broken{By: "x", Now: true}
	equal(w, "Break of what never was", w.breakIt(w.s, lease.Ref{Key: "k"}, b).Status, lease.Gone)
	equal(w, "records after it", len(w.list(w.s, "", true)), 0)
	r := w.hold(w.s, "k")
	stranger := lease.Ref{Key: "k", Owner: lease.NewNonce(), Token: r.Token}
	equal(w, "Break of another hold", w.breakIt(w.s, stranger, b).Status, lease.Gone)
	equal(w, "Renew after it", w.renew(w.s, r.Ref()).Status, lease.OK)
	w.release(w.s, r.Ref())
	equal(w, "Break of what is released", w.breakIt(w.s, lease.Ref{Key: "k"}, b).Status, lease.Gone)
}

func askReplaceable(w *world) {
	other := w.process()
	r := w.hold(w.s, "firm")
	equal(w, "Ask of a holder that is not replaceable", w.ask(other, r.Ref(), holder()), lease.Gone)
	if a := w.renew(w.s, r.Ref()); a.Record.Wanted != nil {
		w.Errorf("it left a request: %v", a.Record.Wanted)
	}
	req := request("soft")
	req.Holder.Replaceable = true
	r = w.grant(w.s, req)
	stranger := r.Ref()
	stranger.Token++
	equal(w, "Ask of another hold", w.ask(other, stranger, holder()), lease.Gone)
	equal(w, "Ask", w.ask(other, r.Ref(), holder()), lease.OK)
	w.lapse(w.s, r.Ref())
	equal(w, "Ask of a lapsed hold", w.ask(other, r.Ref(), holder()), lease.Gone)
}

func newestRequest(w *world) {
	req := request("k")
	req.Holder.Replaceable = true
	r := w.grant(w.s, req)
	first, second := holder(), holder()
	second.Command = "the “newest” \\ one"
	w.ask(w.process(), r.Ref(), first)
	w.ask(w.process(), r.Ref(), second)
	a := w.renew(w.s, r.Ref())
	equal(w, "Renew", a.Status, lease.OK)
	if a.Record.Wanted == nil || *a.Record.Wanted != second {
		w.Errorf("the request that the holder sees: %+v, want %+v", a.Record.Wanted, second)
	}
	equal(w, "the holder is still", a.Record.Ref(), r.Ref())
	w.release(w.s, r.Ref())
	next := w.grant(w.process(), lease.AcquireRequest{Key: "k", Holder: second, TTL: long})
	equal(w, "a request on the new hold", next.Wanted == nil, true)
}
