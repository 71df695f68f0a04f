package storetest

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// Overlong checks that Trim shortens a hold which was renewed when the store's clock was further ahead, and no
// other. ahead moves a record of c's namespace as that would have: its expires one hour further. No store is asked
// to step its clock.
func Overlong(t *testing.T, open Open, c store.Config, ahead func(lease.Key)) {
	w := &world{T: t, ctx: t.Context(), open: open, config: c}
	w.s = w.prepare()
	far, near, free := w.hold(w.s, "far"), w.hold(w.s, "near"), w.hold(w.s, "free")
	equal(w, "Release", w.release(w.s, free.Ref()), lease.OK)
	ahead("far")
	if r := w.read(w.s, "far").Record; !r.Overlong(w.now(w.s)) {
		t.Fatalf("it was to be an hour ahead: %+v", r)
	}
	before := w.read(w.s, "near").Record
	w.check("Trim", w.s.Leases.Trim(w.ctx, []lease.Key{"far", "free", "near", "none"}))
	now := w.now(w.s)
	r := w.read(w.s, "far").Record
	if r.Expires.After(now.Add(far.TTL)) || r.Expires.Before(now.Add(far.TTL-10*time.Second)) {
		t.Errorf("it expires at %s, %s from now; its TTL is %s", r.Expires, r.Expires.Sub(now), far.TTL)
	}
	sameTime(w, "one that is not overlong", w.read(w.s, "near").Record.Expires, before.Expires)
	equal(w, "one that is free", w.read(w.s, "free").Record.Live(now), false)
	equal(w, "Renew by its holder", w.renew(w.s, far.Ref()).Status, lease.OK)
	equal(w, "Renew of the other one", w.renew(w.s, near.Ref()).Status, lease.OK)
	equal(w, "Acquire of what is held", w.acquire(w.s, request("far")).Status, lease.Held)
}
