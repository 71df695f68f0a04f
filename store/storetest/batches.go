package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/dibs-run/dibs/lease"
)

var batchPromises = []promise{
	{"items of a batch are independent", independentItems},
	{"answers come in the order of the items", answersInOrder},
	{"batches in opposite orders do not block each other", oppositeOrders},
}

func independentItems(w *world) {
	held, stale := w.hold(w.s, "held"), w.hold(w.s, "stale")
	w.release(w.s, stale.Ref())
	late := request("late")
	late.NotAfter = w.now(w.s).Add(-1)
	over := request("over")
	over.TTL = w.s.Properties.MaxTTL * 2
	r, err := w.s.Leases.Acquire(w.ctx, []lease.AcquireRequest{request("z"), request("held"), late, request("a"), over, request("m")})
	w.check("Acquire", err)
	want := []lease.Status{lease.OK, lease.Held, lease.Late, lease.OK, lease.TooLong, lease.OK}
	if got := statuses(r); !slices.Equal(got, want) {
		w.Fatalf("Acquire: %v, want %v", got, want)
	}
	z, a, m := r.Answers[0].Record.Ref(), r.Answers[3].Record.Ref(), r.Answers[5].Record.Ref()

	never := lease.Ref{Key: "never", Owner: lease.NewNonce(), Token: 1}
	past := lease.RenewRequest{Ref: held.Ref(), TTL: long, NotAfter: late.NotAfter}
	r, err = w.s.Leases.Renew(w.ctx, []lease.RenewRequest{{Ref: z, TTL: long}, {Ref: stale.Ref(), TTL: long}, past, {Ref: never, TTL: long}, {Ref: a, TTL: long}})
	w.check("Renew", err)
	want = []lease.Status{lease.OK, lease.Gone, lease.Late, lease.Gone, lease.OK}
	if got := statuses(r); !slices.Equal(got, want) {
		w.Errorf("Renew: %v, want %v", got, want)
	}

	r, err = w.s.Leases.Release(w.ctx, []lease.Ref{m, never, stale.Ref(), a})
	w.check("Release", err)
	want = []lease.Status{lease.OK, lease.Gone, lease.Gone, lease.OK}
	if got := statuses(r); !slices.Equal(got, want) {
		w.Errorf("Release: %v, want %v", got, want)
	}

	r, err = w.s.Leases.Read(w.ctx, []lease.Key{"z", "never", "a"})
	w.check("Read", err)
	want = []lease.Status{lease.OK, lease.Gone, lease.OK}
	if got := statuses(r); !slices.Equal(got, want) {
		w.Errorf("Read: %v, want %v", got, want)
	}
	live := w.list(w.s, "", false)
	if !slices.Equal(live, []lease.Key{"held", "z"}) {
		w.Errorf("held afterwards: %q", live)
	}
}

func answersInOrder(w *world) {
	const n = 1000
	var reqs []lease.AcquireRequest
	for _, i := range rand.Perm(n) {
		reqs = append(reqs, request(lease.Key(fmt.Sprintf("k%03d", i))))
	}
	r, err := w.s.Leases.Acquire(w.ctx, reqs)
	w.check("Acquire", err)
	var renewals []lease.RenewRequest
	var refs []lease.Ref
	var keys []lease.Key
	w.inOrder("Acquire", r, n, func(i int) lease.Key { return reqs[i].Key })
	for i, a := range r.Answers {
		if a.Record.Owner != reqs[i].Holder.ID {
			w.Fatalf("Acquire: answer %d is of %v, want %v", i, a.Record.Owner, reqs[i].Holder.ID)
		}
		refs = append(refs, a.Record.Ref())
	}
	rand.Shuffle(n, func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	for _, ref := range refs {
		renewals = append(renewals, lease.RenewRequest{Ref: ref, TTL: long})
		keys = append(keys, ref.Key)
	}
	inRefs := func(i int) lease.Key { return refs[i].Key }
	r, err = w.s.Leases.Renew(w.ctx, renewals)
	w.check("Renew", err)
	w.inOrder("Renew", r, n, inRefs)
	r, err = w.s.Leases.Read(w.ctx, keys)
	w.check("Read", err)
	w.inOrder("Read", r, n, inRefs)
	r, err = w.s.Leases.Release(w.ctx, refs)
	w.check("Release", err)
	w.inOrder("Release", r, n, inRefs)
	equal(w, "keys held afterwards", len(w.list(w.s, "", false)), 0)
	equal(w, "keys kept afterwards", len(w.list(w.s, "", true)), n)
}

func (w *world) inOrder(what string, r lease.Reply, n int, key func(i int) lease.Key) {
	w.Helper()
	if len(r.Answers) != n {
		w.Fatalf("%s of %d items: %d answers", what, n, len(r.Answers))
	}
	for i, a := range r.Answers {
		if a.Status != lease.OK || a.Record.Key != key(i) {
			w.Fatalf("%s: answer %d is %v of %q, want ok of %q", what, i, a.Status, a.Record.Key, key(i))
		}
	}
}

// oppositeOrders is what deadlocks a database that locks rows in the order of the items.
func oppositeOrders(w *world) {
	var keys []lease.Key
	for i := range 40 {
		keys = append(keys, lease.Key(fmt.Sprintf("k%02d", i)))
	}
	backwards := slices.Clone(keys)
	slices.Reverse(backwards)
	together(8, func(i int) {
		s, order := w.s, keys
		if i%2 == 1 {
			order = backwards
		}
		for range 5 {
			var reqs []lease.AcquireRequest
			for _, k := range order {
				reqs = append(reqs, request(k))
			}
			r, err := s.Leases.Acquire(w.ctx, reqs)
			if err != nil || len(r.Answers) != len(reqs) {
				w.Errorf("Acquire: %d answers, %v", len(r.Answers), err)
				return
			}
			var won []lease.Ref
			for i, a := range r.Answers {
				if a.Status == lease.OK && a.Record.Owner == reqs[i].Holder.ID {
					won = append(won, a.Record.Ref())
				}
			}
			if len(won) == 0 {
				continue
			}
			r, err = s.Leases.Release(w.ctx, won)
			if err != nil || slices.ContainsFunc(r.Answers, func(a lease.Answer) bool { return a.Status != lease.OK }) {
				w.Errorf("Release: %v, %v", statuses(r), err)
				return
			}
		}
	})
	equal(w, "keys held afterwards", len(w.list(w.s, "", false)), 0)
}
