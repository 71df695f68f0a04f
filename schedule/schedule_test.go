package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func parsed(t testing.TB, expr, name string) *Schedule {
	t.Helper()
	s, err := Parse(expr, zone(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

type forward interface {
	Next(time.Time) (time.Time, bool)
}
type backward interface {
	Prev(time.Time) (time.Time, bool)
}

// walk lists the ticks of [start, end) by Next.
func walk(s forward, start, end time.Time) (ticks []time.Time) {
	for t, ok := s.Next(start.Add(-1)); ok && t.Before(end); t, ok = s.Next(t) {
		ticks = append(ticks, t)
	}
	return ticks
}

// walkBack lists the same ticks by Prev.
func walkBack(s backward, start, end time.Time) (ticks []time.Time) {
	for t, ok := s.Prev(end.Add(-1)); ok && !t.Before(start); t, ok = s.Prev(t.Add(-1)) {
		ticks = append(ticks, t)
	}
	slices.Reverse(ticks)
	return ticks
}

// TestDaylightSavingTable is the row "Vixie, cronie" for New York in 2024: clocks went from 02:00
// to 03:00 on 10 March and from 02:00 back to 01:00 on 3 November.
// Holds: promise 15.
func TestDaylightSavingTable(t *testing.T) {
	const gap, overlap = "2024-03-10", "2024-11-03"
	for _, c := range []struct{ expr, day, want string }{
		{"30 2 * * *", gap, "03:00 EDT"},
		{"30 1 * * *", overlap, "01:30 EDT"},
		{"0 1-3 * * *", overlap, "01:00 EDT, 02:00 EST, 03:00 EST"},
		{"*/30 1 * * *", overlap, "01:00 EDT, 01:30 EDT, 01:00 EST, 01:30 EST"},
		{"*/30 1-3 * * *", gap, "01:00 EST, 01:30 EST, 03:00 EDT, 03:30 EDT"},
		{"0,30 2 * * *", gap, "03:00 EDT"},            // two readings, one instant: one tick
		{"0 1-3 * * *", gap, "01:00 EST, 03:00 EDT"},  // 02:00 falls on 03:00's tick
		{"*/30 2 * * *", gap, ""},                     // elapsed time: the hour did not happen
		{"30 2,3 * * *", gap, "03:00 EDT, 03:30 EDT"}, // the list is of fixed times
		{"0 */2 * * *", gap, "00:00 EST, 04:00 EDT, 06:00 EDT, 08:00 EDT, 10:00 EDT, 12:00 EDT, 14:00 EDT, 16:00 EDT, 18:00 EDT, 20:00 EDT, 22:00 EDT"},
		{"30 2 10 3 *", gap, "03:00 EDT"},
		{"30 2 * * SUN", gap, "03:00 EDT"},
		{"@daily", overlap, "00:00 EDT"},
	} {
		ny := zone(t, "America/New_York")
		start, _ := time.ParseInLocation(time.DateOnly, c.day, ny)
		var got []string
		for _, tick := range walk(parsed(t, c.expr, "America/New_York"), start, start.AddDate(0, 0, 1)) {
			got = append(got, tick.In(ny).Format("15:04 MST"))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s on %s:\n got %s\nwant %s", c.expr, c.day, strings.Join(got, ", "), c.want)
		}
	}
}

// TestHourlyLosesNothing: 25 hours and 23 hours have as many ticks.
func TestHourlyLosesNothing(t *testing.T) {
	s := parsed(t, "@hourly", "America/New_York")
	for day, want := range map[string]int{"2024-03-10": 23, "2024-11-03": 25, "2024-07-01": 24} {
		start, _ := time.ParseInLocation(time.DateOnly, day, s.Zone())
		if got := len(walk(s, start, start.AddDate(0, 0, 1))); got != want {
			t.Errorf("%s: %d ticks, want %d", day, got, want)
		}
	}
}

// TestSkippedDay: Samoa had no 30 December 2011. Its ticks are due as the 31st begins.
func TestSkippedDay(t *testing.T) {
	s := parsed(t, "0 6,18 * * *", "Pacific/Apia")
	var got []string
	for _, tick := range walk(s, instant(t, "2011-12-29T10:00:00Z"), instant(t, "2011-12-31T10:00:00Z")) {
		got = append(got, tick.In(s.Zone()).Format("02 15:04"))
	}
	if want := "29 06:00, 29 18:00, 31 00:00, 31 06:00, 31 18:00"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
}

// places are windows round every kind of transition there is.
var places = []struct{ zone, around string }{
	{"UTC", "2024-02-29"},
	{"America/New_York", "2024-03-10"}, {"America/New_York", "2024-11-03"}, {"America/New_York", "2150-11-01"},
	{"Europe/London", "2025-03-30"}, {"Europe/London", "2025-10-26"}, {"Europe/London", "1968-10-27"},
	{"Australia/Lord_Howe", "2024-04-06"}, {"Australia/Lord_Howe", "2024-10-05"}, {"Australia/Lord_Howe", "2100-12-31"},
	{"Asia/Kathmandu", "1986-01-01"}, {"Asia/Kathmandu", "2024-06-01"},
	{"Pacific/Apia", "2011-12-30"}, {"Pacific/Apia", "2011-09-24"},
	{"Pacific/Kwajalein", "1993-08-21"}, {"Pacific/Kwajalein", "1969-10-01"},
	{"Africa/Casablanca", "2024-03-10"}, {"Africa/Casablanca", "2024-04-14"}, {"Africa/Casablanca", "2080-02-01"},
	{"America/Sao_Paulo", "2018-11-04"}, {"America/Sao_Paulo", "2019-02-17"},
	{"Pacific/Auckland", "2024-12-31"}, {"Pacific/Auckland", "2025-01-01"},
	{"Antarctica/Troll", "2024-03-31"}, {"Asia/Pyongyang", "2018-05-04"},
	{"Europe/Dublin", "2024-10-27"}, {"Asia/Gaza", "2023-04-29"}, {"Africa/Juba", "2021-01-31"},
}

// genField draws one plain field.
func genField(lo, hi int, wraps bool) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		item := func() string {
			a, b := rapid.IntRange(lo, hi).Draw(t, "a"), rapid.IntRange(lo, hi).Draw(t, "b")
			if a > b && !(wraps && a < 7) {
				a, b = b, a
			}
			step := rapid.IntRange(1, hi+2).Draw(t, "step")
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				return "*"
			case 1:
				return fmt.Sprintf("*/%d", step)
			case 2:
				return fmt.Sprintf("%d-%d", a, b)
			case 3:
				return fmt.Sprintf("%d-%d/%d", a, b, step)
			}
			return fmt.Sprint(a)
		}
		items := make([]string, rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "items"))
		for i := range items {
			items[i] = item()
		}
		return strings.Join(items, ",")
	})
}

var genExpr = rapid.Custom(func(t *rapid.T) string {
	anyDay := rapid.Bool().Draw(t, "any day") // so that a window of days has ticks
	fields := []string{genField(0, 59, false).Draw(t, "minute"), genField(0, 23, false).Draw(t, "hour"), "*", "*", "*"}
	if !anyDay {
		fields[2] = genField(1, 31, false).Draw(t, "dom")
		fields[3] = genField(1, 12, false).Draw(t, "month")
		fields[4] = genField(0, 7, true).Draw(t, "dow")
	}
	return strings.Join(fields, " ")
})

// TestNextAndPrevAgree at any instant: nothing lies between Prev(at) and Next(at).
func TestNextAndPrevAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Parse(genExpr.Draw(t, "expr"), zoneOf(t))
		if err != nil {
			return
		}
		at := time.Unix(rapid.Int64Range(-4e9, 1e11).Draw(t, "at"), rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		next, ok := s.Next(at)
		if !ok || !next.After(at) {
			t.Fatalf("%s: Next(%s) = %s, %v", s, at, next, ok)
		}
		if back, ok := s.Prev(next); !ok || !back.Equal(next) {
			t.Fatalf("%s: Prev(%s) = %s: a tick is its own previous one", s, next, back)
		}
		prev, ok := s.Prev(at)
		if !ok || prev.After(at) {
			t.Fatalf("%s: Prev(%s) = %s, %v", s, at, prev, ok)
		}
		if before, ok := s.Prev(next.Add(-1)); !ok || !before.Equal(prev) {
			t.Fatalf("%s: Prev just before Next(%s) is %s, not %s", s, at, before, prev)
		}
		if again, ok := s.Next(prev); !ok || !again.Equal(next) {
			t.Fatalf("%s: Next(%s) = %s, not %s", s, prev, again, next)
		}
	})
}

func zoneOf(t *rapid.T) *time.Location {
	z, err := LoadZone(rapid.SampledFrom(places).Draw(t, "place").zone)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestSegments checks what is believed of package time: within a segment the offset is constant,
// and segments follow each other without a hole.
func TestSegments(t *testing.T) {
	from, to := instant(t, "1880-01-01T00:00:00Z").Unix(), instant(t, "2105-01-01T00:00:00Z").Unix()
	for _, p := range places {
		z := zone(t, p.zone)
		for at := from; at < to; {
			g := segmentAt(z, at)
			if g.start > at || g.end <= at {
				t.Fatalf("%s: segment [%d, %d) is not round %d", z, g.start, g.end, at)
			}
			step := max((min(g.end, to)-max(g.start, from))/50, 1)
			for u := max(g.start, from); u < min(g.end, to); u += step {
				if _, offset := time.Unix(u, 0).In(z).Zone(); int64(offset) != g.offset {
					t.Fatalf("%s: offset %d at %s, %d in its segment", z, offset, time.Unix(u, 0).UTC(), g.offset)
				}
			}
			at = g.end
		}
	}
}

// TestRare: the rarest dates and the furthest look-ahead.
func TestRare(t *testing.T) {
	for _, c := range []struct{ expr, after, want string }{
		{"0 0 29 2 *", "1896-03-01T00:00:00Z", "1904-02-29T00:00:00Z"},
		{"0 0 29 2 */7", "2024-01-01T00:00:00Z", "2032-02-29T00:00:00Z"}, // AND: a Sunday
		{"0 0 29 2 SUN", "2024-01-01T00:00:00Z", "2024-02-04T00:00:00Z"}, // OR
		{"0 0 29 2 *", "9996-03-01T00:00:00Z", ""},
		{"59 23 31 12 *", "9999-12-31T23:58:59Z", "9999-12-31T23:59:00Z"},
		{"* * * * *", "9999-12-31T23:59:00Z", ""},
		{"0 0 0 29 2 ? 2096", "2024-01-01T00:00:00Z", "2096-02-29T00:00:00Z"},
		{"0 0 0 29 2 ? 2096", "2096-02-29T00:00:00Z", ""},
		{"0 0 29 2 &FRI#5", "2024-01-01T00:00:00Z", "2036-02-29T00:00:00Z"},
		{"0 0 29 2 &FRI#5", "2092-02-29T00:00:00Z", "2104-02-29T00:00:00Z"}, // 2100 has none
		{"0 0 31W 4-6 *", "2024-01-01T00:00:00Z", "2024-05-31T00:00:00Z"},
		{"0 0 L-30 1-3 *", "2024-01-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"59 59 23 31 12 ? 9999", "2024-01-01T00:00:00Z", "9999-12-31T23:59:59Z"},
		{"* * * * * ? 1970", "2024-01-01T00:00:00Z", ""},
		{"@every 1s", "9999-12-31T23:59:59Z", ""},
	} {
		got, ok := parsed(t, c.expr, "UTC").Next(instant(t, c.after))
		if !ok {
			got = time.Time{}
		}
		if text := got.Format(time.RFC3339); text != c.want && (ok || c.want != "") {
			t.Errorf("%s after %s: %s, want %s", c.expr, c.after, text, c.want)
		}
	}
}

func TestEvery(t *testing.T) {
	for _, c := range []struct{ expr, at, prev, next string }{
		{"@every 90m", "2024-05-01T10:00:00Z", "2024-05-01T09:00:00Z", "2024-05-01T10:30:00Z"},
		{"@every 7s", "1970-01-01T00:00:07Z", "1970-01-01T00:00:07Z", "1970-01-01T00:00:14Z"},
		{"@every 7s", "1969-12-31T23:59:59Z", "1969-12-31T23:59:53Z", "1970-01-01T00:00:00Z"},
		{"@every 1s", "2024-05-01T10:00:00.5Z", "2024-05-01T10:00:00Z", "2024-05-01T10:00:01Z"},
	} {
		s := parsed(t, c.expr, "America/New_York")
		prev, _ := s.Prev(instant(t, c.at))
		next, _ := s.Next(instant(t, c.at))
		if prev.Format(time.RFC3339) != c.prev || next.Format(time.RFC3339) != c.next {
			t.Errorf("%s at %s: %s and %s, want %s and %s", c.expr, c.at, prev, next, c.prev, c.next)
		}
	}
}

func TestUnion(t *testing.T) {
	u := Union(parsed(t, "0 9 * * *", "Europe/Berlin"), parsed(t, "0 */4 * * *", "UTC"), parsed(t, "@every 8h", "UTC"))
	start, end := instant(t, "2024-06-01T00:00:00Z"), instant(t, "2024-06-01T12:01:00Z")
	var got []string
	ticks := walk(u, start, end)
	for _, tick := range ticks {
		got = append(got, tick.Format("15:04"))
	}
	if want := "00:00 04:00 07:00 08:00 12:00"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if back := walkBack(u, start, end); !slices.Equal(back, ticks) {
		t.Errorf("backwards %v, forwards %v", back, ticks)
	}
	if u.Period() != time.Hour {
		t.Errorf("period %s, want 1h", u.Period())
	}
	if _, ok := Union().Next(start); ok || Union().Period() != 0 {
		t.Error("an empty union is due")
	}
}

func TestPeriod(t *testing.T) {
	for expr, want := range map[string]time.Duration{
		"* * * * *":          time.Minute,
		"*/15 * * * *":       15 * time.Minute,
		"*/7 * * * *":        4 * time.Minute, // 56 to 00
		"0 9,17 * * *":       8 * time.Hour,
		"@daily":             24 * time.Hour,
		"0 1,23 * * *":       2 * time.Hour,
		"0 9 * * MON":        7 * 24 * time.Hour,
		"0 9 * * MON-FRI":    24 * time.Hour,
		"@monthly":           28 * 24 * time.Hour,
		"@yearly":            365 * 24 * time.Hour,
		"0 0 29 2 *":         4*365*24*time.Hour + 24*time.Hour,
		"@every 10s":         10 * time.Second,
		"0 0 1,15 * *":       14 * 24 * time.Hour,
		"30 23 31 12 *":      365 * 24 * time.Hour,
		"0 22 * * 5":         7 * 24 * time.Hour,
		"15 4 1 * *":         28 * 24 * time.Hour,
		"0-4,30-31 12 1 1 *": time.Minute,

		"* * * * * *":                time.Second,
		"0,50 * * * * *":             10 * time.Second,
		"0,20 0,59 * * * *":          20 * time.Second,
		"30 0,59 * * * *":            time.Minute,
		"0 0 0 1 1 ? 2096":           0,
		"0 0 0 1 1 ? 2096,2100":      4*365*24*time.Hour + 24*time.Hour,
		"0 0 6,18 1 1 ? 2096":        12 * time.Hour,
		"0 0 L * *":                  28 * 24 * time.Hour,
		"0 0 * * FRI#5":              63 * 24 * time.Hour,
		"0 0 0 31 12 ? 2026/3":       3 * 365 * 24 * time.Hour,
		"0 0 0 L,1 * ? 2026":         24 * time.Hour,
		"*/30 59 23,0 * * *":         30 * time.Second,
		"45 0,58 23,0 * * MON,WED *": 58 * time.Minute,
	} {
		if got := parsed(t, expr, "America/New_York").Period(); got != want {
			t.Errorf("%s: %s, want %s", expr, got, want)
		}
	}
}

// TestSmall: a million schedules fit into memory.
func TestSmall(t *testing.T) {
	if size := unsafe.Sizeof(Schedule{}) + unsafe.Sizeof(calendar{}); size > 192 {
		t.Errorf("a schedule has %d bytes: want at most 192", size)
	}
}

// TestClocksThatHide: years in which the clocks of the zone never show the time.
func TestClocksThatHide(t *testing.T) {
	ny := zone(t, "America/New_York")
	for _, c := range []struct {
		expr  string
		dst   DST
		fires bool
	}{
		{"0 30 2 10 3 ? 2024", Vixie, true},
		{"0 30 2 10 3 ? 2024", Skip, false},
		{"0 30 2 10 3 ? 2024", Repeat, false},
		{"0 30 2 10 3 ? 2024,2025", Skip, true},
		{"0 */30 2 10 3 ? 2024", Vixie, false}, // elapsed time
		{"0 59 23 31 12 ? 9999", Vixie, false}, // in UTC that is the year 10000
	} {
		_, err := Options{Zone: ny, DST: c.dst}.Parse(c.expr)
		if c.fires != (err == nil) || err != nil && !strings.Contains(err.Error(), "so it never fires") {
			t.Errorf("%s, %s: %v", c.expr, c.dst, err)
		}
	}
	if _, err := (Options{DST: "never"}).Parse("* * * * *"); err == nil || !strings.Contains(err.Error(), "want vixie, skip or repeat") {
		t.Errorf("an unknown meaning: %v", err)
	}
}

// TestBounded: the hardest questions that were found take as long as a few walks through all segments of the zone.
// Whoever walked through the months of all years for each segment would take hundreds.
func TestBounded(t *testing.T) {
	ny := zone(t, "America/New_York")
	walk := func() {
		for at := firstUnix; at <= lastUnix; {
			at = segmentAt(ny, at).end
		}
	}
	for _, expr := range []string{
		"*/30 2 ? 3 SUN#2", // in the gap of every year since 2007
		"0 */30 2 ? 3 SUN#2 */2,1971",
		"0 0 0 29 2 ? " + strings.Repeat("1971-9999/2,", 70) + "9003", // never
		"* * * * * * 9999",
	} {
		ask := func() {
			if s, err := Parse(expr, ny); err == nil {
				s.Next(time.Now())
				s.Prev(time.Unix(lastUnix, 0))
				s.Period()
				s.Description()
			}
		}
		one, took := time.Hour, time.Hour
		for range 5 { // the quickest of each: what else the machine does slows down both
			one, took = min(one, lasts(walk)), min(took, lasts(ask))
		}
		t.Logf("%.40s took %s, and a walk %s", expr, took, one)
		if took > 20*one {
			t.Errorf("%.40s took %s, and a walk %s", expr, took, one)
		}
	}
}

func lasts(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

var sink time.Time

func BenchmarkNext(b *testing.B) {
	for _, expr := range []string{"*/15 * * * *", "30 2 * * *", "15 4 1 * *", "0 0 29 2 */7", "@every 10s", "*/10 * * * * *", "0 18 LW * *", "0 0 9 * * MON#1 2024-2030"} {
		b.Run(strings.ReplaceAll(expr, "/", "|"), func(b *testing.B) {
			s := parsed(b, expr, "America/New_York")
			after := time.Date(2024, 6, 15, 1, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = s.Next(after)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("*/15 9-17 * * MON-FRI", time.UTC); err != nil {
			b.Fatal(err)
		}
	}
}
