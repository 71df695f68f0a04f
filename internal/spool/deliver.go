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

// Deliver hands over each item, oldest first, until one fails. That one is kept as the last, so that
// one which no store ever takes holds up nothing but itself. While another process delivers, it
// does nothing. It sets the file aside first, so that nobody who has
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
	return errors.Join(failed, s.keep(rest))
}

// deliver returns what could not be delivered, without lines that cannot be read.
func deliver(all []byte, give func(scheduler.Item) error) (rest []byte, failed error) {
	var culprit []byte
	lines := bufio.NewScanner(bytes.NewReader(all))
	lines.Buffer(nil, len(all)+1)
	for lines.Scan() {
		var i scheduler.Item
		if json.Unmarshal(lines.Bytes(), &i) != nil {
			continue // empty, or torn: it was never acknowledged
		}
		if failed != nil {
			rest = append(append(rest, lines.Bytes()...), '\n')
		} else if failed = give(i); failed != nil {
			culprit = append(bytes.Clone(lines.Bytes()), '\n')
		}
	}
	return append(rest, culprit...), failed
}

// keep puts rest in the place of what was set aside, where nobody writes any more. A crash before
// it can deliver an item twice, which changes nothing; none is lost.
func (s Spool) keep(rest []byte) error {
	path := s.aside() + ".new"
	f, err := open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(rest); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	if err := os.Rename(path, s.aside()); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return syncDir(filepath.Dir(s.path))
}
