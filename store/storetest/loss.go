package storetest

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// RunLoss checks what follows a loss of all data, if the first who comes then knows of shorter leases than those that
// may be alive (rule L9). lose removes all that the store keeps of a namespace, under its clients.
func RunLoss(t *testing.T, open Open, url string, lose func(t *testing.T, c store.Config)) {
	t.Helper()
	const ttl = time.Minute
	for _, c := range []struct {
		name string
		// come is how somebody shows up who knows of the longer leases: s is a process of before the loss, held its
		// lease.
		come func(w *world, s *store.Store, held lease.Ref)
		late bool // only after the newcomer's hold-back
	}{
		{"an acquire", askAgain, false},
		{"an acquire when grants go on", askAgain, true},
		{"a renewal", renewAgain, false},
		{"a renewal when grants go on", renewAgain, true},
		{"an opening", func(w *world, _ *store.Store, _ lease.Ref) {
			w.config.SeenTTL = ttl
			w.process()
			w.config.SeenTTL = 0
		}, false},
		{"an opening that asks for that ttl", func(w *world, _ *store.Store, _ lease.Ref) {
			w.config.SeenTTL, w.config.TTL = ttl, ttl
			w.process()
			w.config.SeenTTL, w.config.TTL = 0, 0
		}, true},
		{"a preparation", func(w *world, _ *store.Store, _ lease.Ref) {
			w.config.SeenTTL, w.config.TTL = ttl, ttl
			w.prepare()
			w.config.SeenTTL, w.config.TTL = 0, 0
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := fallow(t, open, url)
			w.config.TTL = ttl
			old := w.prepare()
			w.config.TTL = 0
			long := request("held")
			long.TTL = ttl
			held := w.grant(old, long).Ref()

			lose(t, w.config)
			newcomer := w.process
			if c.late {
				newcomer = w.prepare // instead of waiting
			}
			s := newcomer()
			equal(w, "max_ttl of who knows no better", s.Properties.MaxTTL, lease.DefaultTTL)
			var granted lease.Record
			if c.late {
				granted = w.hold(s, "meanwhile")
			}

			before := w.now(s)
			c.come(w, old, held)
			a := w.acquire(s, request("held"))
			equal(w, "Acquire of what may be held", a.Status, lease.HeldBack)
			w.after("grants wait until", ttl, before, a.Until, w.now(s))
			equal(w, "max_ttl for all who come", w.process().Properties.MaxTTL, ttl)
			sameTime(w, "until, asked again by the one who knows", w.acquire(old, request("k")).Until, a.Until)
			sameTime(w, "until, after a renewal", renewed(w, old, held), a.Until)
			if c.late {
				equal(w, "Renew of what was granted", w.renew(s, granted.Ref()).Status, lease.OK)
			}
		})
	}
}

func askAgain(w *world, s *store.Store, _ lease.Ref) {
	a := w.acquire(s, request("another"))
	equal(w, "Acquire by one who knows of longer leases", a.Status, lease.HeldBack)
}

// renewAgain is the holder's heartbeat. Its lease is unknown here, and so lost; but there may be others like it.
func renewAgain(w *world, s *store.Store, held lease.Ref) {
	r, err := s.Leases.Renew(w.ctx, []lease.RenewRequest{{Ref: held, TTL: time.Minute}})
	w.check("Renew", err)
	equal(w, "Renew of what was lost", r.Answers[0].Status, lease.Gone)
}

// renewed is the end of the wait after one more renewal of a lost hold.
func renewed(w *world, s *store.Store, held lease.Ref) time.Time {
	renewAgain(w, s, held)
	return w.acquire(s, request("k")).Until
}
