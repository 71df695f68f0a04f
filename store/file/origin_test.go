//go:build linux

package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// locksOf is the kernel's list, as far as it is of the lock files in some directories: other processes of this machine
// have leases too.
func locksOf(t *testing.T, dirs ...string) string {
	t.Helper()
	list, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Skip("NOT COVERED: ", err)
	}
	var all strings.Builder
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, nsName, "*", "leases", "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no lock files in %s: %v", dir, err)
		}
		for _, file := range files {
			var st unix.Stat_t
			if err := unix.Stat(file, &st); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(list)) {
				if strings.Contains(line, fmt.Sprintf(":%d ", st.Ino)) {
					all.WriteString(line)
				}
			}
		}
	}
	return all.String()
}

// A new directory waits only for a hold of a directory that had the same path.
// Holds: L9.
func TestANewDirectoryWaitsOnlyForHoldsOfItsPath(t *testing.T) {
	parent := t.TempDir()
	held, link := filepath.Join(parent, "held"), filepath.Join(parent, "link")
	if err := os.Symlink(held, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(held, 0o700); err != nil {
		t.Fatal(err)
	}
	granted(t, openAt(t, link), "k")
	locks := locksOf(t, held)
	for _, path := range []string{held, link} {
		if !originOf(path).among(locks) {
			t.Errorf("a new directory at %s does not wait for a hold of that path:\n%s", path, locks)
		}
	}
	elsewhere := originOf(filepath.Join(parent, "new"))
	if elsewhere.among(locks) {
		t.Errorf("a new directory waits for a hold of another path:\n%s", locks)
	}
	// The hold keeps the path of its directory, wherever that is moved.
	if err := os.Rename(held, held+".old"); err != nil {
		t.Fatal(err)
	}
	if locks := locksOf(t, held+".old"); !originOf(held).among(locks) || elsewhere.among(locks) {
		t.Errorf("the directory was moved away, and a new one at its path does not wait:\n%s", locks)
	}
	foreign := elsewhere
	foreign.world++
	if !foreign.among(locks) {
		t.Error("a process in another mount namespace does not wait, and its paths mean something else")
	}
	foreign.world = 0
	if !foreign.among(locks) {
		t.Error("a process that does not know its mount namespace does not wait")
	}
	var plain strings.Builder // as of a hold of unknown origin
	for line := range strings.Lines(locks) {
		if _, at, _ := lockOf(line); at < worldBytes {
			plain.WriteString(line)
		}
	}
	if !elsewhere.among(plain.String()) {
		t.Errorf("a new directory does not wait for a hold of an unknown path:\n%s", &plain)
	}
	if elsewhere.among("") {
		t.Error("a new directory waits where there are no locks")
	}
}

// A directory that is made beside one with live leases grants at once, and one that is made in its place waits.
// Holds: L9.
func TestADirectoryMadeInPlaceOfAnotherWaits(t *testing.T) {
	parent := t.TempDir()
	old := filepath.Join(parent, "d")
	granted(t, openAt(t, old), "k")
	if other, err := OpenConfig(context.Background(), configAt(filepath.Join(parent, "beside"), false)); err != nil {
		t.Fatal(err)
	} else {
		t.Cleanup(func() { _ = other.Close() })
		if !originOf(filepath.Join(parent, "beside")).anyHold() { // else other processes have leases of unknown paths
			granted(t, other, "k")
		}
	}
	if err := os.Rename(old, old+".old"); err != nil {
		t.Fatal(err)
	}
	again, err := OpenConfig(context.Background(), configAt(old, false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	if again.Properties.HoldUntil.IsZero() {
		t.Error("the directory was moved away under a lease, and one that is made in its place grants at once")
	}
}
