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
	// Holds: promise 1.
	{"one ttl for all who use a namespace", oneTTL},
	// Holds: promise 1.
	{"a namespace made anew waits for the longest ttl that was seen", seenTTL},
	// Holds: promise 1.
	{"a state older than an asker has seen is held back", olderState},
	{"session locks are declared or refused", sessionLocks},
	{"reading prepares no namespace, and needs one", reading},
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
	before := w.now(w.s)
	fresh := w.opened(config)
	until := fresh.Properties.HoldUntil
	if until.IsZero() { // it declares that it need not wait
		w.hold(fresh, "k")
		return
	}
	w.after("grants wait until", fresh.Properties.MaxTTL, before, until, w.now(fresh))
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
	req := request("k")
	req.TTL = 40 * time.Second
	equal(w, "Acquire", w.acquire(w.s, req).Status, lease.TooLong)
	w.config.TTL = req.TTL
	s := w.prepare()
	equal(w, "after init with a longer ttl", s.Properties.MaxTTL, w.config.TTL)
	w.grant(s, req)
	w.config.TTL = lease.DefaultTTL
	equal(w, "after init with a shorter ttl", w.prepare().Properties.MaxTTL, 40*time.Second)
}

// oneTTL: who opens a store that lost its data says for how long grants are held back, so nobody may believe in
// another TTL than the holders of its leases.
func oneTTL(w *world) {
	if w.s.Properties.Reach == store.Host {
		return // the kernel's locks tell whether anybody holds a lease, whatever its TTL
	}
	refused := func(ttl, has time.Duration) {
		w.Helper()
		c := w.config
		c.TTL = ttl
		s, err := w.open(w.ctx, c)
		if err == nil {
			_ = s.Close()
			w.Errorf("it opens with ttl %s, and the namespace has %s", ttl, has)
			return
		}
		for _, part := range []string{ttl.String(), has.String(), "ttl=" + has.String()} {
			if !strings.Contains(err.Error(), part) {
				w.Errorf("the refusal does not say %q: %v", part, err)
			}
		}
	}
	refused(40*time.Second, lease.DefaultTTL)
	equal(w, "max_ttl after the refusal", w.process().Properties.MaxTTL, lease.DefaultTTL)
	w.config.TTL = 40 * time.Second
	w.prepare()
	refused(lease.DefaultTTL, 40*time.Second)
	refused(time.Minute, 40*time.Second)
	equal(w, "max_ttl for those who agree", w.process().Properties.MaxTTL, 40*time.Second)
	w.config.TTL = 0
	equal(w, "max_ttl for those who take what there is", w.process().Properties.MaxTTL, 40*time.Second)
}

// seenTTL: who makes the record anew, after the loss of the data, may know less than the holders of its leases.
func seenTTL(w *world) {
	if w.s.Properties.Reach == store.Host {
		return // as in oneTTL
	}
	config := w.config
	config.Namespace, config.SeenTTL = config.Namespace+"s", time.Minute
	before := w.now(w.s)
	s := w.opened(config)
	equal(w, "max_ttl", s.Properties.MaxTTL, time.Minute)
	if until := s.Properties.HoldUntil; !until.IsZero() {
		w.after("grants wait until", time.Minute, before, until, w.now(s))
	}
	config.SeenTTL = 0
	equal(w, "max_ttl for others", w.opened(config).Properties.MaxTTL, time.Minute)

	// The record was made already, by somebody who knew even less.
	r := w.hold(w.s, "held")
	config = w.config
	config.SeenTTL = time.Minute
	before = w.now(w.s)
	s = w.opened(config)
	equal(w, "max_ttl, which was shorter", s.Properties.MaxTTL, time.Minute)
	a := w.acquire(w.s, request("k"))
	equal(w, "Acquire", a.Status, lease.HeldBack)
	sameTime(w, "the declared end of the wait", s.Properties.HoldUntil, a.Until)
	w.after("grants wait until", time.Minute, before, a.Until, w.now(s))
	equal(w, "Renew meanwhile", w.renew(w.s, r.Ref()).Status, lease.OK)
	again := w.opened(config)
	sameTime(w, "the end of the wait, opened again", again.Properties.HoldUntil, a.Until)
}

// olderState: an asker has seen a later state of the namespace, of a server that this one stood in for, or that
// stood in for this one. Its leases are unknown here.
func olderState(w *world) {
	r := w.hold(w.s, "held")
	reply := func(s *store.Store, req lease.AcquireRequest) lease.Reply {
		w.Helper()
		r, err := s.Leases.Acquire(w.ctx, []lease.AcquireRequest{req})
		w.check("Acquire", err)
		return r
	}
	first := request("first")
	epoch := reply(w.s, first).Epoch
	if epoch == 0 {
		equal(w, "reach of a store without epochs", w.s.Properties.Reach, store.Host)
		return
	}
	known := request("known")
	known.Seen = epoch
	equal(w, "Acquire by one who has seen this state", reply(w.s, known).Answers[0].Status, lease.OK)

	refused := reply(w.process(), request("held"))
	equal(w, "Acquire of what another holds", refused.Answers[0].Status, lease.Held)
	equal(w, "the epoch told with it", refused.Epoch, epoch)

	later := request("k")
	later.Seen = epoch + 1_000_000_000_000
	before := w.now(w.s)
	got := reply(w.s, later)
	a := got.Answers[0]
	equal(w, "Acquire by one who has seen a later state", a.Status, lease.HeldBack)
	w.after("held back until", w.s.Properties.MaxTTL, before, a.Until, w.now(w.s))
	if got.Epoch <= later.Seen || got.Epoch > lease.MaxEpoch {
		w.Errorf("the epoch is %d, and %d was seen", got.Epoch, later.Seen)
	}
	other := w.process()
	for _, req := range []lease.AcquireRequest{later, request("k2")} {
		again := reply(other, req)
		equal(w, "Acquire by others", again.Answers[0].Status, lease.HeldBack)
		sameTime(w, "until", again.Answers[0].Until, a.Until)
		equal(w, "the epoch", again.Epoch, got.Epoch)
	}
	equal(w, "Renew meanwhile", w.renew(w.s, r.Ref()).Status, lease.OK)
	equal(w, "Release meanwhile", w.release(w.s, r.Ref()), lease.OK)

	later.Seen = lease.MaxEpoch + 7 // of a client that is mad, or worse
	got = reply(w.s, later)
	equal(w, "Acquire with an absurd epoch", got.Answers[0].Status, lease.HeldBack)
	equal(w, "the epoch after it", got.Epoch, lease.MaxEpoch)
	sameTime(w, "until, when it is asked for again", reply(w.s, later).Answers[0].Until, got.Answers[0].Until)
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
