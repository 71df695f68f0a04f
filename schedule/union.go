package schedule

import (
	"slices"
	"strings"
	"time"
)

// A Set is the union of a job's schedules. An instant at which several of them are due is one tick. The zero Set is
// never due.
type Set struct {
	members     []*Schedule
	from, until time.Time // Within's
}

// Union joins schedules, which may have different zones.
func Union(schedules ...*Schedule) Set { return Set{members: slices.Clone(schedules)} }

// Within returns the part of the set from one instant on and before another; zero: without that bound. Its Period
// stays that of the whole set.
func (u Set) Within(from, until time.Time) Set {
	u.from, u.until = from, until
	return u
}

// Schedules returns the members, in the order given to Union.
func (u Set) Schedules() []*Schedule { return slices.Clone(u.members) }

// Next returns the first tick strictly after the given instant, in UTC; false if there is none.
func (u Set) Next(after time.Time) (first time.Time, found bool) {
	if before := u.from.Add(-time.Nanosecond); !u.from.IsZero() && after.Before(before) {
		after = before
	}
	for _, s := range u.members {
		if t, ok := s.Next(after); ok && (!found || t.Before(first)) {
			first, found = t, true
		}
	}
	if found && !u.until.IsZero() && !first.Before(u.until) {
		return time.Time{}, false
	}
	return first, found
}

// Prev returns the latest tick at or before the given instant, in UTC; false if there is none.
func (u Set) Prev(at time.Time) (last time.Time, found bool) {
	if before := u.until.Add(-time.Nanosecond); !u.until.IsZero() && at.After(before) {
		at = before
	}
	for _, s := range u.members {
		if t, ok := s.Prev(at); ok && (!found || t.After(last)) {
			last, found = t, true
		}
	}
	if found && last.Before(u.from) {
		return time.Time{}, false
	}
	return last, found
}

// Period returns the shortest distance between two ticks of the union. It looks at the first thousand ticks from a
// fixed instant and at each member alone, so the result is the same always and everywhere. It is 0 if there are
// never two ticks.
func (u Set) Period() time.Duration {
	var shortest time.Duration
	keep := func(d time.Duration) {
		if d > 0 && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	for _, s := range u.members {
		keep(s.Period())
	}
	if len(u.members) < 2 {
		return shortest
	}
	u.from, u.until = time.Time{}, time.Time{}
	last, ok := u.Next(reference)
	for i := 1; ok && i < 1000; i++ {
		var t time.Time
		if t, ok = u.Next(last); ok {
			keep(t.Sub(last))
			last = t
		}
	}
	return shortest
}

// String lists the expressions.
func (u Set) String() string { return u.list((*Schedule).String) }

// Description says when the union is due, in plain English.
func (u Set) Description() string { return u.list((*Schedule).Description) }

func (u Set) list(of func(*Schedule) string) string {
	texts := make([]string, len(u.members))
	for i, s := range u.members {
		texts[i] = of(s)
	}
	return strings.Join(texts, "; ")
}
