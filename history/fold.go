package history

import (
	"fmt"
	"strconv"
	"time"

	"github.com/dibs-run/dibs/internal/lazy"
)

// times matches the end of a folded event's reason.
var times = lazy.Regexp(` \((\d+) times, from (\S+) to (\S+)\)$`)

// Times returns how many equal events e stands for, and when the first and the last of them came. An event that was
// not folded counts as 1, at its own instant. The reason of a folded event has this in words, which every store
// keeps.
func (e Event) Times() (n int, first, last time.Time) {
	m := times().FindStringSubmatch(e.Reason)
	if m == nil {
		return 1, e.At, e.At
	}
	n, _ = strconv.Atoi(m[1])
	first, _ = time.Parse(time.RFC3339Nano, m[2])
	last, _ = time.Parse(time.RFC3339Nano, m[3])
	return n, first, last
}

// Why returns the reason of e without the count.
func (e Event) Why() string { return times().ReplaceAllString(e.Reason, "") }

// A Likeness is what equal events have in common. A hot key has many equal events.
type Likeness struct{ Kind, Key, Job, Host, Why string }

// Like returns the likeness of e. ok is false if e belongs to a run, and so is equal to no other event.
func (e Event) Like() (l Likeness, ok bool) {
	return Likeness{e.Kind, e.Key, e.Job, e.Host, e.Why()}, e.RunID == ""
}

// Fold makes one event of two equal ones. It has the ID, the instant and the tick of the first. Both have an At.
func Fold(a, b Event) Event {
	n, first, last := a.Times()
	m, from, to := b.Times()
	if from.Before(first) {
		first = from
	}
	if to.After(last) {
		last = to
	}
	a.Reason = fmt.Sprintf("%s (%d times, from %s to %s)", a.Why(), n+m, first.UTC().Format(time.RFC3339Nano), last.UTC().Format(time.RFC3339Nano))
	return a
}
