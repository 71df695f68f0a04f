package storetest

import (
	"context"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

var leasePromises = []promise{
	// Holds: promise 5.
	{"a stale holder is refused", staleHolder},
	{"one of many is granted", oneOfMany},
	// Holds: promise 1.
	{"two holders never overlap and tokens only grow", stress},
	{"a repeated acquire is answered with the hold", repeatedAcquire},
	{"a release frees at once and counts once", releaseOnce},
	{"a key that is used once leaves nothing behind", onceKey},
	// Holds: promise 4.
	{"tokens increase through everything", tokensIncrease},
	{"a record comes back as it was written", roundTrip},
	{"reading never acquires", readOnly},
	{"reclaim takes exactly the named hold", reclaim},
	{"an ended context does nothing", endedContext},
	// Holds: L4, L8.
	{"a batch renews each hold by its own terms", ownTerms},
	// Holds: promise 13, L8.
	{"a new hold inherits nothing, however the last one ended", inheritsNothing},
}

func staleHolder(w *world) {
	other := w.process()
	old := w.hold(w.s, "k")
	w.lapse(w.s, old.Ref())
	now := w.hold(other, "k")

	a := w.renew(w.s, old.Ref())
	equal(w, "Renew by the stale holder", a.Status, lease.Gone)
	equal(w, "the owner that its answer names", a.Record.Owner, now.Owner)
	equal(w, "Release by the stale holder", w.release(w.s, old.Ref()), lease.Gone)
	equal(w, "Break of the stale hold", w.breakIt(w.s, old.Ref(), lease.Broken{By: "x", Now: true}).Status, lease.Gone)
	// Half a match is none: neither an old token nor an old owner will do.
	for _, ref := range []lease.Ref{
		{Key: "k", Owner: old.Owner, Token: now.Token}, {Key: "k", Owner: now.Owner, Token: old.Token},
	} {
		equal(w, "Renew with half of the hold", w.renew(w.s, ref).Status, lease.Gone)
		equal(w, "Release with half of the hold", w.release(w.s, ref), lease.Gone)
	}
	r := w.read(w.s, "k").Record
	equal(w, "the hold afterwards", r.Ref(), now.Ref())
	sameTime(w, "its end afterwards", r.Expires, now.Expires)
	equal(w, "Renew by the holder", w.renew(other, now.Ref()).Status, lease.OK)
}

func oneOfMany(w *world) {
	processes := []*store.Store{w.s, w.process(), w.process(), w.process()}
	answers := make([]lease.Reply, 16)
	errs := make([]error, 16)
	together(16, func(i int) {
		answers[i], errs[i] = processes[i%4].Leases.Acquire(w.ctx, []lease.AcquireRequest{request("k")})
	})
	winner := w.read(w.s, "k").Record
	granted := 0
	for i := range answers {
		a := w.one("Acquire", answers[i], errs[i])
		equal(w, "the holder that each is told", a.Record.Ref(), winner.Ref())
		if a.Status == lease.OK {
			granted++
		} else {
			equal(w, "the answer of a loser", a.Status, lease.Held)
		}
	}
	equal(w, "grants", granted, 1)
}

// stress counts, outside the store, how many hold a key at the same time.
func stress(w *world) {
	const workers, cycles, keys = 8, 20, 4
	processes := []*store.Store{w.s, w.process(), w.process()}
	var inside, last [keys]atomic.Int64
	together(workers, func(i int) {
		s := processes[i%len(processes)]
		for n := range cycles {
			k := (i + n) % keys
			r, ok := w.acquireInTheEnd(s, lease.Key("k"+string(rune('0'+k))))
			if !ok {
				return
			}
			if others := inside[k].Add(1) - 1; others != 0 {
				w.Errorf("key %d: %d others hold it as well", k, others)
			}
			if previous := last[k].Swap(int64(r.Token)); int64(r.Token) <= previous {
				w.Errorf("key %d: token %d after %d", k, r.Token, previous)
			}
			inside[k].Add(-1)
			reply, err := s.Leases.Release(w.ctx, []lease.Ref{r.Ref()})
			if err != nil || reply.Answers[0].Status != lease.OK {
				w.Errorf("Release by the holder: %v, %v", reply, err)
				return
			}
		}
	})
}

func (w *world) acquireInTheEnd(s *store.Store, key lease.Key) (lease.Record, bool) {
	for {
		r, err := s.Leases.Acquire(w.ctx, []lease.AcquireRequest{request(key)})
		switch {
		case err != nil || len(r.Answers) != 1:
			w.Errorf("Acquire: %v, %v", r, err)
			return lease.Record{}, false
		case r.Answers[0].Status == lease.OK:
			return r.Answers[0].Record, true
		case r.Answers[0].Status != lease.Held:
			w.Errorf("Acquire: %v", r.Answers[0].Status)
			return lease.Record{}, false
		}
		time.Sleep(time.Millisecond)
	}
}

func repeatedAcquire(w *world) {
	req := request("k")
	first := w.grant(w.s, req)
	req.TTL, req.Holder.Command = long/2, "another"
	again := w.grant(w.process(), req)
	if !reflect.DeepEqual(first, again) {
		w.Errorf("a repeated acquire changed the record:\n%+v\n%+v", first, again)
	}
	if r := w.read(w.s, "k").Record; !reflect.DeepEqual(first, r) {
		w.Errorf("it changed the store:\n%+v\n%+v", first, r)
	}
}

func releaseOnce(w *world) {
	r := w.hold(w.s, "k")
	equal(w, "Release", w.release(w.s, r.Ref()), lease.OK)
	equal(w, "a second Release", w.release(w.s, r.Ref()), lease.Gone)
	equal(w, "Renew after the release", w.renew(w.s, r.Ref()).Status, lease.Gone)
	kept := w.read(w.s, "k")
	equal(w, "Read after the release", kept.Status, lease.OK)
	equal(w, "the token that is kept", kept.Record.Token, r.Token)
	equal(w, "Expires of a free record is zero", kept.Record.Expires.IsZero(), true)

	r = w.hold(w.process(), "k")
	w.lapse(w.s, r.Ref())
	equal(w, "Release of a lapsed hold that nobody took", w.release(w.s, r.Ref()), lease.OK)
	equal(w, "Release of what never was", w.release(w.s, lease.Ref{Key: "none", Owner: r.Owner, Token: r.Token}), lease.Gone)
}

func onceKey(w *world) {
	r := w.hold(w.s, lease.OnceKey())
	equal(w, "Renew", w.renew(w.s, r.Ref()).Status, lease.OK)
	equal(w, "Release", w.release(w.s, r.Ref()), lease.OK)
	equal(w, "records after it", len(w.list(w.s, "", true)), 0)
	equal(w, "a second Release", w.release(w.s, r.Ref()), lease.Gone)
}

func tokensIncrease(w *world) {
	var last lease.Token
	ends := []func(lease.Record){
		func(r lease.Record) { w.release(w.s, r.Ref()) },
		func(r lease.Record) { w.lapse(w.s, r.Ref()) },
		func(r lease.Record) { w.breakIt(w.s, r.Ref(), lease.Broken{By: "x", Now: true}) },
		func(r lease.Record) {
			w.breakIt(w.s, r.Ref(), lease.Broken{By: "x"})
			w.release(w.s, r.Ref())
		},
		func(r lease.Record) { w.release(w.s, r.Ref()) },
		func(lease.Record) {},
	}
	for i, end := range ends {
		before := w.now(w.s)
		r := w.hold(w.s, "k")
		if r.Token <= last || r.Token < lease.Token(before.UnixMicro()) || r.Token >= 1<<53 {
			w.Errorf("grant %d: token %d after %d at %d µs", i, r.Token, last, before.UnixMicro())
		}
		equal(w, "the token that Read tells", w.read(w.s, "k").Record.Token, r.Token)
		last = r.Token
		end(r)
	}
}

func roundTrip(w *world) {
	req := request("k")
	req.TTL = 12_345_678 * time.Microsecond
	req.Holder = lease.Holder{ID: lease.NewNonce(), Host: "höst", HostID: "a1", BootID: "b-2", PIDNS: "4026531836",
		PID: 1 << 22, Start: 1<<53 + 1, RunID: "0191", Cgroup: "/a/b", Replaceable: true,
		Command: "sh -c 'echo \"日本語\\n\" $HOME %s \\ 🐘' \n\t<&> é e\u0301"}
	before := w.now(w.s)
	r := w.grant(w.s, req)
	after := w.now(w.s)
	got := w.read(w.process(), "k").Record
	if !reflect.DeepEqual(got, r) {
		w.Errorf("read %+v\nafter %+v", got, r)
	}
	equal(w, "holder", got.Holder, req.Holder)
	equal(w, "ttl", got.TTL, req.TTL)
	between(w, "acquired", before, got.Acquired, after)
	between(w, "renewed", before, got.Renewed, after)
	between(w, "expires", before.Add(req.TTL), got.Expires, after.Add(req.TTL))
	sameTime(w, "acquired to the microsecond", got.Acquired, got.Acquired.Truncate(time.Microsecond))

	busy := after.Add(time.Hour + 7*time.Microsecond)
	a := w.renewWith(w.s, lease.RenewRequest{Ref: r.Ref(), TTL: long, BusyUntil: busy})
	sameTime(w, "busy until", a.Record.BusyUntil, busy)
	between(w, "renewed", after, a.Record.Renewed, w.now(w.s))
	sameTime(w, "acquired after a renewal", a.Record.Acquired, r.Acquired)
	equal(w, "ttl after a renewal", a.Record.TTL, long)
	equal(w, "holder after a renewal", a.Record.Holder, req.Holder)
	sameTime(w, "busy until when not named again", w.renew(w.s, r.Ref()).Record.BusyUntil, busy)
}

func readOnly(w *world) {
	a := w.read(w.s, "k")
	equal(w, "Read of nothing", a.Status, lease.Gone)
	equal(w, "its record", a.Record, lease.Record{})
	equal(w, "records after it", len(w.list(w.s, "", true)), 0)
	w.hold(w.process(), "k")

	r, err := w.s.Leases.Read(w.ctx, nil)
	w.check("Read of no keys", err)
	equal(w, "answers without keys", len(r.Answers), 0)
	if r.Now.IsZero() || r.Now.Location() != time.UTC {
		w.Errorf("the store's time is %v", r.Now)
	}
	w.until(r.Now) // it goes on
}

func reclaim(w *world) {
	old := w.hold(w.s, "k")
	other := w.process()
	for _, wrong := range []lease.Ref{
		{Key: "k", Owner: old.Owner, Token: old.Token - 1}, {Key: "k", Owner: lease.NewNonce(), Token: old.Token}, {},
	} {
		req := request("k")
		req.Reclaim = wrong
		equal(w, "Acquire with another hold's reclaim", w.acquire(other, req).Status, lease.Held)
	}
	req := request("k")
	req.Reclaim = old.Ref()
	now := w.grant(other, req)
	equal(w, "a larger token", now.Token > old.Token, true)
	equal(w, "Renew by the reclaimed", w.renew(w.s, old.Ref()).Status, lease.Gone)
	req = request("k")
	req.Reclaim = old.Ref()
	equal(w, "a second reclaim of the same hold", w.acquire(w.s, req).Status, lease.Held)
}

func endedContext(w *world) {
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	_, err := w.s.Leases.Acquire(ctx, []lease.AcquireRequest{request("k")})
	equal(w, "Acquire fails", err != nil, true)
	equal(w, "records after it", len(w.list(w.s, "", true)), 0)
}

// ownTerms: of neighbours in a batch each differs from the one before it in one term, and none gets another's.
func ownTerms(w *world) {
	now := w.now(w.s)
	busy := func(minutes int) time.Time {
		return now.Add(time.Duration(minutes)*time.Minute + 7*time.Microsecond).Truncate(time.Microsecond)
	}
	terms := []lease.RenewRequest{
		{TTL: long}, {TTL: long, BusyUntil: busy(60)}, {TTL: long, BusyUntil: busy(60)}, {TTL: long, BusyUntil: busy(90)}, {TTL: long},
		{TTL: long - time.Second}, {TTL: long - time.Second, BusyUntil: busy(30)},
		{TTL: long - time.Second, BusyUntil: busy(30), NotAfter: now.Add(-time.Second)},
		{TTL: long - time.Second, BusyUntil: busy(30), NotAfter: now.Add(time.Hour)}, {TTL: long, NotAfter: now.Add(time.Hour)},
	}
	for i := range terms {
		terms[i].Ref = w.hold(w.s, lease.Key("k"+string(rune('0'+i)))).Ref()
	}
	for range 2 { // the second time the store knows these holds
		r, err := w.s.Leases.Renew(w.ctx, terms)
		w.check("Renew", err)
		for i, q := range terms {
			want := lease.OK
			if late := q.NotAfter; !late.IsZero() && late.Before(now) {
				want, q = lease.Late, lease.RenewRequest{Ref: q.Ref, TTL: long}
			}
			equal(w, "Renew of "+string(q.Key), r.Answers[i].Status, want)
			records := []lease.Record{w.read(w.s, q.Key).Record}
			if want == lease.OK {
				records = append(records, r.Answers[i].Record)
			}
			for _, got := range records {
				equal(w, "the hold of "+string(q.Key), got.Ref(), q.Ref)
				equal(w, "the ttl of "+string(q.Key), got.TTL, q.TTL)
				equal(w, "the busy time of "+string(q.Key), got.BusyUntil, q.BusyUntil)
				sameTime(w, "the end of "+string(q.Key), got.Expires, got.Renewed.Add(q.TTL))
			}
		}
	}
}

// inheritsNothing: what was asked of a holder, or is known of its requests, is not the next one's.
func inheritsNothing(w *world) {
	for end, ends := range map[string]func(lease.Ref){
		"release": func(r lease.Ref) { w.release(w.s, r) },
		"lapse":   func(r lease.Ref) { w.lapse(w.s, r) },
		"break": func(r lease.Ref) {
			w.breakIt(w.s, r, lease.Broken{By: "ann", Now: true})
			w.release(w.s, r) // as its holder does once it has heard of it: a lock of its session is free then
		},
		"reclaim": func(lease.Ref) {},
	} {
		req := request(lease.Key(end))
		req.Holder.Replaceable = true
		old := w.grant(w.s, req).Ref()
		busy := w.now(w.s).Add(20 * time.Millisecond)
		equal(w, "Renew", w.renewWith(w.s, lease.RenewRequest{Ref: old, TTL: long, BusyUntil: busy}).Status, lease.OK)
		equal(w, "Ask", w.ask(w.process(), old, holder()), lease.OK)
		ends(old)
		w.until(busy)
		next := request(lease.Key(end))
		next.Holder.Replaceable = true
		if end == "reclaim" {
			next.Reclaim = old
		}
		granted := w.grant(w.process(), next)
		for what, got := range map[string]lease.Record{"granted": granted, "read": w.read(w.s, next.Key).Record, "renewed": w.renew(w.s, granted.Ref()).Record} {
			if got.Ref() != granted.Ref() || got.Wanted != nil || got.Broken != nil || !got.BusyUntil.IsZero() {
				w.Errorf("after a %s, as it is %s: %+v", end, what, got)
			}
		}
	}
}
