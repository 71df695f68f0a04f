// Package spool keeps on this host's disk what a store could not be told, until any later dibs on
// this host delivers it (rule T9).
package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/scheduler"
)

// A Spool is one file of JSON lines per store. It is safe for concurrent use by many processes.
type Spool struct{ path string }

var _ scheduler.Spool = Spool{}

// In is the spool in dir for the store with the given installation id and namespace.
func In(dir, installation, namespace string) Spool {
	return Spool{filepath.Join(dir, "spool", installation+"-"+namespace+".jsonl")}
}

// most bounds the file where it holds no more than that ticks could not be claimed: about 100,000
// of them. Beyond it they settle as missed. An outcome is kept whatever the size.
const most = 16 << 20

// ErrFull is returned for a tick that was not claimed when there are too many of them already.
var ErrFull = errors.New("spool: full: the store has been away for too long")

// Put appends an item and returns once it is on the disk.
func (s Spool) Put(i scheduler.Item) error { return s.put(i) }

// put appends items, all of them at once.
func (s Spool) put(all ...scheduler.Item) error {
	if len(all) == 0 {
		return nil
	}
	var text []byte
	dear := false
	for _, i := range all {
		line, err := json.Marshal(i)
		if err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		text, dear = append(append(text, line...), '\n'), dear || i.Close != nil
	}
	f, err := s.append()
	if err != nil {
		return err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if !dear && before.Size() > most {
		return ErrFull
	}
	// One write: a line is never mixed with another's. A torn last line, of a full disk or lost
	// power, is closed off by the newline in front.
	if _, err := f.Write(append([]byte{'\n'}, text...)); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if before.Size() == 0 { // the file is new, and so may be its directory
		return errors.Join(syncDir(filepath.Dir(s.path)), syncDir(filepath.Dir(filepath.Dir(s.path))))
	}
	return nil
}

// append opens the file for writing, under a lock that says that a writer is at it.
func (s Spool) append() (*os.File, error) {
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	for {
		f, err := open(s.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, unix.LOCK_SH)
		if err != nil {
			return nil, err
		}
		mine, err := f.Stat()
		if err == nil {
			var there os.FileInfo
			if there, err = os.Stat(s.path); err == nil && os.SameFile(mine, there) {
				return f, nil
			}
		}
		f.Close() // it was set aside before we had the lock
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("spool: %w", err)
		}
	}
}

// makeDir makes the spool's directory. Who may write to the host's directory may write to the spool.
func (s Spool) makeDir() error {
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return fmt.Errorf("spool: %w", err)
	}
	if !shared(filepath.Dir(dir)) {
		return nil
	}
	if err := os.Chmod(dir, 0o770|os.ModeSetgid); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// shared reports whether a directory is a group's.
func shared(dir string) bool {
	st, err := os.Stat(dir)
	return err == nil && st.Mode().Perm()&0o020 != 0
}

// open opens a file under a lock.
func open(path string, flag, lock int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if flag&os.O_CREATE != 0 && shared(filepath.Dir(path)) {
		_ = f.Chmod(0o660) // its maker's alone to do, who does it
	}
	if err := unix.Flock(int(f.Fd()), lock); err != nil {
		f.Close()
		return nil, fmt.Errorf("spool %s: %w", path, err)
	}
	return f, nil
}

// syncDir has the names in a directory on the disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}
