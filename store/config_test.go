package store_test

import (
	"strings"
	"testing"

	"github.com/dibs-run/dibs/store"
)

// A statement about a store's reach is accepted where it can be true, and refused elsewhere: it would change nothing,
// and somebody would rely on it.
// Holds: promise 12.
func TestReach(t *testing.T) {
	for address, want := range map[string]struct {
		fleet, only bool
		err         string
	}{
		"/var/lib/dibs":                             {},
		"/var/lib/dibs?reach=only-host":             {only: true},
		"file:///var/lib/dibs?reach=only-host":      {only: true},
		"/var/lib/dibs?reach=fleet":                 {err: "reaches this host only"},
		"redis://127.0.0.1:6379?reach=fleet":        {fleet: true},
		"redis://127.0.0.1:6379?reach=only-host":    {err: "only-host is for a directory"},
		"postgres://u:secret@db/app?reach=anywhere": {err: "want fleet"},
	} {
		c, err := store.Parse(address)
		switch {
		case want.err == "" && (err != nil || c.FleetReach != want.fleet || c.OnlyHost != want.only || strings.Contains(c.String(), "reach")):
			t.Errorf("%s: %+v, %v", address, c, err)
		case want.err != "" && (err == nil || !strings.Contains(err.Error(), want.err) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v", address, err)
		}
	}
}

// An address of PostgreSQL may leave its host to the environment.
func TestLoopbackByTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		address, name, value string
		local                bool
	}{
		{"postgres:///app", "PGHOST", "", true},
		{"postgres:///app", "PGHOST", "/run/postgresql", true},
		{"postgres:///app", "PGHOST", "db.internal", false},
		{"postgres:///app", "PGHOST", "localhost,db.internal", false},
		{"postgres:///app", "PGSERVICE", "fleet", false},
		{"postgres:///app?service=fleet", "PGHOST", "", false},
		{"postgres://localhost/app", "PGHOST", "db.internal", true},
		{"postgres://u@:5433/app", "PGHOST", "db.internal", false},
		{"postgres://localhost/app?host=db.internal", "PGHOST", "", false},
		{"postgres://db.internal/app?host=127.0.0.1", "PGHOST", "", true},
		{"mysql:///app", "PGHOST", "db.internal", true},
	} {
		t.Setenv("PGHOST", "")
		t.Setenv("PGSERVICE", "")
		t.Setenv(c.name, c.value)
		parsed, err := store.Parse(c.address)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Loopback() != c.local {
			t.Errorf("%s with %s=%s: local is %t", c.address, c.name, c.value, !c.local)
		}
	}
}
