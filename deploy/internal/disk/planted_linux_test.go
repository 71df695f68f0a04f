package disk

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asOnThread runs f on a thread of its own, which set has changed; it ends with f.
func asOnThread(set, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and no unlock
		err := set()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func asUser(uid int) func() error {
	return func() error {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			return errno
		}
		return nil
	}
}

// refused takes from root, on this thread, what lets it into the directories of others, as a file system of a network
// does.
func refused() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		return err
	}
	caps[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	return unix.Capset(&header, &caps[0])
}

// homeless returns two users who have no home and whom nobody else uses, and removes the lock of the first in the end.
func homeless(t *testing.T) (uid, stranger int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT COVERED: locks of several users: it needs root")
	}
	uid = 61_000 + 2*(os.Getpid()%2000)
	t.Cleanup(func() { _ = os.RemoveAll(publicLock(uid)) })
	return uid, uid + 1
}

func plantedBy(stranger int, path string) map[string]func() error {
	own := func() error { return os.Lchown(path, stranger, -1) }
	return map[string]func() error{
		"a file":             func() error { return firstOf(os.WriteFile(path, nil, 0o600), own()) },
		"a file open to all": func() error { return firstOf(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666), own()) },
		"a link":             func() error { return firstOf(os.Symlink("/etc/passwd", path), own()) },
		"a FIFO":             func() error { return firstOf(unix.Mkfifo(path, 0o600), own()) },
		"a directory":        func() error { return firstOf(os.Mkdir(path, 0o700), own()) },
		"a directory in use": func() error { return firstOf(os.MkdirAll(filepath.Join(path, "x"), 0o700), own()) },
		"a link to no file":  func() error { return firstOf(os.Symlink("/no/such/file", path), own()) },
		"a file that is locked": func() error {
			return firstOf(os.WriteFile(path, nil, 0o600), own())
		},
	}
}

// What a stranger puts where the lock of a user without a home is keeps neither root nor the user out.
// Holds: promise 28.
func TestAStrangerKeepsNobodyFromAUsersTable(t *testing.T) {
	uid, stranger := homeless(t)
	for what, plant := range plantedBy(stranger, publicLock(uid)) {
		for who, as := range map[string]func() error{"root": asUser(0), "the user": asUser(uid)} {
			if err := plant(); err != nil {
				t.Fatal(err)
			}
			var held *os.File
			if what == "a file that is locked" {
				var err error
				if held, err = os.Open(publicLock(uid)); err == nil {
					err = unix.Flock(int(held.Fd()), unix.LOCK_EX)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			err := asOnThread(as, func() error {
				unlock, err := LockUser(t.Context(), "www", uid, "/no/such/home")
				if err == nil {
					unlock()
				}
				return err
			})
			if err != nil {
				t.Errorf("%s, %s: %v", what, who, err)
			}
			if held != nil {
				_ = held.Close()
			}
			if err := os.RemoveAll(publicLock(uid)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Root and a user without a home keep each other out, also after root has removed what a stranger put there.
func TestRootAndAUserWithoutAHomeKeepEachOtherOut(t *testing.T) {
	uid, stranger := homeless(t)
	patience = 300 * time.Millisecond
	t.Cleanup(func() { patience = 30 * time.Second })
	lock := func() (func(), error) { return LockUser(t.Context(), "www", uid, "/no/such/home") }
	if err := plantedBy(stranger, publicLock(uid))["a file"](); err != nil {
		t.Fatal(err)
	}
	for who, as := range map[string][2]func() error{"root": {asUser(0), asUser(uid)}, "the user": {asUser(uid), asUser(0)}} {
		if who == "the user" {
			_ = os.RemoveAll(publicLock(uid))
		}
		err := asOnThread(as[0], func() error {
			unlock, err := lock()
			if err != nil {
				return err
			}
			defer unlock()
			return asOnThread(as[1], func() error {
				if unlock, err := lock(); err == nil {
					unlock()
					return errors.New("the other is not kept out")
				}
				return nil
			})
		})
		if err != nil {
			t.Errorf("%s has the lock: %v", who, err)
		}
	}
}

// A home that refuses root, as a network's file system does, keeps root from no table.
func TestAHomeThatRefusesRoot(t *testing.T) {
	uid, _ := homeless(t)
	home := t.TempDir()
	if err := firstOf(os.Chmod(home, 0o700), os.Chown(home, uid, -1)); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"", ".dibs-lock"} { // a lock of a user's dibs that was killed
		if left != "" {
			if err := firstOf(os.WriteFile(filepath.Join(home, left), nil, 0o600), os.Chown(filepath.Join(home, left), uid, -1)); err != nil {
				t.Fatal(err)
			}
		}
		err := asOnThread(refused, func() error {
			unlock, err := LockUser(t.Context(), "ann", uid, home)
			if err == nil {
				unlock()
			}
			return err
		})
		if err != nil {
			t.Errorf("with %q there: %v", left, err)
		}
	}
}
