//go:build linux

package stress

import (
	"context"

	"github.com/dibs-run/dibs/lease"
)

// The observer is worth only what it notices: these stores break a promise each, and the test of
// the test demands that it is seen.
const (
	generous  = "generous"  // grants also what is held
	backwards = "backwards" // its tokens fall
)

func lie(how string, s lease.Store) lease.Store {
	switch how {
	case generous:
		return generousStore{s}
	case backwards:
		return backwardsStore{s}
	}
	return s
}

type generousStore struct{ lease.Store }

func (g generousStore) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	r, err := g.Store.Acquire(ctx, reqs)
	for i := range r.Answers {
		if a := &r.Answers[i]; a.Status == lease.Held {
			a.Status = lease.OK
			a.Record.Owner, a.Record.Token = reqs[i].Holder.ID, a.Record.Token+1
		}
	}
	return r, err
}

type backwardsStore struct{ lease.Store }

func mirror(t lease.Token) lease.Token { return 1<<53 - t }

func (b backwardsStore) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	r, err := b.Store.Acquire(ctx, reqs)
	for i := range r.Answers {
		r.Answers[i].Record.Token = mirror(r.Answers[i].Record.Token)
	}
	return r, err
}

func (b backwardsStore) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	for i := range refs {
		refs[i].Token = mirror(refs[i].Token)
	}
	return b.Store.Release(ctx, refs)
}
