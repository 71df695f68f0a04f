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

	"github.com/dibs-run/dibs/history"
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
	// First what an earlier delivery set aside, then what has come since.
	for round := 0; round < 2 && s.waiting(); round++ {
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
	rest, later, failed := deliver(all, give)
	if err := s.put(later...); err != nil { // before they are removed here
		return errors.Join(failed, err)
	}
	if len(rest) == 0 {
		return errors.Join(failed, os.Remove(s.aside()))
	}
	return errors.Join(failed, s.keep(lines(rest)))
}

// deliver returns what could not be delivered, and what is to be delivered later, without lines that
// cannot be read.
func deliver(all []byte, give func(scheduler.Item) error) (rest, later []scheduler.Item, failed error) {
	var culprit []scheduler.Item
	for _, i := range folded(items(all)) {
		if failed != nil {
			rest = append(rest, i)
			continue
		}
		switch err := give(i); {
		case errors.Is(err, scheduler.ErrNotYet):
			later = append(later, i)
		case errors.Is(err, scheduler.ErrEnough):
			failed, rest = err, append(rest, i)
		case err != nil:
			failed, culprit = err, []scheduler.Item{i}
		}
	}
	return append(rest, culprit...), later, failed
}

// items reads lines. One that is empty or torn was never acknowledged.
func items(all []byte) (read []scheduler.Item) {
	lines := bufio.NewScanner(bytes.NewReader(all))
	lines.Buffer(nil, len(all)+1)
	for lines.Scan() {
		var i scheduler.Item
		if json.Unmarshal(lines.Bytes(), &i) == nil {
			read = append(read, i)
		}
	}
	return read
}

// folded makes one of all events that are alike (promise 24). It has the ID of the first, so that the
// same events delivered twice, after a crash, are told once.
func folded(all []scheduler.Item) []scheduler.Item {
	first := map[history.Likeness]int{}
	kept := all[:0]
	for _, i := range all {
		if i.Event != nil {
			if like, ok := i.Event.Like(); ok {
				if at, found := first[like]; found {
					one := history.Fold(*kept[at].Event, *i.Event)
					kept[at].Event = &one
					continue
				}
				first[like] = len(kept)
			}
		}
		kept = append(kept, i)
	}
	return kept
}

// lines writes items.
func lines(all []scheduler.Item) []byte {
	var b bytes.Buffer
	for _, i := range all {
		line, _ := json.Marshal(i) // it was read from JSON
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
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
