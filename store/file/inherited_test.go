//go:build linux

package file

import (
	"context"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// inherited is a hold of which a command has a part: its lock is held for as long as that lives, whatever the
// record says.
func inherited(t *testing.T, s *store.Store, ttl time.Duration) lease.Record {
	t.Helper()
	r, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: "k", TTL: ttl, Holder: lease.Holder{ID: lease.NewNonce()}}})
	if err != nil || r.Answers[0].Status != lease.OK {
		t.Fatal(r, err)
	}
	f, err := s.Descriptor(r.Answers[0].Record.Ref())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return r.Answers[0].Record
}

// Rule L1: a lapsed lease is never revived, also while a command keeps its lock.
// Holds: L1.
func TestALapsedHoldThatWasInheritedIsNotRevived(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	r := inherited(t, s, 500*time.Millisecond)
	for now := r.Acquired; !now.After(r.Expires); time.Sleep(10 * time.Millisecond) {
		var err error
		if now, err = s.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	renewed, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: r.Ref(), TTL: time.Minute}})
	if err != nil || renewed.Answers[0].Status != lease.Gone {
		t.Errorf("it is %v: %+v, %v", renewed.Answers[0].Status, renewed.Answers[0].Record, err)
	}
}

// What was released is nobody's lease, also while a command keeps its lock: nothing can be claimed under it.
func TestAReleasedHoldThatWasInheritedIsNotAlive(t *testing.T) {
	s := openAt(t, t.TempDir())
	ref := inherited(t, s, 15*time.Second).Ref()
	if r, err := s.Leases.Release(t.Context(), []lease.Ref{ref}); err != nil || r.Answers[0].Status != lease.OK {
		t.Fatal(r, err)
	}
	a, err := s.Ticks.Claim(context.Background(), []tick.ClaimRequest{{Job: "j", At: time.Now().Add(-time.Minute), Lease: ref}})
	if err != nil || a[0].Status != tick.Lapsed {
		t.Errorf("a claim under it is %v, %v", a, err)
	}
}
