//go:build linux

package file

import (
	"os"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// Rule L12: a hold of an earlier boot is over, whatever its instants of that boot's clock would mean in this one.
// Holds: L12.
func TestAHoldOfAnEarlierBootIsOver(t *testing.T) {
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	q := requestFor("k", lease.DefaultTTL)
	q.Holder.Apart = true // else a free lock is enough
	first, err := tryAcquire(s, q)
	if err != nil || first.Status != lease.OK {
		t.Fatal(first.Status, err)
	}
	dies(l, "k")
	ofAnotherBoot(t, l, "k")
	if a, err := tryAcquire(s, q); err != nil || a.Status != lease.OK || a.Record.Token <= first.Record.Token {
		t.Errorf("%v, %+v, %v", a.Status, a.Record, err)
	}
}

// Rule L10: a token is above the last one, also where the clock has been stepped back since.
// Holds: L10.
func TestATokenIsAboveTheLast(t *testing.T) {
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	first := acquire(t, s, "k").Record.Ref()
	if _, err := s.Leases.Release(t.Context(), []lease.Ref{first}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(l.lockPath("k"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := decode(b)
	if err != nil {
		t.Fatal(err)
	}
	r.Token += lease.Token(time.Hour / time.Microsecond)
	if b, err = r.encode(); err == nil {
		err = os.WriteFile(l.lockPath("k"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if next := acquire(t, s, "k").Record.Token; next != r.Token+1 {
		t.Errorf("token %d after %d", next, r.Token)
	}
}

// A request that may still be at work elsewhere outlasts a restart of this host (rule L8).
// Holds: L8.
func TestBusyOutlastsABoot(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	ref := granted(t, s, "k")
	if r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL, BusyUntil: time.Now().Add(time.Hour)}}); err != nil || r.Answers[0].Status != lease.OK {
		t.Fatal(r, err)
	}
	dies(l, "k")
	ofAnotherBoot(t, l, "k")
	q := requestFor("k", lease.DefaultTTL)
	if a, err := tryAcquire(s, q); err != nil || a.Status != lease.Held {
		t.Errorf("%v, %+v, %v", a.Status, a.Record, err)
	}
	q.Unguarded = true
	if a, err := tryAcquire(s, q); err != nil || a.Status != lease.OK {
		t.Errorf("whoever is no danger to it: %v, %v", a.Status, err)
	}
}

// ofAnotherBoot makes a key's record one of an earlier boot of this host.
func ofAnotherBoot(t *testing.T, l *leases, key lease.Key) {
	t.Helper()
	b, err := os.ReadFile(l.lockPath(key))
	if err != nil {
		t.Fatal(err)
	}
	r, err := decode(b)
	if err != nil {
		t.Fatal(err)
	}
	r.Boot = "11111111-2222-3333-4444-555555555555"
	if b, err = r.encode(); err == nil {
		err = os.WriteFile(l.lockPath(key), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
