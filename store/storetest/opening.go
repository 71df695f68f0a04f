package storetest

import (
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

var openPromises = []promise{
	{"a store says what it is", declares},
	{"a store that is not prepared grants nothing at first", heldBack},
	{"the installation id is stable and can be pinned", installationID},
	{"max_ttl is the first one's and only init raises it", maxTTL},
	{"session locks are declared or refused", sessionLocks},
}

func declares(w *world) {
	p := w.s.Properties
	switch p.Reach {
	case store.Process, store.Host, store.Fleet:
	default:
		w.Errorf("reach is %q", p.Reach)
	}
	equal(w, "max_ttl", p.MaxTTL, lease.DefaultTTL)
	equal(w, "grants wait after init", p.HoldUntil.IsZero(), true)
	equal(w, "it has a kind", w.s.Kind != "", true)
	if pass, ok := w.config.URL.User.Password(); ok && pass != "" && strings.Contains(w.s.URL, pass) {
		w.Errorf("its URL shows the password")
	}
	equal(w, "a preparation says what it did", len(w.s.Prepared) > 0, true)
	again := w.process()
	equal(w, "another opening changes nothing", len(again.Prepared), 0)
	equal(w, "grants wait for the second", again.Properties.HoldUntil.IsZero(), true)
	equal(w, "both serve schedules", again.Ticked(), w.s.Ticked())
	if w.s.Ticked() != (w.s.Ticks != nil) {
		w.Error("ticks without history")
	}
}

func heldBack(w *world) {
	config := w.config
	config.Namespace += "h"
	fresh := w.opened(config)
	until := fresh.Properties.HoldUntil
	if until.IsZero() { // it declares that it need not wait
		w.hold(fresh, "k")
		return
	}
	now := w.now(fresh)
	if d := until.Sub(now) - fresh.Properties.MaxTTL; d > 0 || d < -5*time.Second {
		w.Errorf("grants wait until %v at %v, want max_ttl %v", until, now, fresh.Properties.MaxTTL)
	}
	for _, s := range []*store.Store{fresh, w.opened(config)} {
		a := w.acquire(s, request("k"))
		equal(w, "Acquire", a.Status, lease.HeldBack)
		sameTime(w, "until", a.Until, until)
		sameTime(w, "the declared end of the wait", s.Properties.HoldUntil, until)
	}
	equal(w, "records after it", len(w.list(fresh, "", true)), 0)
}

func installationID(w *world) {
	id := w.s.Properties.InstallationID
	equal(w, "it has one", id != "", true)
	equal(w, "another's", w.process().Properties.InstallationID, id)
	equal(w, "after init", w.prepare().Properties.InstallationID, id)
	config := w.config
	config.Expect = id
	w.opened(config)
	config.Expect = lease.NewNonce().String()
	if s, err := w.open(w.ctx, config); err == nil {
		_ = s.Close()
		w.Error("it opens although another installation is expected")
	} else if !strings.Contains(err.Error(), id) {
		w.Errorf("the refusal does not name the store's id %s: %v", id, err)
	}
}

func maxTTL(w *world) {
	equal(w, "at first", w.s.Properties.MaxTTL, lease.DefaultTTL)
	w.config.TTL = 40 * time.Second
	s := w.process()
	equal(w, "after a plain opening with a longer ttl", s.Properties.MaxTTL, lease.DefaultTTL)
	req := request("k")
	req.TTL = w.config.TTL
	equal(w, "Acquire", w.acquire(s, req).Status, lease.TooLong)
	s = w.prepare()
	equal(w, "after init with a longer ttl", s.Properties.MaxTTL, w.config.TTL)
	w.grant(s, req)
	w.config.TTL = lease.DefaultTTL
	equal(w, "after init with a shorter ttl", w.prepare().Properties.MaxTTL, 40*time.Second)
}

func sessionLocks(w *world) {
	w.config.Session = true
	s, err := w.open(w.ctx, w.config)
	if err != nil {
		return
	}
	w.Cleanup(func() { _ = s.Close() })
	if !s.Properties.Session {
		w.Fatal("it opens with lock=session and declares no session locks")
	}
	r := w.hold(s, "k")
	equal(w, "Acquire by another", w.acquire(s, request("k")).Status, lease.Held)
	equal(w, "Renew", w.renew(s, r.Ref()).Status, lease.OK)
	equal(w, "Release", w.release(s, r.Ref()), lease.OK)
	w.hold(s, "k")
}
