//go:build linux

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A life is one work as it was seen: from its line of beginning to the last thing that was heard of it.
type life struct {
	facts
	id          string
	begin, last time.Duration
	beats       []time.Duration
	ended       bool // it came to its own end
}

// The observer reads what the works write, as it grows.
type observer struct {
	paths []string
	read  map[string]int64
	lives map[string]*life
	// unread are lines whose beginning was not seen: there must be none.
	unread int
}

func newObserver(hosts []*host) *observer {
	o := &observer{read: map[string]int64{}, lives: map[string]*life{}}
	for _, h := range hosts {
		o.paths = append(o.paths, filepath.Join(h.dir, "works"))
	}
	return o
}

// look reads what is new.
func (o *observer) look() error {
	for _, path := range o.paths {
		f, err := os.Open(path)
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			return err
		}
		_, err = f.Seek(o.read[path], io.SeekStart)
		b, err2 := io.ReadAll(f)
		_ = f.Close()
		if err != nil || err2 != nil {
			return fmt.Errorf("%s: %v, %v", path, err, err2)
		}
		whole := bytes.LastIndexByte(b, '\n') + 1
		o.read[path] += int64(whole)
		for line := range strings.Lines(string(b[:whole])) {
			if err := o.hear(strings.TrimSuffix(line, "\n")); err != nil {
				return fmt.Errorf("%s: %q: %w", path, line, err)
			}
		}
	}
	return nil
}

func (o *observer) hear(line string) error {
	p := strings.SplitN(line, " ", 4)
	if len(p) < 4 {
		return fmt.Errorf("%d fields", len(p))
	}
	ns, err := strconv.ParseInt(p[2], 10, 64)
	if err != nil {
		return err
	}
	at := time.Duration(ns)
	if p[0] == "B" {
		l := &life{id: p[1], begin: at, last: at}
		o.lives[l.id] = l
		return json.Unmarshal([]byte(p[3]), &l.facts)
	}
	l := o.lives[p[1]]
	if l == nil {
		o.unread++
		return nil
	}
	// The lines of a work and of its child may change places.
	l.beats = append(l.beats, at)
	l.last = max(l.last, at)
	l.ended = l.ended || p[0] == "E"
	return nil
}

// by groups the lives by something that they name, each group in the order of their beginnings; "" is left out.
func (o *observer) by(name func(*life) string) map[string][]*life {
	groups := map[string][]*life{}
	for _, l := range o.lives {
		if n := name(l); n != "" {
			groups[n] = append(groups[n], l)
		}
	}
	for _, g := range groups {
		slices.SortFunc(g, func(a, b *life) int { return int(a.begin - b.begin) })
	}
	return groups
}

// An overlap is two lives of one key of which the older one showed life after the younger one had begun.
type overlap struct {
	key          string
	older, newer *life
	// lasted is how long after the newer one's beginning the older one was still seen; woke says that it was not seen
	// while the newer one lived, only after it.
	lasted time.Duration
	woke   bool
}

func (v overlap) String() string {
	how := fmt.Sprintf("both lived for %s", v.lasted)
	if v.woke {
		how = fmt.Sprintf("the older one showed life %s after the newer one had begun, and none while that lived", v.lasted)
	}
	return fmt.Sprintf("%s: run %s on %s (token %d, begun %s) and run %s on %s (token %d, begun %s): %s", v.key, v.older.Run, v.older.Host, v.older.Token,
		clockText(v.older.begin), v.newer.Run, v.newer.Host, v.newer.Token, clockText(v.newer.begin), how)
}

// overlaps finds them among the lives of one key.
func overlaps(key string, lives []*life) (found []overlap) {
	for i, newer := range lives {
		for _, older := range lives[:i] {
			if older.last < newer.begin {
				continue
			}
			together := slices.ContainsFunc(older.beats, func(at time.Duration) bool { return at >= newer.begin && at <= newer.last })
			found = append(found, overlap{key, older, newer, older.last - newer.begin, !together})
		}
	}
	return found
}
