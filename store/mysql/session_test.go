package mysql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

func TestNamedLockExcludes(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, withSessionLock(address))
	one, other := mustOpen(t, c), mustOpen(t, c)

	ref := grant(t, one, request("k"))
	if a := acquire(t, other, request("k")); a.Status != lease.Held || a.Record.Ref() != ref {
		t.Errorf("Acquire by another process: %v of %v, want held of %v", a.Status, a.Record.Ref(), ref)
	}
	// Whatever is refused by a name, the reply tells the namespace's epoch.
	var epochs []lease.Epoch
	for _, keys := range [][]lease.Key{{"k"}, {"k", "free"}, {"free"}} {
		var reqs []lease.AcquireRequest
		for _, k := range keys {
			reqs = append(reqs, request(k))
		}
		r, err := other.Leases.Acquire(t.Context(), reqs)
		if err != nil {
			t.Fatal(err)
		}
		epochs = append(epochs, r.Epoch)
		for _, a := range r.Answers {
			if a.Status == lease.OK {
				release(t, other, a.Record.Ref())
			}
		}
	}
	if epochs[2] == 0 || epochs[0] != epochs[2] || epochs[1] != epochs[2] {
		t.Errorf("epochs that were told: %v", epochs)
	}
	if s := renew(t, one, ref); s != lease.OK {
		t.Errorf("Renew: %v", s)
	}
	release(t, one, ref)
	release(t, other, grant(t, other, request("k")))

	// Close frees the name with the row.
	ref = grant(t, one, request("k"))
	id := run.NewID()
	if a, err := one.Ticks.Start(t.Context(), []tick.StartRequest{{Run: run.Record{ID: id, Job: "j"}, Lease: ref}}); err != nil || a[0].Status != tick.Won {
		t.Fatal(a, err)
	}
	closed, err := one.Ticks.Close(t.Context(), []tick.CloseRequest{{Release: ref,
		Run: run.Record{ID: id, Job: "j", Owner: ref.Owner, Token: ref.Token, Outcome: run.Succeeded}}})
	if err != nil || closed[0].Status != tick.Won {
		t.Fatal(closed, err)
	}
	grant(t, other, request("k"))
}

func TestNamedLockOfAnotherProgram(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, withSessionLock(address))
	s := mustOpen(t, c)
	conn, err := raw(t, address, nil).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	name := c.Namespace + ":invoices"
	var got int
	if err := conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(?, 0)", name).Scan(&got); err != nil || got != 1 {
		t.Fatal(got, err)
	}
	a := acquire(t, s, request("invoices"))
	if a.Status != lease.Held || !strings.Contains(a.Record.Holder.Command, name) {
		t.Errorf("Acquire: %v of %+v, want held by GET_LOCK('%s')", a.Status, a.Record.Holder, name)
	}
	if err := conn.QueryRowContext(t.Context(), "SELECT RELEASE_LOCK(?)", name).Scan(&got); err != nil || got != 1 {
		t.Fatal(got, err)
	}
	grant(t, s, request("invoices"))
	if err := conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(?, 0)", name).Scan(&got); err != nil || got != 0 {
		t.Errorf("the other program got %s although the lease is held: %d, %v", name, got, err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ ns, key, want string }{
		{"dibs", "app.invoices-2_x", "app.invoices-2_x"},
		{"staging", "invoices", "staging:invoices"},
		{"dibs", "app/invoices", "dibs:"},
		{"dibs", "Invoices", "dibs:"},
		{"dibs", "a:b", "dibs:"},
		{"Prod", "invoices", "dibs:"},
		{"dibs", strings.Repeat("a", 64), strings.Repeat("a", 64)},
		{"dibs", strings.Repeat("a", 65), "dibs:"},
	} {
		got := (&names{ns: x.ns}).name(lease.Key(x.key))
		if hashed := x.want == "dibs:"; len(got) > 64 || got != x.want && !(hashed && len(got) == 61 && strings.HasPrefix(got, x.want)) {
			t.Errorf("name of %q in %q: %q, want %q", x.key, x.ns, got, x.want)
		}
	}
}

func TestKilledConnectionEndsItsHolds(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, withSessionLock(address))
	s, other := mustOpen(t, c), mustOpen(t, c)
	db := raw(t, address, nil)
	one, two, once := grant(t, s, request("one")), grant(t, s, request("two")), grant(t, s, request(lease.OnceKey()))
	exec(t, db, "KILL ?", count(t, db, "SELECT IS_USED_LOCK(?)", c.Namespace+":one"))
	eventually(t, "its names are free", func() bool {
		return count(t, db, "SELECT IS_FREE_LOCK(?)", c.Namespace+":two") == 1
	})
	for _, ref := range []lease.Ref{one, two} {
		if got := renew(t, s, ref); got != lease.Gone {
			t.Errorf("Renew of %q after KILL: %v, want gone", ref.Key, got)
		}
	}
	if got := renew(t, s, once); got != lease.OK {
		t.Errorf("Renew of a lease without a name: %v, want ok", got)
	}
	if a := acquire(t, other, request("one")); a.Status != lease.Held {
		t.Errorf("Acquire while the row is live: %v, want held: the row decides as ever", a.Status)
	}
	release(t, s, one)
	grant(t, other, request("one"))
	grant(t, s, request("three")) // it has a new connection
}

func TestUnrenewedNameIsFreed(t *testing.T) {
	t.Parallel()
	c := config(t, withSessionLock(testserver.MariaDB(t)))
	s, other := mustOpen(t, c), mustOpen(t, c)
	req := request("k")
	req.TTL = time.Second
	ref := grant(t, s, req)
	eventually(t, "another gets it", func() bool { return acquire(t, other, request("k")).Status == lease.OK })
	if got := renew(t, s, ref); got != lease.Gone {
		t.Errorf("Renew by the first: %v, want gone", got)
	}
}

// A hiccup of the server that the lease survives must not cost the named lock.
func TestNamedLockSurvivesAStoppedServer(t *testing.T) {
	t.Parallel()
	srv := testserver.StartMariaDB(t)
	c := config(t, withSessionLock(srv.URL))
	s := mustOpen(t, c)
	ref := grant(t, s, request("k"))
	srv.Stop()
	for range 3 {
		if _, err := s.Leases.Renew(within(t, 200*time.Millisecond), []lease.RenewRequest{{Ref: ref, TTL: long}}); !errors.Is(err, lease.ErrUnavailable) {
			t.Errorf("Renew on a stopped server: %v, want it to wrap ErrUnavailable", err)
		}
	}
	srv.Cont()
	if got := renew(t, s, ref); got != lease.OK {
		t.Errorf("Renew afterwards: %v, want ok", got)
	}
}

// An acquire that was given up may have been granted: its name stays until the lease would have lapsed.
func TestDoubtKeepsTheName(t *testing.T) {
	t.Parallel()
	srv := testserver.StartMariaDB(t)
	c := config(t, withSessionLock(srv.URL))
	s := mustOpen(t, c)
	release(t, s, grant(t, s, request("k"))) // the pinned connection is there
	n := s.Leases.(session).names
	req := request("k")
	req.TTL = time.Second
	n.doubt("k", req.Holder.ID, time.Minute) // without the name: nothing to keep
	if n.has(lease.Ref{Key: "k", Owner: req.Holder.ID}) {
		t.Error("a name that is not ours has an owner")
	}
	taken, err := n.take(t.Context(), []lease.Key{"k"})
	if err != nil {
		t.Fatal(err)
	}
	const doubt = 500 * time.Millisecond
	begun := time.Now()
	over := func() bool { return time.Since(begun) > doubt } // on a slow machine
	n.doubt("k", req.Holder.ID, doubt)
	if idle := n.untake(taken); len(idle) != 0 && !over() {
		t.Errorf("the name is idle while its owner is in doubt: %q", idle)
	}
	if !n.has(lease.Ref{Key: "k", Owner: req.Holder.ID, Token: 7}) && !over() {
		t.Error("the owner in doubt is not known")
	}
	db := raw(t, srv.URL, nil)
	if count(t, db, "SELECT IS_FREE_LOCK(?)", c.Namespace+":k") == 1 && !over() {
		t.Error("the name is free while its owner is in doubt")
	}
	eventually(t, "the name is freed", func() bool { return count(t, db, "SELECT IS_FREE_LOCK(?)", c.Namespace+":k") == 1 })

	// A take that its caller no longer waits for gives its names back.
	srv.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := n.take(ctx, []lease.Key{"k"}); !errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("take on a stopped server: %v", err)
	}
	srv.Cont()
	eventually(t, "the abandoned name is freed", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.held) == 0
	})
	if err := n.ping(t.Context()); err != nil { // the undo before it is done
		t.Fatal(err)
	}
	if count(t, db, "SELECT IS_FREE_LOCK(?)", c.Namespace+":k") != 1 {
		t.Error("an abandoned take kept the name")
	}
}

// An acquire that ends after the connection was lost leaves the name alone that another one has taken since.
// Holds: L11.
func TestAnOldAcquireFreesNoNewName(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, config(t, withSessionLock(testserver.MariaDB(t))))
	n := s.Leases.(session).names
	old, err := n.take(t.Context(), []lease.Key{"k"})
	if err != nil {
		t.Fatal(err)
	}
	n.forget() // as the loss of the connection does
	if _, err := n.take(t.Context(), []lease.Key{"k"}); err != nil {
		t.Fatal(err)
	}
	if idle := n.untake(old); len(idle) > 0 {
		t.Errorf("it frees %q, which another one has", idle)
	}
}
