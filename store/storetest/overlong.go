package storetest

import (
	"testing"

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
	was, before := w.read(w.s, "near").Record, w.now(w.s)
	w.check("Trim", w.s.Leases.Trim(w.ctx, []lease.Key{"far", "free", "near", "none"}))
	w.after("it expires", far.TTL, before, w.read(w.s, "far").Record.Expires, w.now(w.s))
	sameTime(w, "one that is not overlong", w.read(w.s, "near").Record.Expires, was.Expires)
	equal(w, "one that is free", w.read(w.s, "free").Record.Live(w.now(w.s)), false)
	equal(w, "Renew by its holder", w.renew(w.s, far.Ref()).Status, lease.OK)
	equal(w, "Renew of the other one", w.renew(w.s, near.Ref()).Status, lease.OK)
	equal(w, "Acquire of what is held", w.acquire(w.s, request("far")).Status, lease.Held)
}
