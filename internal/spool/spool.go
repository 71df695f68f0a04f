// Package spool keeps on this host's disk what a store could not be told, until any later dibs on
// this host delivers it (rule T9).
package spool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// Put appends an item and returns once it is on the disk.
func (s Spool) Put(i scheduler.Item) error {
	line, err := json.Marshal(i)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	f, err := s.append()
	if err != nil {
		return err
	}
	defer f.Close()
	// One write: a line is never mixed with another's. A torn last line, of a full disk or lost
	// power, is closed off by the newline in front.
	if _, err := f.Write(append(append([]byte{'\n'}, line...), '\n')); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return f.Sync()
}

// Deliver hands over each item, oldest first, and keeps those from the first failure on. While
// another process delivers, it does nothing. It sets the file aside first, so that nobody who has
// something to keep waits for a store.
func (s Spool) Deliver(give func(scheduler.Item) error) error {
	if !s.waiting() {
		return nil
	}
	turn, err := open(s.path+".lock", os.O_RDWR|os.O_CREATE, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer turn.Close()
	for s.waiting() {
		if err := s.setAside(); err != nil {
			return err
		}
		if err := s.deliverAside(give); err != nil {
			return err
		}
	}
	return nil
}

// waiting says whether there is anything to deliver.
func (s Spool) waiting() bool {
	for _, path := range []string{s.aside(), s.path} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

func (s Spool) aside() string { return s.path + ".aside" }

// setAside renames the file, unless an older one, of a delivery that failed, comes first.
func (s Spool) setAside() error {
	if _, err := os.Stat(s.aside()); err == nil {
		return nil
	}
	if err := os.Rename(s.path, s.aside()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("spool: %w", err)
	}
	return nil
}

// deliverAside waits for the last writers of the file that was set aside, and delivers it.
func (s Spool) deliverAside(give func(scheduler.Item) error) error {
	f, err := open(s.aside(), os.O_RDWR, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	rest, failed := deliver(all, give)
	if len(rest) == 0 {
		return errors.Join(failed, os.Remove(s.aside()))
	}
	return errors.Join(failed, rewrite(f, rest))
}

// deliver returns what could not be delivered, lines that cannot be read among it.
func deliver(all []byte, give func(scheduler.Item) error) (rest []byte, failed error) {
	lines := bufio.NewScanner(bytes.NewReader(all))
	lines.Buffer(nil, len(all)+1)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var i scheduler.Item
		if err := json.Unmarshal(lines.Bytes(), &i); err != nil {
			continue // torn: it was never acknowledged
		}
		if failed == nil {
			failed = give(i)
		}
		if failed != nil {
			rest = append(append(rest, lines.Bytes()...), '\n')
		}
	}
	return rest, failed
}

// rewrite leaves only rest, which is shorter than what is there: first written over the beginning,
// then cut, so that a crash in between can deliver an item twice, which changes nothing, and never
// loses one.
func rewrite(f *os.File, rest []byte) error {
	if _, err := f.WriteAt(rest, 0); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if err := f.Truncate(int64(len(rest))); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return f.Sync()
}

// append opens the file for writing, under a lock that says that a writer is at it.
func (s Spool) append() (*os.File, error) {
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

func open(path string, flag, lock int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), lock); err != nil {
		f.Close()
		return nil, fmt.Errorf("spool %s: %w", path, err)
	}
	return f, nil
}
