package memory_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// The hold-back of a fast clock ends, as storetest.RunHoldBack checks for the stores whose record can be written from
// outside.
// Holds: promise 1.
func TestAHoldBackOfAFastClockEnds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).Add(time.Hour)
	b := memory.New(memory.Options{HoldBack: true, Clock: func() time.Time { return now }})
	ask := func() lease.Answer {
		r, err := b.Store().Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: "k", TTL: lease.DefaultTTL, Holder: lease.Holder{ID: lease.NewNonce()}}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Answers[0]
	}
	now = now.Add(-time.Hour)
	until := now.Add(lease.DefaultTTL)
	for range 3 {
		if a := ask(); a.Status != lease.HeldBack || !a.Until.Equal(until) {
			t.Errorf("at %v: %v until %v, want %v", now, a.Status, a.Until, until)
		}
		now = now.Add(5 * time.Second)
	}
	if a := ask(); a.Status != lease.OK {
		t.Errorf("one max_ttl after the clock was put right: %v until %v", a.Status, a.Until)
	}
}
