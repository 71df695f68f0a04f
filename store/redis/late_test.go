package redis

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A server that was stopped carries out, when it wakes, what lies in its sockets' buffers, although who
// sent it is long gone (rule L1).
// Holds: L1.
func TestBufferedRequestsOfTheDead(t *testing.T) {
	server := ownServer(t)
	s, c := prepared(t, server.URL)
	held := grantOf(t, s, "held")
	ref := held.Ref()
	base := storeNow(t, s).Truncate(time.Minute)
	claim(t, s, ref, base) // to be started late
	lapsed := grantOf(t, s, "x").Ref()
	claimAndLapse(t, s, lapsed, base.Add(-time.Minute)) // to be taken late

	dying := open(t, c)
	warm(t, dying, ref, base)
	server.Stop()
	notAfter := time.Now().Add(time.Second)
	control := request("control")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	late := request("k")
	late.NotAfter = notAfter
	sends := []func() error{
		func() error { _, err := dying.Leases.Acquire(ctx, []lease.AcquireRequest{control}); return err },
		func() error { _, err := dying.Leases.Acquire(ctx, []lease.AcquireRequest{late}); return err },
		func() error {
			_, err := dying.Leases.Renew(ctx, []lease.RenewRequest{{Ref: ref, TTL: ttl, NotAfter: notAfter}})
			return err
		},
		func() error {
			_, err := dying.Ticks.Claim(ctx, []tick.ClaimRequest{{Job: "j", At: base.Add(time.Minute), Lease: ref, Ahead: time.Hour, NotAfter: notAfter}})
			return err
		},
		func() error {
			_, err := dying.Ticks.Start(ctx, []tick.StartRequest{{Run: run.Record{ID: "late", Job: "j", Tick: base}, Claim: ref, Lease: ref, NotAfter: notAfter}})
			return err
		},
		func() error {
			_, err := dying.Ticks.Take(ctx, tick.TakeRequest{Job: "j", At: base.Add(-time.Minute), From: lapsed, Lease: ref, NotAfter: notAfter})
			return err
		},
	}
	var wg sync.WaitGroup
	for i, send := range sends {
		wg.Go(func() {
			if err := send(); err == nil {
				t.Errorf("request %d was answered by a stopped server", i)
			}
		})
	}
	wg.Wait()
	_ = dying.Close()
	time.Sleep(time.Until(notAfter) + 50*time.Millisecond) // the server's clock is ours
	server.Cont()

	waitFor(t, "the control request, which has no bound", func() bool { return read(t, s, "control").Status == lease.OK })
	if a := read(t, s, "k"); a.Status != lease.Gone {
		t.Errorf("granted to the dead: %+v", a.Record)
	}
	if r := read(t, s, "held").Record; r.Renewed.After(notAfter) {
		t.Errorf("renewed for the dead at %v", r.Renewed)
	}
	rows, err := s.History.Ticks(t.Context(), history.Query{Job: "j"})
	if err != nil || len(rows) != 2 {
		t.Fatalf("ticks: %+v, %v", rows, err)
	}
	for _, row := range rows {
		if row.State != tick.Claimed || row.At.Before(base) && row.Lease != lapsed {
			t.Errorf("changed for the dead: %+v", row)
		}
	}
}

// warm makes a connection for each request, and has the server know their scripts: else a late EVALSHA
// does nothing for want of its script, which proves nothing.
func warm(t *testing.T, s *store.Store, ref lease.Ref, base time.Time) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: ttl}}); err != nil {
					t.Errorf("warming %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	stranger := lease.Ref{Key: "nobody", Owner: lease.NewNonce(), Token: 1}
	_, err1 := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "j", At: base, Lease: stranger}})
	_, err2 := s.Ticks.Start(t.Context(), []tick.StartRequest{{Run: run.Record{ID: "none", Job: "none", Tick: base}, Lease: stranger}})
	_, err3 := s.Ticks.Take(t.Context(), tick.TakeRequest{Job: "none", At: base, Lease: stranger})
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
}

func claim(t *testing.T, s *store.Store, ref lease.Ref, at time.Time) {
	t.Helper()
	r, err := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "j", At: at, Lease: ref}})
	if err != nil || r[0].Status != tick.Won {
		t.Fatalf("claim: %+v, %v", r, err)
	}
}

// claimAndLapse leaves a claim whose lease is not live.
func claimAndLapse(t *testing.T, s *store.Store, ref lease.Ref, at time.Time) {
	t.Helper()
	renewFor(t, s, ref, 300*time.Millisecond)
	claim(t, s, ref, at)
	waitFor(t, "the lease's end", func() bool { return !read(t, s, ref.Key).Record.Live(storeNow(t, s)) })
}

func renewFor(t *testing.T, s *store.Store, ref lease.Ref, d time.Duration) {
	t.Helper()
	r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: d}})
	if err != nil || r.Answers[0].Status != lease.OK {
		t.Fatalf("renew: %+v, %v", r, err)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}
