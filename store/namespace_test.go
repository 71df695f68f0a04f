package store

import (
	"strings"
	"testing"
)

// A namespace is a part of keys, of names of locks and of files: none has what separates there.
func TestNamespaces(t *testing.T) {
	for _, good := range []string{"dibs", "prod-eu", "t.1_é", strings.Repeat("n", 64)} {
		if err := CheckNamespace(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "prod/eu", "..", ".hidden", `a\b`, "a{b", "a}b", "a b", "a\nb", "a\x00", "a\xff", strings.Repeat("n", 65)} {
		if err := CheckNamespace(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := Parse("redis://h/0?namespace=prod/eu"); err == nil || !strings.Contains(err.Error(), "slash") {
		t.Errorf("an address with a slash in its namespace: %v", err)
	}
}
