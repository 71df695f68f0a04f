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

// runDir has the locks of what only root may write: nobody else can open them there, and so hold one. Anybody may put
// files into publicDir.
const (
	runDir    = "/run/dibs-apply"
	publicDir = "/var/tmp"
)

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
			return lock(ctx, dir, file{path: filepath.Join(runDir, hex.EncodeToString(sum[:8]))})
		}
	}
	return lock(ctx, dir, file{path: filepath.Join(dir, ".dibs-lock"), owner: int(st.Uid)})
}

// LockUser is Lock for a user's own table. The lock is in the user's home directory if it is the user's, so root and
// the user have the same one.
//
// Without such a home, or if it takes no file of this process (root's, on a network's file system), root locks a file
// in runDir. A user without one locks a file in /var/tmp, and root that one too. What somebody else put there keeps
// nobody out: root removes it, and a user, who cannot, goes on without a lock. The table is then only compared before
// and after it is written.
func LockUser(ctx context.Context, name string, uid int, home string) (unlock func(), err error) {
	if uid != 0 && ownHome(home, uid) {
		if unlock, err := Lock(ctx, home); err == nil || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
			return unlock, err
		}
	}
	what, roots := "the crontab of "+name, func() {}
	if os.Geteuid() == 0 && ready() == nil {
		roots, err = lock(ctx, what, file{path: filepath.Join(runDir, fmt.Sprintf("crontab-%d", uid))})
		if err != nil || uid == 0 {
			return roots, err
		}
	}
	shared, err := lock(ctx, what, file{path: publicLock(uid), owner: uid, public: true})
	switch {
	case errors.Is(err, errPlanted):
		return roots, nil
	case err != nil:
		roots()
		return nil, err
	}
	return func() { shared(); roots() }, nil
}

func publicLock(uid int) string {
	return filepath.Join(publicDir, fmt.Sprintf(".dibs-crontab-%d", uid))
}

// ownHome reports whether a home directory is the user's, who can write there, as not everybody can. It says the same
// to root and to the user.
func ownHome(home string, uid int) bool {
	var st unix.Stat_t
	return unix.Stat(home, &st) == nil && int(st.Uid) == uid && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o302 == 0o300
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
	// public states that anybody may put something else in its place.
	public bool
}

// errPlanted is why a file is no lock.
var errPlanted = errors.New("not a lock of dibs")

// mostPlanted is how many times a lock in a public place is freed of what somebody else put there.
const mostPlanted = 3

func lock(ctx context.Context, what string, f file) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited for %s", patience))
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for planted := 0; ; {
		held, err := f.try()
		switch {
		case f.public && errors.Is(err, errPlanted) && planted < mostPlanted && os.Remove(f.path) == nil:
			planted++
			continue
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
	case !made && errors.Is(err, fs.ErrNotExist): // it is going
		return nil, nil
	case err != nil && !made && f.public:
		return nil, f.unopened(err)
	case !made && errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0: // another's; to root, a file system's refusal
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
			_ = os.Remove(f.path)
			return err
		}
	}
	var is, named unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return err
	}
	if err := f.planted(&is); err != nil {
		return err
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

// planted returns an error if a file is not as dibs makes it.
func (f file) planted(is *unix.Stat_t) error {
	uid := int(is.Uid)
	if is.Mode&unix.S_IFMT != unix.S_IFREG || is.Mode&0o077 != 0 || is.Nlink > 1 || uid != 0 && uid != f.owner && uid != os.Geteuid() {
		return fmt.Errorf("%s is %w: user %d put it there: remove it", f.path, errPlanted, uid)
	}
	return nil
}

// unopened says why the file in a public place could not be opened; nil: it goes, or root is just making it.
func (f file) unopened(err error) error {
	var is unix.Stat_t
	if unix.Lstat(f.path, &is) != nil {
		return nil
	}
	if planted := f.planted(&is); planted != nil {
		return planted
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
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
