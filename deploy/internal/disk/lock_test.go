package disk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whoever may read a directory can lock it, and keeps no apply out.
func TestALockOfTheDirectoryIsNobodysBusiness(t *testing.T) {
	dir := openDir(t)
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	unlock, err := Lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("the lock stays: %v", names)
	}
}

// Nobody else can open the file that is locked, of whomever the directory is.
func TestOnlyTheOwnerCanOpenTheLock(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT COVERED: locks of several users: it needs root")
	}
	for what, owner := range map[string]int{"root's": 0, "a user's": 65534} {
		dir := openDir(t)
		if err := os.Chown(dir, owner, -1); err != nil {
			t.Fatal(err)
		}
		unlock, err := Lock(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(runDir, "*"))
		if owner != 0 {
			files, _ = filepath.Glob(filepath.Join(dir, ".*"))
		}
		for _, path := range files {
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil || st.Mode&0o077 != 0 || owner != 0 && int(st.Uid) != owner {
				t.Errorf("%s: %s has mode %o and user %d: %v", what, path, st.Mode, st.Uid, err)
			}
		}
		if len(files) == 0 {
			t.Errorf("%s: there is no lock", what)
		}
		unlock()
	}
}

// A lock that is held is waited for, with a bound, and the error names the holder.
func TestAHeldLockIsNamed(t *testing.T) {
	patience = 300 * time.Millisecond
	t.Cleanup(func() { patience = 30 * time.Second })
	dir := openDir(t)
	for what, lock := range map[string]func(context.Context) (func(), error){
		"a directory":    func(ctx context.Context) (func(), error) { return Lock(ctx, dir) },
		"a user's table": func(ctx context.Context) (func(), error) { return LockUser(ctx, "me", 60001, "/no/such/home") },
		"root's table":   func(ctx context.Context) (func(), error) { return LockUser(ctx, "root", os.Geteuid(), dir) },
	} {
		unlock, err := lock(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		_, err = lock(t.Context())
		if want := fmt.Sprintf("process %d (", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "waited for") {
			t.Errorf("%s: %v; want %s", what, err, want)
		}
		unlock()
		if unlock, err = lock(t.Context()); err != nil {
			t.Errorf("%s: after the holder: %v", what, err)
		} else {
			unlock()
		}
	}
}

// What somebody else put in the place of the lock is refused.
func TestAPlantedLock(t *testing.T) {
	dir := openDir(t)
	path := filepath.Join(dir, "planted")
	for what, plant := range map[string]func() error{
		"a link":            func() error { return os.Symlink("/etc/passwd", path) },
		"a FIFO":            func() error { return unix.Mkfifo(path, 0o600) },
		"open to everybody": func() error { return os.WriteFile(path, nil, 0o666) },
		"a second name": func() error {
			return firstOf(os.WriteFile(path+"2", nil, 0o600), os.Link(path+"2", path))
		},
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		if what == "open to everybody" {
			_ = os.Chmod(path, 0o666)
		}
		if held, err := (file{path: path, owner: os.Geteuid()}).try(); err == nil {
			t.Errorf("%s is taken: %v", what, held)
		}
		_ = os.Remove(path)
	}
}

func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
