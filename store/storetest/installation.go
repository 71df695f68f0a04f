package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/store"
)

// AnInstallationIDIsNoPath checks that a store refuses an installation id that dibs did not make: what a
// store tells becomes part of the names of files on the host, and who may write to the store must not choose
// them. c is of a namespace that exists; set changes its id.
func AnInstallationIDIsNoPath(t *testing.T, open func(context.Context, store.Config) (*store.Store, error), c store.Config, set func(id string)) {
	t.Helper()
	for _, id := range []string{"../../victim/planted", "/etc/cron.d/x", "a b", "a\x1b[31m", "..", strings.Repeat(".", 64)} {
		set(id)
		s, err := open(t.Context(), c)
		if err == nil {
			t.Errorf("%q: it was opened, as installation %q", id, s.Properties.InstallationID)
			_ = s.Close()
			continue
		}
		if !strings.Contains(err.Error(), "installation id") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v", id, err)
		}
	}
	set("0123456789abcdefABCDEF-0123")
	s, err := open(t.Context(), c)
	if err != nil {
		t.Fatalf("an id as dibs makes them: %v", err)
	}
	_ = s.Close()
}
