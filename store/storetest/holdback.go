package storetest

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// RunHoldBack checks that a hold-back which was written by a clock that ran ahead ends one max_ttl after the clock
// is right again (rule L9). write changes a namespace's record: nothing is granted before until.
func RunHoldBack(t *testing.T, open Open, url string, write func(t *testing.T, c store.Config, until time.Time)) {
	t.Helper()
	for name, look := range map[string]func(w *world) *store.Store{
		"seen by an acquire":    func(w *world) *store.Store { return w.s },
		"seen by an opening":    func(w *world) *store.Store { return w.process() },
		"seen by a preparation": func(w *world) *store.Store { return w.prepare() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open, url)
			held := w.hold(w.s, "held")
			before := w.now(w.s)
			write(t, w.config, before.Add(time.Hour))
			s := look(w)
			a := w.acquire(s, request("k"))
			equal(w, "Acquire", a.Status, lease.HeldBack)
			w.after("held back until", s.Properties.MaxTTL, before, a.Until, w.now(s))
			sameTime(w, "until, asked again", w.acquire(w.s, request("k")).Until, a.Until)
			sameTime(w, "the end that another opening declares", w.process().Properties.HoldUntil, a.Until)
			equal(w, "Renew meanwhile", w.renew(w.s, held.Ref()).Status, lease.OK)
			write(t, w.config, w.now(w.s).Add(-time.Microsecond))
			w.hold(w.s, "k")
		})
	}
}
