//go:build linux

package file

import (
	"strings"
	"testing"
)

func TestStatementsAreReadWithoutComments(t *testing.T) {
	const text = "-- Why: ?1 and a;\nSELECT '--',\n  -- within\n  a - -1 -- behind\nFROM b\n\n"
	if got, want := withoutComments(text), "SELECT '--',\n  a - -1 -- behind\nFROM b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if len(statements()) < 50 {
		t.Errorf("%d statements", len(statements()))
	}
	for name, s := range statements() {
		if s == "" || strings.HasPrefix(s, "--") || strings.Contains(s, "\n--") {
			t.Errorf("%s: %q", name, s)
		}
	}
}
