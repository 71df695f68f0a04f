package cli

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Fault: root's doctor looked into the directories of all users, and opened what a link of theirs led to: a watchdog,
// say, which restarts the machine.
func TestDoctorOpensNothingOfOthers(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "host.json")); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, elsewhere, unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	if unreadable(dir) {
		t.Error("a link is said to be another's file")
	}
	if n, err := unix.Read(watch, make([]byte, 1<<10)); err != unix.EAGAIN {
		t.Errorf("what the link leads to was opened: %d, %v", n, err)
	}
}
