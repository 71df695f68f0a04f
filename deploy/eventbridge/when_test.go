package eventbridge

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/deploy/internal/clocks"
	"github.com/dibs-run/dibs/schedule"
)

type fataler interface{ Fatalf(string, ...any) }

// A reading is one expression as EventBridge documents it, written apart from what writes it.
type reading struct {
	minute, hour, day, month, weekday map[int]bool // weekday from 1, Sunday
	last                              bool         // L as the day
	nth                               int          // of the weekday, 0, or -1 for the last
	year                              map[int]bool
	zone                              *time.Location
}

func reads(t fataler, line string) (r reading) {
	expr, zone, ok := strings.Cut(line, ") ")
	f := strings.Fields(strings.TrimPrefix(expr, "cron("))
	if !ok || !strings.HasPrefix(expr, "cron(") || len(f) != 6 || len(expr)+1 > 256 {
		t.Fatalf("%q is no cron expression with a zone", line)
	}
	var err error
	if r.zone, err = time.LoadLocation(zone); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if (f[2] == "?") == (f[4] == "?") {
		t.Fatalf("%q: exactly one of the day fields is a question mark", line)
	}
	r.minute, r.hour, r.month = numbers(t, f[0], 0, 59), numbers(t, f[1], 0, 23), numbers(t, f[3], 1, 12)
	r.year = numbers(t, f[5], 1970, 2199)
	switch {
	case f[2] == "L":
		r.last = true
	case f[2] != "?":
		r.day = numbers(t, f[2], 1, 31)
	default:
		day, nth, _ := strings.Cut(f[4], "#")
		day, last := strings.CutSuffix(day, "L")
		if r.nth = 0; last {
			r.nth = -1
		}
		if r.weekday = numbers(t, day, 1, 7); nth != "" {
			if r.nth, err = strconv.Atoi(nth); err != nil || r.nth < 1 || r.nth > 5 || last {
				t.Fatalf("%q: no such weekday", line)
			}
		}
		if r.nth != 0 && len(r.weekday) != 1 {
			t.Fatalf("%q: no such weekday", line)
		}
	}
	return r
}

func numbers(t fataler, field string, lo, hi int) map[int]bool {
	set := map[int]bool{}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil || n < lo || n > hi {
			t.Fatalf("%q in %q: not from %d to %d", s, field, lo, hi)
		}
		return n
	}
	for _, item := range strings.Split(field, ",") {
		from, to, ranged := strings.Cut(item, "-")
		a, b := lo, hi
		if item != "*" {
			a = number(from)
			if b = a; ranged {
				b = number(to)
			}
		}
		if a > b {
			t.Fatalf("%q ends before it begins", field)
		}
		for n := a; n <= b; n++ {
			set[n] = true
		}
	}
	return set
}

func (r reading) matches(w time.Time) bool {
	on := false
	switch {
	case r.last:
		on = w.AddDate(0, 0, 1).Day() == 1
	case r.day != nil:
		on = r.day[w.Day()]
	default:
		on = r.weekday[int(w.Weekday())+1] && (r.nth == 0 || (w.Day()-1)/7+1 == r.nth || r.nth < 0 && w.AddDate(0, 0, 7).Month() != w.Month())
	}
	return on && r.year[w.Year()] && r.minute[w.Minute()] && r.hour[w.Hour()] && r.month[int(w.Month())]
}

// wall is what the zone's clock shows, as if it were UTC's.
func wall(at time.Time, zone *time.Location) time.Time {
	return at.Add(time.Duration(clocks.Offset(zone, at.Unix())) * time.Second).UTC()
}

// fires says whether the schedule fires at a minute. A time that the clock leaves out does not fire; one that it shows
// twice fires once: AWS does not say at which of the two, so the caller does.
func (r reading) fires(at time.Time, second bool) bool {
	w := wall(at, r.zone)
	if !r.matches(w) {
		return false
	}
	for _, by := range []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour} {
		if second && wall(at.Add(by), r.zone).Equal(w) || !second && wall(at.Add(-by), r.zone).Equal(w) {
			return false // the other pass is the one
		}
	}
	return true
}

func drawField(t *rapid.T, name string, lo, hi int, more ...string) string {
	one := func() string { return strconv.Itoa(rapid.IntRange(lo, hi).Draw(t, name)) }
	switch n := rapid.IntRange(0, 9).Draw(t, name+" form"); {
	case n < 4:
		return "*"
	case n == 4:
		return "*/" + strconv.Itoa(rapid.IntRange(1, hi-lo).Draw(t, name+" step"))
	case n == 5:
		a, b := rapid.IntRange(lo, hi).Draw(t, name+" from"), rapid.IntRange(lo, hi).Draw(t, name+" to")
		return strconv.Itoa(min(a, b)) + "-" + strconv.Itoa(max(a, b))
	case n == 6 && len(more) > 0:
		return rapid.SampledFrom(more).Draw(t, name+" special")
	case n == 7:
		return one() + "," + one()
	}
	return one()
}

func anExpression(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "every") == 0 {
		return "@every " + strconv.Itoa(rapid.IntRange(1, 3000).Draw(t, "minutes")) + "m"
	}
	e := drawField(t, "minute", 0, 59, "H") + " " + drawField(t, "hour", 0, 5, "H(1-3)", "1,2,3") + " " + drawField(t, "day", 1, 31, "L", "15W", "L-2", "?", "10,L") + " " +
		drawField(t, "month", 1, 12, "MAR,OCT", "MAR-OCT") + " " + drawField(t, "weekday", 0, 7, "SUNL", "SUN#4", "5#2", "&SUN", "FRI-MON", "SUN", "MON#1,FRIL")
	if rapid.IntRange(0, 9).Draw(t, "year") == 0 {
		e = "0 " + e + rapid.SampledFrom([]string{" 2026-2027", " 2030", " 2026/3"}).Draw(t, "which years")
	}
	return e
}

// Over a year with two changes of the clock, the instants at which the schedules fire, filtered by the decision of
// dibs trigger (an instant that is no tick is not due), are the schedule's ticks; where More is false, also without
// it.
func TestFiresAreTheTicks(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Auckland", "America/Santiago", "Africa/Casablanca"}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := schedule.LoadZone(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatalf("%v", err)
		}
		o := schedule.Options{Zone: zone, Name: "shop/mail", DST: rapid.SampledFrom([]schedule.DST{"", schedule.Skip, schedule.Repeat}).Draw(t, "dst")}
		s, err := o.Parse(anExpression(t))
		if err != nil {
			t.SkipNow() // 30 February, or the like
		}
		tr, err := Translate(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		second := rapid.Bool().Draw(t, "fires at the second pass")
		var all []reading
		for _, l := range tr.Lines {
			all = append(all, reads(t, l))
		}
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(rapid.IntRange(0, 20).Draw(t, "years"), 0, 0)
		next, ok := s.Next(from.Add(-time.Minute))
		for _, at := range minutesOf(from, zone, rapid.IntRange(0, 365).Draw(t, "day")) {
			for ok && next.Before(at) {
				next, ok = s.Next(next)
			}
			tick := ok && next.Equal(at)
			fired := slices.ContainsFunc(all, func(r reading) bool { return r.fires(at, second) })
			if tick && !fired || fired && !tick && !tr.More {
				t.Fatalf("%s in %s, dst %q: %q, tick %v and fires %v at %s", s, zone, s.DST(), tr.Lines, tick, fired, at)
			}
		}
	})
}

// minutesOf are all minutes of the days round the changes of a year's clock, of the turns of its months, and of ten
// days from one: all kinds of days, without looking at half a million minutes each time. Long runs look at the whole
// year.
func minutesOf(from time.Time, zone *time.Location, day int) (all []time.Time) {
	look := map[int]bool{}
	for d := range 10 {
		look[(day+d)%365] = true
	}
	for _, at := range clocks.Changes(zone) {
		if d := int(at.Sub(from).Hours() / 24); d >= 0 && d < 366 {
			look[d-1], look[d], look[d+1] = true, true, true
		}
	}
	for d := range 366 {
		switch day := from.AddDate(0, 0, d); {
		case day.Day() == 1 || day.AddDate(0, 0, 1).Day() == 1 || look[d] || !testing.Short():
			for m := range 24 * 60 {
				all = append(all, day.Add(time.Duration(m)*time.Minute))
			}
		}
	}
	return all
}

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		expr, zone, want string
		more             bool
	}{
		{"15 4 1 * *", "Asia/Tokyo", "cron(15 4 1 * ? *) Asia/Tokyo", false},
		{"*/10 9-17 * * MON-FRI", "UTC", "cron(0,10,20,30,40,50 9-17 ? * 2-6 *) UTC", false},
		{"0 0 * * 0", "UTC", "cron(0 0 ? * 1 *) UTC", false},
		{"0 0 * * 7", "UTC", "cron(0 0 ? * 1 *) UTC", false},
		{"0 0 * * 6", "UTC", "cron(0 0 ? * 7 *) UTC", false},
		{"@weekly", "UTC", "cron(0 0 ? * 1 *) UTC", false},
		{"0 0 13 * FRI", "UTC", "cron(0 0 13 * ? *) UTC; cron(0 0 ? * 6 *) UTC", false},
		{"0 0 */10 * FRI", "UTC", "cron(0 0 1,11,21,31 * ? *) UTC", true},
		{"0 0 1-7 * &MON", "UTC", "cron(0 0 ? * 2 *) UTC", true},
		{"0 18 L * *", "UTC", "cron(0 18 L * ? *) UTC", false},
		{"0 18 * * FRI#2", "UTC", "cron(0 18 ? * 6#2 *) UTC", false},
		{"0 18 * * FRIL", "UTC", "cron(0 18 ? * 6L *) UTC", false},
		{"0 18 * * MON#1,FRIL", "UTC", "cron(0 18 ? * 2#1 *) UTC; cron(0 18 ? * 6L *) UTC", false},
		{"0 18 L * FRI#2", "UTC", "cron(0 18 L * ? *) UTC; cron(0 18 ? * 6#2 *) UTC", false},
		{"0 18 10,L * ?", "UTC", "cron(0 18 10 * ? *) UTC; cron(0 18 L * ? *) UTC", false},
		{"0 18 L-2 * *", "UTC", "cron(0 18 * * ? *) UTC", true},
		{"0 0 12 ? * MON-FRI 2027", "UTC", "cron(0 12 ? * 2-6 2027) UTC", false},
		{"0 0 12 1 1 ? 2027-2030,2035", "UTC", "cron(0 12 1 1 ? 2027-2030,2035) UTC", false},
		{"0 0 12 1 1 ? 2300", "UTC", "cron(0 12 1 1 ? *) UTC", true},
		{"0 18 15W * *", "UTC", "cron(0 18 * * ? *) UTC", true},
		{"30 2 * * *", "Europe/Berlin", "cron(30 2 * * ? *) Europe/Berlin; cron(30 0 ? 3,10 1 *) UTC; cron(0 1 ? 3,10 1 *) UTC", true},
		{"30 4 * * *", "Europe/Berlin", "cron(30 4 * * ? *) Europe/Berlin", false},
		{"30 2 1 * *", "Europe/Berlin", "cron(30 2 1 * ? *) Europe/Berlin", false}, // no change is on a first
		{"@every 90m", "UTC", "cron(0 0,3,6,9,12,15,18,21 * * ? *) UTC; cron(30 1,4,7,10,13,16,19,22 * * ? *) UTC", false},
		{"@every 36h", "Europe/Berlin", "cron(0 0,12 * * ? *) UTC", true},
		{"@every 24h", "UTC", "cron(0 0 * * ? *) UTC", false},
	} {
		zone, _ := schedule.LoadZone(c.zone)
		s, err := schedule.Parse(c.expr, zone)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := Translate(s)
		if got := strings.Join(tr.Lines, "; "); err != nil || got != c.want || tr.More != c.more {
			t.Errorf("%s in %s: %s, more %v, %v; want %s", c.expr, c.zone, got, tr.More, err, c.want)
		}
	}
	for _, expr := range []string{"@every 90s", "*/10 * * * * *", "30 0 4 * * *"} {
		s, err := schedule.Parse(expr, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if tr, err := Translate(s); err == nil || !strings.Contains(err.Error(), "let dibs serve run this job") {
			t.Errorf("%s: %v, %v", expr, tr, err)
		}
	}
}
