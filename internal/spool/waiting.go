package spool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/scheduler"
)

// A Backlog is what waits on this host to be told to one store.
type Backlog struct {
	// Store is its installation id and namespace, joined by a dash.
	Store string
	Path  string
	Items int
	// Since is the instant of the oldest item: when a run ended, or when a tick was due.
	Since time.Time
}

// Waiting looks into all spools of a directory; it delivers nothing, and waits for nobody.
func Waiting(dir string) ([]Backlog, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "spool", "*.jsonl*"))
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	var all []Backlog
	for _, path := range paths {
		name, kind, _ := strings.Cut(filepath.Base(path), ".jsonl")
		if kind != "" && kind != ".aside" {
			continue
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was delivered just now
		}
		if err != nil {
			return all, fmt.Errorf("spool: %w", err)
		}
		i := slices.IndexFunc(all, func(b Backlog) bool { return b.Store == name })
		if i < 0 {
			i = len(all)
			all = append(all, Backlog{Store: name, Path: filepath.Join(dir, "spool", name+".jsonl")})
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
			continue // nobody waits for it
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
