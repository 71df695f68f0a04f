// Package disk keeps files that several programs write: with a lock, and each replaced in one step.
package disk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// runDir has the locks of what only root may write: nobody else can open them there, and so hold one.
const runDir = "/run/dibs-apply"

// patience is how long a lock is waited for; a test shortens it.
var patience = 30 * time.Second

// Lock keeps out other applies to the files of a directory. It locks a file that only root and those who may write
// there can open, and removes it afterwards. It waits until ctx ends, and for 30 s at most; the error then names the
// holder.
func Lock(ctx context.Context, dir string) (unlock func(), err error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, &fs.PathError{Op: "lock", Path: dir, Err: err}
	}
	if st.Uid == 0 && st.Mode&0o022 == 0 && os.Geteuid() == 0 {
		if real, err := filepath.EvalSymlinks(dir); err == nil && ready() == nil {
			sum := sha256.Sum256([]byte(real))
			return lock(ctx, dir, file{filepath.Join(runDir, hex.EncodeToString(sum[:8])), 0})
		}
	}
	return lock(ctx, dir, file{filepath.Join(dir, ".dibs-lock"), int(st.Uid)})
}

// LockUser is Lock for a user's own table. The lock is in the user's home directory if it is the user's, so root and
// the user have the same one, else in /var/tmp.
func LockUser(ctx context.Context, name string, uid int, home string) (unlock func(), err error) {
	var st unix.Stat_t
	if err := unix.Stat(home, &st); err == nil && int(st.Uid) == uid && st.Mode&unix.S_IFMT == unix.S_IFDIR && uid != 0 {
		return Lock(ctx, home)
	}
	if uid == 0 && ready() == nil {
		return lock(ctx, "the crontab of "+name, file{filepath.Join(runDir, "crontab-0"), 0})
	}
	return lock(ctx, "the crontab of "+name, file{fmt.Sprintf("/var/tmp/.dibs-crontab-%d", uid), uid})
}

// ready makes runDir.
func ready() error {
	if err := os.Mkdir(runDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// A file is one that is there while it is locked.
type file struct {
	path  string
	owner int
}

func lock(ctx context.Context, what string, f file) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited for %s", patience))
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		held, err := f.try()
		switch {
		case err != nil:
			return nil, fmt.Errorf("lock %s: %w", what, err)
		case held != nil:
			return func() {
				_ = os.Remove(f.path)
				_ = os.Remove(runDir) // with the last lock
				_ = held.Close()
			}, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s holds the lock of %s: wait for it, or end it: %w", f.holder(), what, context.Cause(ctx))
		}
	}
}

// try makes the file and locks it, or locks the one that is there; nil: somebody else has it, or it is just going.
func (f file) try() (held *os.File, err error) {
	made := true
	held, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		made = false
		held, err = os.OpenFile(f.path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(f.path) == runDir:
		return nil, ready()
	case !made && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)): // it is going; another's
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := f.take(held, made); err != nil {
		_ = held.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = nil
		}
		return nil, err
	}
	return held, nil
}

// take locks an open file that is as dibs made it; EWOULDBLOCK: not now.
func (f file) take(held *os.File, made bool) error {
	fd := int(held.Fd())
	if made && os.Geteuid() == 0 && f.owner != 0 {
		if err := held.Chown(f.owner, -1); err != nil {
			return err
		}
	}
	var is, named unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return err
	}
	uid := int(is.Uid)
	if is.Mode&unix.S_IFMT != unix.S_IFREG || is.Mode&0o077 != 0 || is.Nlink > 1 || uid != 0 && uid != f.owner && uid != os.Geteuid() {
		return fmt.Errorf("%s is not a lock of dibs: user %d put it there: remove it", f.path, uid)
	}
	for {
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			if err == nil && (unix.Lstat(f.path, &named) != nil || named.Ino != is.Ino || named.Dev != is.Dev) {
				return unix.EWOULDBLOCK // the one before removed it
			}
			return err
		}
	}
}

// holder names the process that has the lock, as far as /proc tells.
func (f file) holder() string {
	var st unix.Stat_t
	if err := unix.Lstat(f.path, &st); err != nil {
		return "another dibs"
	}
	locks, _ := os.ReadFile("/proc/locks")
	at := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line) // 1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != at {
			continue
		}
		name, _ := os.ReadFile("/proc/" + fields[4] + "/comm")
		return fmt.Sprintf("process %s (%s) of user %d", fields[4], strings.TrimSpace(string(name)), owner("/proc/"+fields[4]))
	}
	return fmt.Sprintf("a process of user %d", st.Uid)
}

// owner is whose a path is; -1: not known.
func owner(path string) int {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return -1
	}
	return int(st.Uid)
}
