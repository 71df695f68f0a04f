package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/manifest/source"
)

// TestWatchBelievesWhatItSeesTwice: a file in the middle of being written is not reloaded.
func TestWatchBelievesWhatItSeesTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	from, err := source.New(path, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(from)
	looks := func(want ...bool) {
		t.Helper()
		for i, want := range want {
			if got := w.changed(); got != want {
				t.Errorf("look %d: changed %v", i+1, got)
			}
		}
	}
	looks(false, false)
	write("tw")
	looks(false)
	write("two")
	looks(false, true, true) // until it is seen
	w.seen()
	looks(false)
	write("three")
	looks(false)
	write("two")
	looks(false, false)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	looks(false)
	write("two") // put in place anew
	looks(false, false)
}

// TestWatchOfWhatCannotBeWatched never changes.
func TestWatchOfWhatCannotBeWatched(t *testing.T) {
	from, err := source.New("-", source.Options{Stdin: strings.NewReader("x")})
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch(from)
	for range 2 {
		if w.changed() {
			t.Error("it has changed")
		}
	}
	if got := (&Server{service: &service{o: Options{ReloadedOn: "SIGHUP"}}}).reloadedOn(w); got != "SIGHUP" {
		t.Error(got)
	}
}
