package spool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/scheduler"
)

// A Backlog is what waits on this host to be told to one store.
type Backlog struct {
	// Store is its installation id and namespace, as Name joins them.
	Store string
	Path  string
	Items int
	// Since is the instant of the oldest item: when a run ended, or when a tick was due.
	Since time.Time
}

// Waiting looks into all spools of a directory. It delivers nothing, and waits for no lock.
func Waiting(dir string) ([]Backlog, error) {
	d, err := Spool{dir: dir}.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := d.Names()
	if err != nil {
		return nil, wrap(err)
	}
	slices.Sort(names)
	var all []Backlog
	for _, file := range names {
		name, kind, ok := strings.Cut(file, suffix)
		if !ok || kind != "" && kind != ".aside" {
			continue
		}
		text, err := d.Read(file, mostRead)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was delivered just now
		}
		if err != nil {
			return all, wrap(err)
		}
		i := slices.IndexFunc(all, func(b Backlog) bool { return b.Store == name })
		if i < 0 {
			i = len(all)
			all = append(all, Backlog{Store: name, Path: d.Join(name + suffix)})
		}
		all[i].count(text)
	}
	return slices.DeleteFunc(all, func(b Backlog) bool { return b.Items == 0 }), nil
}

func (b *Backlog) count(text []byte) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var i scheduler.Item
		if json.Unmarshal(lines.Bytes(), &i) != nil {
			continue // empty, or torn
		}
		if i.Event != nil {
			continue // an event is told later or not at all: not counted
		}
		b.Items++
		var at time.Time
		switch {
		case i.Unavailable != nil:
			at = i.Unavailable.At
		case i.Close != nil && !i.Close.Run.Ended.IsZero():
			at = i.Close.Run.Ended
		case i.Close != nil:
			at = i.Close.Run.Tick
		}
		if !at.IsZero() && (b.Since.IsZero() || at.Before(b.Since)) {
			b.Since = at
		}
	}
}
