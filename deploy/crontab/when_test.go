package crontab

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/deploy/internal/clocks"
	"github.com/dibs-run/dibs/schedule"
)

type fataler interface{ Fatalf(string, ...any) }

// A reference is one line's schedule as Vixie's cron reads it, written apart from package schedule.
type reference struct {
	minute, hour, day, month, weekday map[int]bool
	both, wildcard                    bool
}

func reads(t fataler, when string) reference {
	f := strings.Fields(when)
	if len(f) != 5 {
		t.Fatalf("%q has not five fields", when)
	}
	r := reference{minute: values(t, f[0], 0, 59), hour: values(t, f[1], 0, 23), day: values(t, f[2], 1, 31),
		month: values(t, f[3], 1, 12), weekday: values(t, f[4], 0, 7)}
	r.weekday[0] = r.weekday[0] || r.weekday[7]
	r.both = f[2][0] == '*' || f[4][0] == '*'
	r.wildcard = f[0][0] == '*' || f[1][0] == '*'
	return r
}

// values reads what the manual of cron promises: numbers, ranges that do not wrap, steps of a star or a range, and a
// name that stands alone.
func values(t fataler, field string, lo, hi int) map[int]bool {
	set := map[int]bool{}
	names := map[string]int{"JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6, "JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11,
		"DEC": 12, "SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}
	if v, ok := names[field]; ok {
		set[v] = true
		return set
	}
	number := func(s string) int {
		v, err := strconv.Atoi(s)
		if err != nil || v < lo || v > hi {
			t.Fatalf("%q in %q: cron does not read it", s, field)
		}
		return v
	}
	for _, item := range strings.Split(field, ",") {
		span, step, stepped := strings.Cut(item, "/")
		from, to, ranged := strings.Cut(span, "-")
		a, b, by := lo, hi, 1
		if span != "*" {
			a = number(from)
			if b = a; ranged {
				b = number(to)
			}
		}
		if stepped {
			if by = number(step); span != "*" && !ranged || by == 0 {
				t.Fatalf("%q: cron does not read a step without a range", field)
			}
		}
		if a > b {
			t.Fatalf("%q: cron does not read a range that ends before it begins", field)
		}
		for v := a; v <= b; v += by {
			set[v] = true
		}
	}
	return set
}

// matches says whether a reading of the wall clock matches; w has it as if it were UTC's.
func (r reference) matches(w time.Time) bool {
	day, weekday := r.day[w.Day()], r.weekday[int(w.Weekday())]
	on := day || weekday
	if r.both {
		on = day && weekday
	}
	return r.minute[w.Minute()] && r.hour[w.Hour()] && r.month[int(w.Month())] && on
}

func reading(at time.Time, zone *time.Location) time.Time {
	_, o := at.In(zone).Zone()
	return at.Add(time.Duration(o) * time.Second).UTC()
}

// fires says whether Vixie's cron starts the line at a minute. It keeps a virtual clock over changes of up to three
// hours: when the clock jumps ahead, lines with a fixed time that were jumped over are started at once; while it
// repeats times, only lines with a star are.
func (r reference) fires(at time.Time, zone *time.Location) bool {
	now := reading(at, zone)
	if r.wildcard {
		return r.matches(now)
	}
	latest := now.Add(-time.Minute) // that any minute before this one has shown
	if _, o := at.Add(-3 * time.Hour).In(zone).Zone(); true {
		if _, p := at.In(zone).Zone(); o != p {
			latest = reading(at.Add(-time.Minute), zone)
			for n := 2; n <= 180; n++ {
				if w := reading(at.Add(-time.Duration(n)*time.Minute), zone); w.After(latest) {
					latest = w
				}
			}
		}
	}
	for w := latest.Add(time.Minute); !w.After(now); w = w.Add(time.Minute) {
		if r.matches(w) {
			return true
		}
	}
	return false
}

func drawField(t *rapid.T, name string, lo, hi int, special ...string) string {
	one := func() string { return strconv.Itoa(rapid.IntRange(lo, hi).Draw(t, name)) }
	switch n := rapid.IntRange(0, 9).Draw(t, name+" form"); {
	case n < 3:
		return "*"
	case n == 3:
		return "*/" + strconv.Itoa(rapid.IntRange(1, hi-lo).Draw(t, name+" step"))
	case n == 4:
		a, b := rapid.IntRange(lo, hi).Draw(t, name+" from"), rapid.IntRange(lo, hi).Draw(t, name+" to")
		if a > b && hi != 7 {
			a, b = b, a
		}
		return strconv.Itoa(a) + "-" + strconv.Itoa(b)
	case n == 5:
		return one() + "/" + strconv.Itoa(rapid.IntRange(1, hi-lo).Draw(t, name+" step"))
	case n == 6 && len(special) > 0:
		return rapid.SampledFrom(special).Draw(t, name+" special")
	case n == 7:
		return one() + "," + one()
	}
	return one()
}

func anExpression(t *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(t, "every") == 0 {
		return "@every " + strconv.Itoa(rapid.IntRange(1, 3000).Draw(t, "minutes")) + "m"
	}
	if rapid.IntRange(0, 19).Draw(t, "alias") == 0 {
		return rapid.SampledFrom([]string{"@hourly", "@Daily", "@weekly", "@monthly", "@yearly"}).Draw(t, "which")
	}
	e := drawField(t, "minute", 0, 59, "H", "H/15") + " " + drawField(t, "hour", 0, 23, "H", "H(2-5)") + " " +
		drawField(t, "day", 1, 31, "L", "15W", "?", "L-3", "H") + " " + drawField(t, "month", 1, 12, "JAN,JUL", "H", "MAR-OCT", "JUN") + " " +
		drawField(t, "weekday", 0, 7, "FRIL", "MON#2", "&FRI", "FRI-MON", "SUN", "?", "H", "MON,WED")
	if rapid.IntRange(0, 9).Draw(t, "seconds") == 0 {
		e = "0 " + e
		if rapid.Bool().Draw(t, "year") {
			e += " 2026/2"
		}
	}
	return e
}

// Whatever the expression, its zone, cron's zone and the changes of both clocks: cron starts the entry at each tick,
// and where More is false at no other time. Cron is the reference above.
func TestEachTickIsFired(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kolkata",
		"Africa/Casablanca", "Asia/Kathmandu", "Pacific/Auckland", "America/Santiago", "Etc/GMT"}
	zone := rapid.Map(rapid.SampledFrom(zones), func(name string) *time.Location {
		z, err := schedule.LoadZone(name)
		if err != nil {
			panic(err)
		}
		return z
	})
	rapid.Check(t, func(t *rapid.T) {
		own, host := zone.Draw(t, "zone"), zone.Draw(t, "cron's zone")
		if rapid.IntRange(0, 2).Draw(t, "same") == 0 {
			host = own
		}
		o := schedule.Options{Zone: own, Name: "shop/mail", DST: rapid.SampledFrom([]schedule.DST{"", schedule.Skip, schedule.Repeat}).Draw(t, "dst")}
		s, err := o.Parse(anExpression(t))
		if err != nil {
			t.SkipNow() // 30 February, or the like
		}
		tr, err := Translate(s, host)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		var lines []reference
		for _, when := range tr.Lines {
			lines = append(lines, reads(t, when))
		}
		started := func(at time.Time) bool {
			for _, l := range lines {
				if l.fires(at, host) {
					return true
				}
			}
			return false
		}
		begin := time.Date(rapid.IntRange(2026, 2032).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		at, n := begin.Add(-time.Minute), 0
		for {
			next, ok := s.Next(at)
			if at = next; !ok || at.After(begin.AddDate(1, 0, 1)) || n == 20_000 && !nearChange(at, own, host) {
				break
			}
			if n++; !started(at) {
				t.Fatalf("%s in %s on a host in %s: %q does not fire at its tick %s", s, own, host, tr.Lines, at)
			}
		}
		if tr.More {
			return
		}
		for range 20 {
			day := begin.AddDate(0, 0, rapid.IntRange(0, 365).Draw(t, "day"))
			for m := range minutesPerDay {
				at := day.Add(time.Duration(m) * time.Minute)
				if prev, _ := s.Prev(at); started(at) != prev.Equal(at) {
					t.Fatalf("%s in %s on a host in %s: %q fires at %s, and the schedule's tick is %s", s, own, host, tr.Lines, at, prev)
				}
			}
		}
	})
}

func nearChange(at time.Time, zones ...*time.Location) bool {
	for _, z := range zones {
		if clocks.Offset(z, at.Unix()-86400) != clocks.Offset(z, at.Unix()+86400) {
			return true
		}
	}
	return false
}

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		expr, zone, host string
		want             string
		more             bool
	}{
		{"15 4 1 * *", "Europe/Berlin", "Europe/Berlin", "15 4 1 * *", false},
		{"*/10 9-17 * * MON-FRI", "UTC", "Etc/UTC", "*/10 9-17 * * 1-5", false},
		{"0 22 * JAN FRI-MON", "UTC", "UTC", "0 22 * JAN 0,1,5,6", false},
		{"5/15 4 ? * 5/2", "UTC", "UTC", "5-59/15 4 * * 5-6/2", false},
		{"@Weekly", "UTC", "UTC", "0 0 * * 0", false},
		{"0 0 6 * * *", "UTC", "UTC", "0 6 * * *", false},
		{"0 18 L * *", "UTC", "UTC", "0 18 * * *", true},
		{"0 0 6 * * * 2027", "UTC", "UTC", "0 6 * * *", true},
		{"15 4 1 * *", "Europe/Berlin", "UTC", "15 2,3 * * *", true},
		{"30 2 * * *", "Europe/Berlin", "UTC", "30 0 * * *; 0,30 1 * * *", true}, // 03:00 in summer after the gap is 01:00
		{"15 4 * * *", "Asia/Kolkata", "UTC", "45 22 * * *", true},
		{"30 6 * * *", "UTC", "Europe/Berlin", "30 * * * *", true},
		{"@every 90m", "Asia/Kolkata", "UTC", "0 */3 * * *; 30 1,4,7,10,13,16,19,22 * * *", false},
		{"@every 36h", "UTC", "UTC", "0 0,12 * * *", true},
		{"@every 7m", "UTC", "UTC", "* * * * *", true},
		{"@every 15m", "UTC", "Europe/Berlin", "*/15 * * * *", true},
	} {
		own, _ := schedule.LoadZone(c.zone)
		host, _ := schedule.LoadZone(c.host)
		s, err := schedule.Parse(c.expr, own)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := Translate(s, host)
		if got := strings.Join(tr.Lines, "; "); err != nil || got != c.want || tr.More != c.more {
			t.Errorf("%s in %s on a host in %s: %s, more %v, %v; want %s", c.expr, c.zone, c.host, got, tr.More, err, c.want)
		}
	}
	for _, expr := range []string{"*/10 * * * * *", "30 0 6 * * *", "@every 90s"} {
		s, _ := schedule.Parse(expr, time.UTC)
		if tr, err := Translate(s, time.UTC); err == nil || !strings.Contains(err.Error(), "leave out the seconds") {
			t.Errorf("%s: %v, %v", expr, tr, err)
		}
	}
}
