package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every command that people see has a page, with its flags and examples, and a page's day is that of the source.
func TestEachCommandHasAPage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	dir := t.TempDir()
	root := newRoot(env{stdout: io.Discard, stderr: io.Discard})
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	page := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := page("dibs"); !strings.Contains(got, ".TH DIBS 1 2026-09-21 dibs") {
		t.Errorf("dibs.1 has no title of the source's day:\n%s", got)
	}
	for name, want := range map[string]string{
		"dibs-run": "once", "dibs-lease-break": "Stop the run that holds a key", "dibs-queue-limit": "limit", "dibs-history": "since",
	} {
		if got := page(name); !strings.Contains(got, want) {
			t.Errorf("%s.1 does not say %q:\n%s", name, want, got)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "dibs-man.1")); err == nil {
		t.Error("the hidden command has a page")
	}
}
