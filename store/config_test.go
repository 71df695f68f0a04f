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
