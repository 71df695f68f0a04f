package secret_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/secret"
)

// A reference is a place, or a name that has one; a secret that is empty or that nobody placed is an error, which
// names the reference and never the secret.
func TestReferencesLeadToSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(" hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("A_SECRET", "hunter3")
	t.Setenv("AN_EMPTY_ONE", "")
	p := secret.Places{Own: "env:OWN", Named: map[string]string{"one": "file:" + path, "two": "env:A_SECRET"}}
	got, err := p.Values([]string{"one", "two", "env:A_SECRET"})
	if err != nil || len(got) != 3 || string(got[0]) != "hunter2" || string(got[1]) != "hunter3" || string(got[2]) != "hunter3" {
		t.Errorf("%q, %v", got, err)
	}
	for _, ref := range []string{"three", "env:AN_EMPTY_ONE", "file:" + path + "x"} {
		if _, err := p.Values([]string{ref}); err == nil || !strings.Contains(err.Error(), ref) || errors.Is(err, secret.ErrUnknown) != (ref == "three") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if _, err := p.Values([]string{"raw:hunter4"}); !errors.Is(err, secret.ErrInline) || strings.Contains(err.Error(), "hunter4") {
		t.Errorf("a secret in the manifest: %v", err)
	}
	names := p.Variables("env:OTHER", "one")
	if len(names) != 3 || !names["OWN"] || !names["A_SECRET"] || !names["OTHER"] {
		t.Errorf("hidden are %v", names)
	}
}
