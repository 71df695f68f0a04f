package mysql

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// Rule L1: a stopped server carries out what its sockets buffered when it wakes. Of that, nothing
// that has become late may be granted, revived, claimed or started.
// Holds: L1.
func TestLateRequestsOfDeadClients(t *testing.T) {
	t.Parallel()
	srv := testserver.StartMariaDB(t)
	c := config(t, srv.URL)
	var on sockets
	pool := raw(t, srv.URL, on.watch)
	pool.SetMaxIdleConns(12)
	client, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}

	server := grant(t, client, request("server"))
	short := request("renewed")
	short.TTL = 500 * time.Millisecond
	renewed := grant(t, client, short)
	at := time.Now().Add(-time.Hour).Truncate(time.Minute)
	claimed := tick.ClaimRequest{Job: "started", At: at, Lease: server}
	if a, err := client.Ticks.Claim(t.Context(), []tick.ClaimRequest{claimed}); err != nil || a[0].Status != tick.Won {
		t.Fatal(a, err)
	}
	for _, k := range []lease.Key{"late", "unbounded"} { // whose rows are there: a packet that makes none grants them
		release(t, client, grant(t, client, request(k)))
	}
	// A warm connection for each request, so that none waits for a greeting of the stopped server.
	var warm sync.WaitGroup
	for range 12 {
		warm.Go(func() { _, _ = client.Leases.Read(t.Context(), []lease.Key{"renewed", "server"}) })
	}
	warm.Wait()

	_, now := read(t, client, "server")
	late := request("late")
	late.NotAfter = now.Add(300 * time.Millisecond)
	once := request(lease.OnceKey()) // whose row the packet makes
	once.NotAfter = late.NotAfter
	srv.Stop()
	ctx, giveUp := context.WithCancel(t.Context())
	written := on.writes.Load() + 6
	var sent sync.WaitGroup
	unanswered := func(what string, call func() error) {
		sent.Go(func() {
			if err := call(); !errors.Is(err, lease.ErrUnavailable) {
				t.Errorf("%s on a stopped server: %v, want it to wrap ErrUnavailable", what, err)
			}
		})
	}
	unanswered("Acquire", func() error {
		_, err := client.Leases.Acquire(ctx, []lease.AcquireRequest{late})
		return err
	})
	unanswered("Acquire of a new key", func() error {
		_, err := client.Leases.Acquire(ctx, []lease.AcquireRequest{once})
		return err
	})
	unanswered("Renew", func() error {
		_, err := client.Leases.Renew(ctx, []lease.RenewRequest{{Ref: renewed, TTL: long}})
		return err
	})
	unanswered("Claim", func() error {
		_, err := client.Ticks.Claim(ctx, []tick.ClaimRequest{{Job: "claimed", At: at, Lease: server, NotAfter: late.NotAfter}})
		return err
	})
	unanswered("Start", func() error {
		_, err := client.Ticks.Start(ctx, []tick.StartRequest{{Run: run.Record{ID: run.NewID(), Job: "started", Tick: at},
			Claim: server, Lease: server, NotAfter: late.NotAfter}})
		return err
	})
	// What has no bound is carried out however late: it shows that the buffers were not lost.
	unanswered("Acquire without a bound", func() error {
		_, err := client.Leases.Acquire(ctx, []lease.AcquireRequest{request("unbounded")})
		return err
	})
	eventually(t, "all are sent", func() bool { return on.writes.Load() >= written })
	giveUp()
	sent.Wait() // the driver has closed the six sockets
	time.Sleep(time.Until(now.Add(700 * time.Millisecond)))
	srv.Cont()

	c.Init = false
	after := mustOpen(t, c)
	db := raw(t, srv.URL, nil)
	eventually(t, "the unbounded acquire is carried out", func() bool {
		rec, now := read(t, after, "unbounded")
		return rec.Live(now)
	})
	eventually(t, "no request is left under way", func() bool {
		return count(t, db, "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Query' AND id <> CONNECTION_ID()") == 0
	})
	for _, k := range []lease.Key{late.Key, once.Key} {
		if rec, now := read(t, after, k); rec.Live(now) {
			t.Errorf("a late acquire was granted: %+v", rec)
		}
	}
	if rec, now := read(t, after, "renewed"); rec.Live(now) {
		t.Errorf("a lapsed lease was revived: %+v", rec)
	}
	ticks, err := after.History.Ticks(t.Context(), history.Query{})
	if err != nil || len(ticks) != 1 || ticks[0].State != tick.Claimed {
		t.Errorf("late claims or starts were carried out: %+v, %v", ticks, err)
	}
	if runs, err := after.History.Runs(t.Context(), history.Query{}); err != nil || len(runs) != 0 {
		t.Errorf("a late start left a run: %+v, %v", runs, err)
	}
}

// The clock is read after the wait for a row, not when the request began.
func TestWaitForARowCounts(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, address)
	s := mustOpen(t, c)
	grant(t, s, request("other"))
	release(t, s, grant(t, s, request("free")))
	held := grant(t, s, request("held"))

	tx, err := raw(t, address, nil).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("SELECT 1 FROM dibs_leases WHERE ns = ? AND lease_key IN ('free', 'held') FOR UPDATE", []byte(c.Namespace)); err != nil {
		t.Fatal(err)
	}
	_, now := read(t, s, "other")
	bound := now.Add(300 * time.Millisecond)
	answers := make(chan lease.Answer, 2)
	answer := func(r lease.Reply, err error) {
		if err != nil {
			t.Error(err)
			r.Answers = make([]lease.Answer, 1)
		}
		answers <- r.Answers[0]
	}
	go func() {
		req := request("free")
		req.NotAfter = bound
		answer(s.Leases.Acquire(t.Context(), []lease.AcquireRequest{req}))
	}()
	go func() {
		answer(s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: held, TTL: long, NotAfter: bound}}))
	}()
	eventually(t, "the bound has passed", func() bool { _, now := read(t, s, "other"); return now.After(bound) })
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if a := <-answers; a.Status != lease.Late {
			t.Errorf("an answer after a wait past the bound: %v for %q, want late", a.Status, a.Record.Key)
		}
	}
}
