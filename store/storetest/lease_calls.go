package storetest

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// Calls of one item each. They end the test when the call itself fails.

func holder() lease.Holder { return lease.Holder{ID: lease.NewNonce(), Host: "h", PID: 1} }

func request(key lease.Key) lease.AcquireRequest {
	return lease.AcquireRequest{Key: key, Holder: holder(), TTL: long}
}

func (w *world) one(what string, r lease.Reply, err error) lease.Answer {
	w.Helper()
	w.check(what, err)
	if len(r.Answers) != 1 {
		w.Fatalf("%s of one item: %d answers", what, len(r.Answers))
	}
	return r.Answers[0]
}

func (w *world) acquire(s *store.Store, req lease.AcquireRequest) lease.Answer {
	w.Helper()
	r, err := s.Leases.Acquire(w.ctx, []lease.AcquireRequest{req})
	return w.one("Acquire", r, err)
}

// grant is an acquire that must be granted.
func (w *world) grant(s *store.Store, req lease.AcquireRequest) lease.Record {
	w.Helper()
	a := w.acquire(s, req)
	if a.Status != lease.OK {
		w.Fatalf("Acquire(%q): %v, want ok", req.Key, a.Status)
	}
	if a.Record.Owner != req.Holder.ID || a.Record.Key != req.Key {
		w.Fatalf("Acquire(%q) by %v: granted %q to %v", req.Key, req.Holder.ID, a.Record.Key, a.Record.Owner)
	}
	return a.Record
}

// hold takes a free key for long.
func (w *world) hold(s *store.Store, key lease.Key) lease.Record {
	w.Helper()
	return w.grant(s, request(key))
}

func (w *world) renewWith(s *store.Store, req lease.RenewRequest) lease.Answer {
	w.Helper()
	r, err := s.Leases.Renew(w.ctx, []lease.RenewRequest{req})
	return w.one("Renew", r, err)
}

func (w *world) renew(s *store.Store, ref lease.Ref) lease.Answer {
	w.Helper()
	return w.renewWith(s, lease.RenewRequest{Ref: ref, TTL: long})
}

// lapse makes a live hold run out: it is renewed for a moment, and then no more.
func (w *world) lapse(s *store.Store, ref lease.Ref) {
	w.Helper()
	w.lapseWith(s, lease.RenewRequest{Ref: ref})
}

func (w *world) lapseWith(s *store.Store, req lease.RenewRequest) {
	w.Helper()
	if stop := w.beats[req.Ref]; stop != nil {
		stop()
	}
	req.TTL = 5 * time.Millisecond
	a := w.renewWith(s, req)
	if a.Status != lease.OK {
		w.Fatalf("Renew(%q): %v, want ok", req.Key, a.Status)
	}
	w.until(a.Record.Expires)
}

func (w *world) release(s *store.Store, ref lease.Ref) lease.Status {
	w.Helper()
	r, err := s.Leases.Release(w.ctx, []lease.Ref{ref})
	return w.one("Release", r, err).Status
}

func (w *world) ask(s *store.Store, ref lease.Ref, by lease.Holder) lease.Status {
	w.Helper()
	r, err := s.Leases.RequestRelease(w.ctx, ref, by)
	return w.one("Ask", r, err).Status
}

func (w *world) breakIt(s *store.Store, ref lease.Ref, b lease.Broken) lease.Answer {
	w.Helper()
	r, err := s.Leases.Break(w.ctx, ref, b)
	return w.one("Break", r, err)
}

func (w *world) read(s *store.Store, key lease.Key) lease.Answer {
	w.Helper()
	r, err := s.Leases.Read(w.ctx, []lease.Key{key})
	return w.one("Read", r, err)
}

// list is the keys that List returns, in its order.
func (w *world) list(s *store.Store, prefix string, all bool) []lease.Key {
	w.Helper()
	r, err := s.Leases.List(w.ctx, prefix, all)
	w.check("List", err)
	if r.Now.IsZero() {
		w.Errorf("List of %q tells no time", prefix)
	}
	keys := []lease.Key{}
	for _, a := range r.Answers {
		keys = append(keys, a.Record.Key)
	}
	return keys
}

// statuses is what a batch answered, item by item.
func statuses(r lease.Reply) []lease.Status {
	var all []lease.Status
	for _, a := range r.Answers {
		all = append(all, a.Status)
	}
	return all
}
