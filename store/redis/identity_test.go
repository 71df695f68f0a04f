package redis

import (
	"errors"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/tick"
)

// reopened waits until a store has found its restarted server again: a pooled connection of before may
// fail once.
func reopened(t *testing.T, s *store.Store) {
	t.Helper()
	waitFor(t, "the server", func() bool { _, err := s.Now(t.Context()); return err == nil })
}

func wantHeldBack(t *testing.T, s *store.Store, key lease.Key) time.Time {
	t.Helper()
	r, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{request(key)})
	if err != nil {
		t.Fatal(err)
	}
	a := r.Answers[0]
	if a.Status != lease.HeldBack {
		t.Fatalf("acquire %q: %s, want held back", key, a.Status)
	}
	if wait := a.Until.Sub(r.Now); wait <= 0 || wait > s.Properties.MaxTTL {
		t.Errorf("held back for %s, want up to %s", wait, s.Properties.MaxTTL)
	}
	return a.Until
}

func TestHoldBackAfterRestart(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, c := prepared(t, server.URL)
	held := grantOf(t, s, "held")
	server.Restart()
	reopened(t, s)

	until := wantHeldBack(t, s, "k")
	if a := renew(t, s, held.Ref()); a.Status != lease.OK {
		t.Errorf("the holder's renewal: %s", a.Status)
	}
	other := open(t, c)
	if !other.Properties.HoldUntil.Equal(until) {
		t.Errorf("another opening: held back until %v, want %v", other.Properties.HoldUntil, until)
	}
	if other.Properties.InstallationID != s.Properties.InstallationID {
		t.Error("the installation id changed")
	}
	c.Init = true // an init does not cut short what protects live leases
	if got := wantHeldBack(t, open(t, c), "k"); !got.Equal(until) {
		t.Errorf("after init: until %v, want %v", got, until)
	}

	// The wait is what the record says, and nothing else: with its end in the past grants go on.
	raw := rawClient(t, c)
	past := storeNow(t, s).Add(-time.Second).UnixMicro()
	if err := raw.HSet(t.Context(), "dibs:{"+c.Namespace+"}:meta", "hold_until", past).Err(); err != nil {
		t.Fatal(err)
	}
	grantOf(t, s, "k")
}

// What a restart without a log leaves: an empty server, under a client that had found it prepared.
func TestHoldBackAfterLossOfAllData(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--appendonly", "no")
	s, c := prepared(t, server.URL)
	held := grantOf(t, s, "held")
	server.Restart()
	reopened(t, s)
	stillRefused(t, s, c, held)
}

// A wiped server is the same process, with the same run_id: the record's absence tells.
func TestHoldBackAfterFlush(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, c := prepared(t, server.URL)
	held := grantOf(t, s, "held")
	if err := rawClient(t, c).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	stillRefused(t, s, c, held)
}

func stillRefused(t *testing.T, s *store.Store, c store.Config, held lease.Record) {
	t.Helper()
	until := wantHeldBack(t, s, "held")
	if again := wantHeldBack(t, s, "k"); !again.Equal(until) {
		t.Errorf("the wait grew from %v to %v", until, again)
	}
	if a := renew(t, s, held.Ref()); a.Status != lease.Gone {
		t.Errorf("renewal of a lease that is lost: %s", a.Status)
	}
	// A claim stands on a live lease, so it is refused as well.
	r, err := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "j", At: time.Now().Truncate(time.Second), Lease: held.Ref()}})
	if err != nil || r[0].Status != tick.Lapsed {
		t.Errorf("claim: %+v, %v", r, err)
	}
	other := open(t, c)
	if !other.Properties.HoldUntil.Equal(until) || other.Properties.MaxTTL != s.Properties.MaxTTL {
		t.Errorf("another opening: %+v", other.Properties)
	}
	if other.Properties.InstallationID == s.Properties.InstallationID {
		t.Error("a wiped store is not the same installation")
	}
}

func TestReplicaIsUnavailable(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, c := prepared(t, server.URL)
	if err := rawClient(t, c).Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{request("k")})
	if !errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("acquire on a replica: %v", err)
	}
}

// The ttl was raised under a process that goes on, and then the data was lost: leases may live for as long as anybody
// was allowed to have them.
func TestHoldBackAfterFlushIsForTheLongestTTLThatWasSeen(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, c := prepared(t, server.URL)
	c.Init, c.TTL = true, time.Minute
	open(t, c)
	grantOf(t, s, "k") // whose answer tells the ttl
	if err := rawClient(t, c).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	a := acquire(t, s, request("k"))
	if a.Status != lease.HeldBack || a.Until.Sub(storeNow(t, s)) < 50*time.Second {
		t.Errorf("%s until %v, want held back for a minute", a.Status, a.Until)
	}
}

// Holds: promise 28.
func TestAnInstallationIDIsNoPath(t *testing.T) {
	t.Parallel()
	_, c := prepared(t, testserver.Redis(t))
	raw := rawClient(t, c)
	storetest.AnInstallationIDIsNoPath(t, OpenConfig, c, func(id string) {
		if err := raw.HSet(t.Context(), "dibs:{"+c.Namespace+"}:meta", "id", id).Err(); err != nil {
			t.Fatal(err)
		}
	})
}
