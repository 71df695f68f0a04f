package mysql

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// What a server with nothing to do asks, several times per TTL, is few statements. The session that asks counts them.
func TestWhatIsAskedOftenIsFewStatements(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, address)
	mustOpen(t, c) // which makes the namespace
	db := raw(t, address, nil)
	db.SetMaxOpenConns(1)
	s, err := New(t.Context(), db, c)
	if err != nil {
		t.Fatal(err)
	}
	s.Leases.(leases).shared = false // as a pool of dibs's own
	asked := func() (n int64) {
		var name string
		if err := db.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	server, sweep := lease.OnceKey(), lease.Key("app").Sweep()
	ref := grant(t, s, request(server))
	turn := grant(t, s, request(sweep))
	release(t, s, turn)
	for _, x := range []struct {
		what string
		most int64
		do   func()
	}{
		{"a heartbeat", 2, func() {
			if got := renew(t, s, ref); got != lease.OK {
				t.Errorf("Renew: %v", got)
			}
		}},
		{"a look at a lease", 1, func() { read(t, s, sweep) }},
		{"the time", 1, func() {
			if r, err := s.Leases.Read(t.Context(), nil); err != nil || r.Now.IsZero() {
				t.Error(r, err)
			}
		}},
		{"a look at the servers", 1, func() {
			if r, err := s.Leases.List(t.Context(), "once", false); err != nil || len(r.Answers) != 1 || r.Now.IsZero() {
				t.Error(r, err)
			}
		}},
		{"a look at none", 1, func() {
			if r, err := s.Leases.List(t.Context(), "no such", false); err != nil || len(r.Answers) != 0 || r.Now.IsZero() {
				t.Error(r, err)
			}
		}},
		{"the turn to sweep", 7, func() { turn = grant(t, s, request(sweep)) }},
		{"the turn is over", 2, func() { release(t, s, turn) }},
		{"unfinished ticks", 1, func() {
			if _, err := s.Ticks.Orphans(t.Context(), tick.Look{}); err != nil {
				t.Error(err)
			}
		}},
		{"ticks that are owed", 1, func() {
			if _, err := s.Ticks.Owed(t.Context(), tick.OwedLook{App: "app"}); err != nil {
				t.Error(err)
			}
		}},
		{"a part of the registry", 1, func() {
			if _, err := s.Ticks.Jobs(t.Context(), tick.JobQuery{}); err != nil {
				t.Error(err)
			}
		}},
	} {
		before := asked()
		x.do()
		if n := asked() - before - 1; n > x.most {
			t.Errorf("%s: %d statements, want %d", x.what, n, x.most)
		}
	}
}

// Rule L1: a lease that lapses while its renewal waits for its row is not revived.
// Holds: L1.
func TestARenewalThatWaitedIsOfItsOwnTime(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, address)
	s := mustOpen(t, c)
	r := request("k")
	r.TTL = time.Second
	ref := grant(t, s, r)
	tx, err := raw(t, address, nil).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec("SELECT 1 FROM dibs_leases FORCE INDEX (PRIMARY) WHERE ns = ? AND lease_key = 'k' FOR UPDATE", []byte(c.Namespace)); err != nil {
		t.Fatal(err)
	}
	answer := make(chan lease.Status, 1)
	go func() { answer <- renew(t, s, ref) }()
	eventually(t, "it has lapsed", func() bool {
		rec, now := read(t, s, "k")
		return !rec.Live(now)
	})
	select {
	case got := <-answer:
		t.Fatalf("%v without waiting for the row", got)
	default:
	}
	_ = tx.Rollback()
	if got := <-answer; got != lease.Gone {
		t.Errorf("after the wait: %v", got)
	}
	if rec, now := read(t, s, "k"); rec.Live(now) {
		t.Errorf("it was revived: %+v", rec)
	}
}

// A renewal and a release of a hold that is no more say so, also where another has the key.
func TestAHoldThatIsNoMore(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.MariaDB(t))
	s := mustOpen(t, c)
	old := grant(t, s, request("k"))
	release(t, s, old)
	held := grant(t, s, request("k"))
	if got := renew(t, s, old); got != lease.Gone {
		t.Errorf("Renew: %v", got)
	}
	reply, err := s.Leases.Release(t.Context(), []lease.Ref{old})
	if err != nil || reply.Answers[0].Status != lease.Gone || reply.Answers[0].Record.Ref() != held || reply.Now.IsZero() {
		t.Errorf("Release: %+v, %v", reply, err)
	}
	if reply, err = s.Leases.Break(t.Context(), held, lease.Broken{}); err != nil || reply.Answers[0].Status != lease.OK {
		t.Fatal(reply, err)
	}
	if got := renew(t, s, held); got != lease.Gone {
		t.Errorf("Renew of what was broken: %v", got)
	}
	release(t, s, held)
	reply, err = s.Leases.Release(t.Context(), []lease.Ref{held})
	if err != nil || reply.Answers[0].Status != lease.Gone {
		t.Errorf("Release again: %+v, %v", reply, err)
	}
}

// What is answered is committed, also in a session of a shared pool that somebody left without autocommit, or
// in a transaction.
func TestADirtySessionIsCommitted(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	for _, dirt := range []string{"SET autocommit = 0", "START TRANSACTION"} {
		c := config(t, address)
		other := mustOpen(t, c)
		db := raw(t, address, nil)
		db.SetMaxOpenConns(1)
		s, err := New(t.Context(), db, c)
		if err != nil {
			t.Fatal(err)
		}
		ref := grant(t, s, request("k"))
		was, _ := read(t, other, "k")
		exec(t, db, dirt)
		if got := renew(t, s, ref); got != lease.OK {
			t.Errorf("%s: Renew: %v", dirt, got)
		}
		if is, _ := read(t, other, "k"); !is.Expires.After(was.Expires) {
			t.Errorf("%s: renewed, it said; for others it expires at %v as before", dirt, is.Expires)
		}
		exec(t, db, dirt)
		release(t, s, ref)
		if is, now := read(t, other, "k"); is.Live(now) {
			t.Errorf("%s: released, it said; for others it is live", dirt)
		}
	}
}
