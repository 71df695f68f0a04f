package mysql

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// ownDatabase is an empty database on the shared server.
func ownDatabase(t *testing.T) string {
	t.Helper()
	address := testserver.MariaDB(t)
	name := "dibs_" + lease.NewNonce().String()[:12]
	db := raw(t, address, nil)
	exec(t, db, "CREATE DATABASE "+name)
	t.Cleanup(func() { _, _ = db.Exec("DROP DATABASE " + name) })
	c := config(t, address)
	c.URL.Path = "/" + name
	return c.URL.String()
}

func TestConcurrentFirstOpen(t *testing.T) {
	t.Parallel()
	c := config(t, ownDatabase(t))
	stores := make([]*store.Store, 10)
	var opening sync.WaitGroup
	for i := range stores {
		opening.Go(func() {
			s, err := OpenConfig(t.Context(), c)
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			t.Cleanup(func() { _ = s.Close() })
			stores[i] = s
		})
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	prepared := 0
	for _, s := range stores {
		if s.Properties.InstallationID != stores[0].Properties.InstallationID {
			t.Error("two installation ids")
		}
		prepared += len(s.Prepared)
	}
	if want := 1 + 1; prepared != want { // each version and the namespace, each by one
		t.Errorf("%d things were prepared, want %d", prepared, want)
	}
	grant(t, stores[9], request("k"))
}

func TestMigrationsCanBeRepeated(t *testing.T) {
	t.Parallel()
	address := ownDatabase(t)
	c := config(t, address)
	ref := grant(t, mustOpen(t, c), request("k"))
	db := raw(t, address, nil)
	exec(t, db, "DELETE FROM dibs_schema") // as if it had been cut short before its last statement
	if rec, _ := read(t, mustOpen(t, c), "k"); rec.Ref() != ref {
		t.Errorf("after a repeated migration: %+v", rec)
	}
	exec(t, db, "INSERT INTO dibs_schema VALUES (9999, 9999)")
	if _, err := OpenConfig(t.Context(), c); err == nil || !strings.Contains(err.Error(), "upgrade dibs") {
		t.Errorf("a schema from the future: %v", err)
	}
}

// Rule L9: a server that the namespace does not know grants nothing, found at a grant or at Open.
// Holds: L9.
func TestAnotherServer(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	db := raw(t, address, nil)
	for name, change := range map[string]string{
		"another identity": "UPDATE dibs_meta SET identity = 'another' WHERE ns = ?",
		"no record":        "DELETE FROM dibs_meta WHERE ns = ?",
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, address)
			s := mustOpen(t, c)
			ref := grant(t, s, request("old"))
			exec(t, db, change, []byte(c.Namespace))
			_, before := read(t, s, "old")
			a := acquire(t, s, request("new"))
			if a.Status != lease.HeldBack || a.Until.Before(before.Add(lease.DefaultTTL)) {
				t.Fatalf("Acquire: %v until %v, want held back for max_ttl from %v", a.Status, a.Until, before)
			}
			if again := acquire(t, s, request("new")); again.Status != lease.HeldBack || !again.Until.Equal(a.Until) {
				t.Errorf("Acquire again: %v until %v, want held back until %v", again.Status, again.Until, a.Until)
			}
			if got := renew(t, s, ref); got != lease.OK {
				t.Errorf("Renew: %v, want ok: it is no grant", got)
			}
			if p := mustOpen(t, c).Properties; !p.HoldUntil.Equal(a.Until) {
				t.Errorf("HoldUntil after init: %v, want %v: the store is not empty", p.HoldUntil, a.Until)
			}
			exec(t, db, "UPDATE dibs_meta SET hold_until = 1 WHERE ns = ?", []byte(c.Namespace))
			grant(t, s, request("new"))
		})
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, address)
	c.URL = nil
	for name, x := range map[string]struct {
		change func(*mysqldriver.Config)
		want   string
	}{
		"as documented":      {func(*mysqldriver.Config) {}, ""},
		"no interpolation":   {func(c *mysqldriver.Config) { c.InterpolateParams = false }, "interpolateParams"},
		"single statements":  {func(c *mysqldriver.Config) { c.MultiStatements = false }, "multiStatements"},
		"another zone":       {func(c *mysqldriver.Config) { c.Params["time_zone"] = "'+02:00'" }, "time_zone"},
		"lax":                {func(c *mysqldriver.Config) { c.Params["sql_mode"] = "''" }, "sql_mode"},
		"a time of its own":  {func(c *mysqldriver.Config) { c.Params["timestamp"] = "1000000000" }, "timestamp"},
		"another isolation":  {func(c *mysqldriver.Config) { c.Params["tx_isolation"] = "'SERIALIZABLE'" }, ""},
		"no autocommit":      {func(c *mysqldriver.Config) { c.Params["autocommit"] = "0" }, "autocommit"},
		"found rows counted": {func(c *mysqldriver.Config) { c.ClientFoundRows = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := raw(t, address, x.change)
			s, err := New(t.Context(), db, c)
			if x.want != "" {
				if err == nil || !strings.Contains(err.Error(), x.want) || errors.Is(err, lease.ErrUnavailable) {
					t.Fatalf("New: %v, want it to say %s", err, x.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			ref := grant(t, s, request("k"))
			if got := renew(t, s, ref); got != lease.OK {
				t.Errorf("Renew: %v", got)
			}
			release(t, s, ref)
			if err := errors.Join(s.Close(), db.Ping()); err != nil {
				t.Errorf("the pool after Close: %v", err)
			}
		})
	}
}

// A server that does not answer is unavailable, an address that is wrong is not, and no error shows a password.
// Holds: promise 7.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	c := config(t, "mysql://user:geheim@127.0.0.1:1/test")
	_, err := OpenConfig(within(t, 5*time.Second), c)
	if !errors.Is(err, lease.ErrUnavailable) || strings.Contains(err.Error(), "geheim") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("Open: %v", err)
	}
	for _, bad := range []string{"mysql://", "mysql://host", "mysql://host/db?tls=nonsense"} {
		if _, err := OpenConfig(t.Context(), config(t, bad)); err == nil || errors.Is(err, lease.ErrUnavailable) {
			t.Errorf("Open(%s): %v", bad, err)
		}
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	if len(statements()) < 40 {
		t.Errorf("%d statements", len(statements()))
	}
	p := new(packet).add("prune-events", "ns", rows{{1, "a"}, {2, "b"}}).add("lock-runs", "ns", list{"x", "y", "z"})
	if got := p.text.String(); strings.Count(got, "?") != len(p.args) || !strings.Contains(got, "IN ((?,?),(?,?))") || !strings.Contains(got, "IN (?,?,?)") {
		t.Errorf("%s with %d arguments", got, len(p.args))
	}
}

// Holds: promise 28.
func TestAnInstallationIDIsNoPath(t *testing.T) {
	t.Parallel()
	address := ownDatabase(t)
	c := config(t, address)
	s, err := OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	db := raw(t, address, nil)
	storetest.AnInstallationIDIsNoPath(t, OpenConfig, c, func(id string) {
		exec(t, db, "UPDATE dibs_meta SET installation = ?", id)
	})
}
