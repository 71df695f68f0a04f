//go:build linux

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// fail says what could not be done, where, why, and the cure. It wraps lease.ErrUnavailable, as for a server that
// does not answer.
func fail(what, path string, err error) error {
	if err == nil || errors.Is(err, lease.ErrUnavailable) || errors.Is(err, errNoProc) {
		return err
	}
	if errors.Is(err, store.ErrOutdated) {
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%w: %s %s: %w%s", lease.ErrUnavailable, what, path, err, cure(err))
}

// cure is what to do about err, in a clause that ends its message.
func cure(err error) string {
	if s := cureSQLite(err); s != "" {
		return s
	}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "; the disk is full: free some space there, nothing else is needed"
	case errors.Is(err, unix.EROFS):
		return "; the file system is read-only: remount it, or name another directory (DIBS_DIR)"
	case errors.Is(err, fs.ErrPermission):
		return "; run as the directory's owner, or name your own directory (DIBS_DIR)"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "; too many open files: each lease held needs two, raise the limit (ulimit -n)"
	case errors.Is(err, fs.ErrNotExist):
		return "; the directory was removed while in use: start again, which creates a new one"
	case errors.Is(err, unix.ENOTDIR):
		return "; a part of the path is a file: name a directory"
	case errors.Is(err, errShared):
		return "; put the directory on a local disk (DIBS_DIR), or use a server as the store"
	case errors.Is(err, errDamaged):
		return "; put back a copy, or move the directory aside while nothing runs, and run dibs init"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return ""
	}
	return ""
}

func cureSQLite(err error) string {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return ""
	}
	if isTorn(err) {
		return "; its -shm file was truncated, or the disk is full: dibs reopens it, try again"
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return "; the disk is full: free some space there, nothing else is needed"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "; the database is damaged: stop all programs that use it, then restore a copy of it, or move it aside together with its -wal and -shm files and lose the history, the tasks, and an application's tables in it (locks do not depend on it)"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return "; run as the directory's owner, and check that the file system is writable"
	case sqlite3.SQLITE_IOERR:
		return "; the disk failed or is full: see the kernel's log (dmesg) and df"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "; another process has been writing to the database for seconds: look for a stopped process (state T in ps), or for an application's transaction that stays open"
	}
	return ""
}

// isBusy says whether err is SQLite's "try again".
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// patience is how long there is waited for a lock that is only ever held for microseconds.
const patience = 2 * time.Second

// errStopped is returned if such a lock stays taken.
var errStopped = errors.New("another process has locked it for seconds; look for a stopped one (state T in ps)")

// errVFS says that SQLite refused what it is given here, which is a mistake in this program.
var errVFS = errors.New("SQLite refuses how dibs opens files")

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// errDamaged is wrapped if a small file does not hold what was written there.
var errDamaged = errors.New("damaged")
