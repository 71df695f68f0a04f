package schedule

import (
	"slices"
	"testing"
	"time"
)

// A part of a set has the ticks from its beginning, inclusive, to its end, exclusive, in both directions, and the
// period of the whole.
func TestWithin(t *testing.T) {
	whole := Union(parsed(t, "*/10 * * * *", "UTC"), parsed(t, "5 * * * *", "UTC"))
	start, end := instant(t, "2026-01-01T00:00:00Z"), instant(t, "2026-01-01T03:00:00Z")
	for _, c := range []struct {
		from, until string
		want        []string
	}{
		{"2026-01-01T01:00:00Z", "2026-01-01T01:10:00Z", []string{"01:00", "01:05"}},
		{"2026-01-01T01:00:01Z", "2026-01-01T01:10:01Z", []string{"01:05", "01:10"}},
		{"2026-01-01T02:45:00Z", "", []string{"02:50"}},
		{"", "2026-01-01T00:05:00Z", []string{"00:00"}},
		{"2026-01-01T01:06:00Z", "2026-01-01T01:09:00Z", nil},
	} {
		var from, until time.Time
		if c.from != "" {
			from = instant(t, c.from)
		}
		if c.until != "" {
			until = instant(t, c.until)
		}
		part := whole.Within(from, until)
		var got, back []string
		for _, at := range walk(part, start, end) {
			got = append(got, at.Format("15:04"))
		}
		for at, ok := part.Prev(end.Add(-1)); ok && !at.Before(start); at, ok = part.Prev(at.Add(-1)) {
			back = append(back, at.Format("15:04"))
		}
		slices.Reverse(back)
		if !slices.Equal(got, c.want) || !slices.Equal(back, c.want) {
			t.Errorf("from %q until %q: %v forward, %v back, want %v", c.from, c.until, got, back, c.want)
		}
		if part.Period() != whole.Period() {
			t.Errorf("period %s, want %s", part.Period(), whole.Period())
		}
	}
}
