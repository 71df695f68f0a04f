package spool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/scheduler"
)

// Deliver hands over each item, oldest first, until one fails. The failed item is kept as the last, so that an item
// which no store ever takes delays nothing but itself. If another process delivers already, Deliver does nothing. It
// sets the file aside first, so that a writer never waits for a store.
func (s Spool) Deliver(give func(scheduler.Item) error) error {
	d, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if waits, err := s.waiting(d); err != nil || !waits {
		return err
	}
	turn, err := locked(d, s.name+".lock", unix.O_RDWR|unix.O_CREAT, unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer turn.Close()
	// First what an earlier delivery set aside, then what has come since.
	for range 2 {
		if waits, err := s.waiting(d); err != nil || !waits {
			return err
		}
		if err := s.setAside(d); err != nil {
			return err
		}
		if err := s.deliverAside(d, give); err != nil {
			return err
		}
	}
	return nil
}

// waiting says whether there is anything to deliver.
func (s Spool) waiting(d *beneath.Dir) (bool, error) {
	for _, name := range []string{s.aside(), s.name} {
		if there, err := d.Exists(name); err != nil || there {
			return there, wrap(err)
		}
	}
	return false, nil
}

func (s Spool) aside() string { return s.name + ".aside" }

// setAside renames the file, unless there is an older one already, left by a delivery that failed: that one comes
// first.
func (s Spool) setAside(d *beneath.Dir) error {
	if there, err := d.Exists(s.aside()); err != nil || there {
		return wrap(err)
	}
	if err := d.Rename(s.name, s.aside()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrap(err)
	}
	return nil
}

// mostRead bounds what is read of a spool, in bytes: anybody who shares the directory can make it of any size.
const mostRead = 256 << 20

// deliverAside waits for the last writers of the file that was set aside, and delivers it.
func (s Spool) deliverAside(d *beneath.Dir, give func(scheduler.Item) error) error {
	f, err := locked(d, s.aside(), unix.O_RDWR, unix.LOCK_EX)
	for end := time.Now().Add(patience); errors.Is(err, unix.EWOULDBLOCK); f, err = locked(d, s.aside(), unix.O_RDWR, unix.LOCK_EX) {
		if time.Now().After(end) {
			return errLocked(d.Join(s.aside()))
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := beneath.ReadAll(f, mostRead)
	if err != nil {
		return wrap(err)
	}
	rest, later, failed := deliver(all, give)
	if err := s.put(later...); err != nil { // before they are removed here
		return errors.Join(failed, err)
	}
	if len(rest) == 0 {
		return errors.Join(failed, wrap(d.Remove(s.aside())))
	}
	// A crash before this can deliver an item twice, which changes nothing; none is lost.
	return errors.Join(failed, wrap(d.Replace(s.aside(), lines(rest), true)))
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
