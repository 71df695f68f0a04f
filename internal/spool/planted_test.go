package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/scheduler"
)

// Whoever shares the host's directory can plant each name of the spool. Nothing is written, widened or read
// where that leads, and nothing waits.
func TestNothingPlantedInTheSpoolIsFollowed(t *testing.T) {
	outside, away := filepath.Join(t.TempDir(), "file"), t.TempDir()
	plants := map[string]func(string) error{
		"link":                func(p string) error { return os.Symlink(outside, p) },
		"link to a directory": func(p string) error { return os.Symlink(away, p) },
		"link to nothing":     func(p string) error { return os.Symlink(filepath.Join(away, "made"), p) },
		"hard link":           func(p string) error { return os.Link(outside, p) },
		"fifo":                func(p string) error { return unix.Mkfifo(p, 0o600) },
		"directory":           func(p string) error { return os.Mkdir(p, 0o700) },
	}
	for _, name := range []string{"", "x-dibs.jsonl", "x-dibs.jsonl.lock", "x-dibs.jsonl.aside", known("redis://h")} {
		for kind, plant := range plants {
			dir := t.TempDir()
			if err := os.WriteFile(outside, []byte(`{"unavailable":{"job":"secret"}}`+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if name != "" {
				if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if kind == "hard link" && name == "" || kind == "directory" && name == "" {
				continue
			}
			if err := plant(filepath.Join(dir, folder, name)); err != nil {
				t.Fatal(err)
			}
			s := In(dir, "x", "dibs")
			_ = s.Put(scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: "j"}})
			_ = s.Deliver(func(i scheduler.Item) error {
				if i.Unavailable != nil && i.Unavailable.Job == "secret" {
					t.Errorf("%s at %q: what it leads to was delivered", kind, name)
				}
				return errors.New("keep it")
			})
			_, _ = Waiting(dir)
			_ = Remember(dir, "redis://h", "other")
			if id := Known(dir, "redis://h"); strings.Contains(id, "secret") {
				t.Errorf("%s at %q: read as %q", kind, name, id)
			}
			b, err := os.ReadFile(outside)
			st, _ := os.Stat(outside)
			if err != nil || string(b) != `{"unavailable":{"job":"secret"}}`+"\n" || st.Mode().Perm() != 0o600 {
				t.Errorf("%s at %q: outside is %q, mode %o, %v", kind, name, b, st.Mode().Perm(), err)
			}
			if made, err := os.ReadDir(away); err != nil || len(made) > 0 {
				t.Fatalf("%s at %q: it made %v elsewhere, %v", kind, name, made, err)
			}
		}
	}
}

// A spool that somebody has made huge does not fill the memory: it is told of, and left as it is.
func TestAHugeSpoolIsNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := In(dir, "x", "dibs")
	if err := s.Put(scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: "j"}}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, folder, "x-dibs.jsonl")
	if err := os.Truncate(path, 1<<40); err != nil { // sparse
		t.Fatal(err)
	}
	if _, err := Waiting(dir); !errors.Is(err, beneath.ErrRefused) {
		t.Errorf("Waiting: %v", err)
	}
	err := s.Deliver(func(scheduler.Item) error { t.Error("something was delivered"); return nil })
	if !errors.Is(err, beneath.ErrRefused) {
		t.Errorf("Deliver: %v", err)
	}
	if st, err := os.Stat(path + ".aside"); err != nil || st.Size() != 1<<40 {
		t.Errorf("%+v, %v", st, err)
	}
}

// Somebody who keeps a file locked holds nobody up for longer than a moment.
func TestALockThatIsKeptHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := In(dir, "x", "dibs")
	item := scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: "j"}}
	if err := s.Put(item); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, folder, "x-dibs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(item); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("Put: %v", err)
	}
	if err := s.Deliver(func(scheduler.Item) error { return nil }); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("Deliver: %v", err)
	}
	f.Close()
	if err := s.Put(item); err != nil {
		t.Errorf("Put afterwards: %v", err)
	}
	n := 0
	if err := s.Deliver(func(scheduler.Item) error { n++; return nil }); err != nil || n != 2 {
		t.Errorf("delivered %d, %v; want 2", n, err)
	}
}

// What a store tells of itself never leads out of the spool.
func TestAStoresNamesAreNoPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "host")
	for _, id := range []string{"../../planted", "/planted", "..", ".hidden", strings.Repeat("x", 300), "a\nb"} {
		if err := In(dir, id, "dibs").Put(scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: "j"}}); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, folder))
	if err != nil || len(entries) != 6 {
		t.Errorf("in the spool: %v, %v; want 6 files", entries, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "..", "..", "planted-dibs.jsonl")); err == nil {
		t.Error("it wrote outside")
	}
	if name := beneath.FileName("0123abcd-prod eu:1"); name != "0123abcd-prod eu:1" {
		t.Errorf("a plain name became %q", name)
	}
}
