package explain

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// A When is which instant was asked for: any in one of its spans, the likeliest first. The zero
// When asks for the latest tick.
type When struct {
	text  string
	spans []span
}

// ErrWhen is returned for text that names no instant.
var ErrWhen = errors.New("not understood")

// span is [from, to).
type span struct{ from, to time.Time }

// prefixes are those of an RFC 3339 instant in UTC, as dibs prints them, and how long what they
// leave open is.
var prefixes = []struct {
	layout string
	next   func(time.Time) time.Time
}{
	{time.RFC3339, second}, {"2006-01-02T15:04:05", second},
	{"2006-01-02T15:04Z07:00", minute}, {"2006-01-02T15:04", minute},
	{"2006-01-02T15", func(t time.Time) time.Time { return t.Add(time.Hour) }},
	{time.DateOnly, func(t time.Time) time.Time { return t.AddDate(0, 0, 1) }},
	{"2006-01", func(t time.Time) time.Time { return t.AddDate(0, 1, 0) }},
	{"2006", func(t time.Time) time.Time { return t.AddDate(1, 0, 0) }},
}

func second(t time.Time) time.Time { return t.Truncate(time.Second).Add(time.Second) }
func minute(t time.Time) time.Time { return t.Add(time.Minute) }

// ParseWhen reads an RFC 3339 instant, a prefix of one (in UTC), or HH:MM: that time of day in zone,
// at its latest before now. "" is the latest tick.
func ParseWhen(text string, now time.Time, zone *time.Location) (When, error) {
	w := When{text: text}
	if text == "" {
		return w, nil
	}
	for _, p := range prefixes {
		if t, err := time.Parse(p.layout, text); err == nil {
			w.spans = []span{{t.UTC(), p.next(t).UTC()}}
			return w, nil
		}
	}
	clock, err := time.Parse("15:04", text)
	if err != nil {
		return w, fmt.Errorf("%q: %w: want an instant such as 2026-11-21T04:15:00Z, a prefix of one in UTC such as 2026-11-21T04, or a time of day such as 04:15 in the job's zone", text, ErrWhen)
	}
	day := now.In(zone)
	for range 3 { // two suffice, unless the clock jumped over a day
		for _, t := range readings(day, clock, zone) {
			if !t.After(now) {
				w.spans = append(w.spans, span{t.UTC(), minute(t).UTC()})
			}
		}
		if len(w.spans) > 0 {
			return w, nil
		}
		day = day.AddDate(0, 0, -1)
	}
	return w, nil
}

// readings are the instants of a day at which its clock shows a time: two, the later one first,
// where it is set back over that time; the first instant after it where the clock jumps over it.
func readings(day, clock time.Time, zone *time.Location) (all []time.Time) {
	t := time.Date(day.Year(), day.Month(), day.Day(), clock.Hour(), clock.Minute(), 0, 0, zone)
	shows := func(t time.Time) bool { return t.Hour() == clock.Hour() && t.Minute() == clock.Minute() }
	start, end := t.ZoneBounds()
	if !shows(t) {
		for _, jump := range []time.Time{start, end} {
			if !jump.IsZero() && t.Sub(jump).Abs() < 24*time.Hour {
				return []time.Time{jump.In(zone)}
			}
		}
		return nil
	}
	all = []time.Time{t}
	for _, border := range []time.Time{start, end} {
		if border.IsZero() {
			continue
		}
		_, before := border.Add(-time.Second).In(zone).Zone()
		_, after := border.In(zone).Zone()
		back := time.Duration(before-after) * time.Second
		for _, other := range []time.Time{t.Add(back), t.Add(-back)} {
			if back > 0 && shows(other) && !other.Equal(t) && other.Sub(border).Abs() <= back {
				all = append(all, other)
			}
		}
	}
	slices.SortFunc(all, func(a, b time.Time) int { return b.Compare(a) })
	return slices.CompactFunc(all, time.Time.Equal)
}
