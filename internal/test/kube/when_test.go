package kube

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/deploy/kubernetes"
	"github.com/dibs-run/dibs/schedule"
)

func drawField(t *rapid.T, name string, lo, hi int, special ...string) string {
	one := func() string { return strconv.Itoa(rapid.IntRange(lo, hi).Draw(t, name)) }
	switch n := rapid.IntRange(0, 9).Draw(t, name+" form"); {
	case n < 3:
		return "*"
	case n == 3:
		return "*/" + strconv.Itoa(rapid.IntRange(1, hi-lo).Draw(t, name+" step"))
	case n == 4:
		a, b := rapid.IntRange(lo, hi).Draw(t, name+" from"), rapid.IntRange(lo, hi).Draw(t, name+" to")
		return strconv.Itoa(min(a, b)) + "-" + strconv.Itoa(max(a, b))
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
	e := drawField(t, "minute", 0, 59, "H", "0", "30") + " " + drawField(t, "hour", 0, 23, "H(1-3)", "0", "1,2,3") + " " +
		drawField(t, "day", 1, 31, "L", "15W", "?", "L-3", "*/2") + " " + drawField(t, "month", 1, 12, "MAR,OCT", "MAR-OCT", "APR,SEP") + " " +
		drawField(t, "weekday", 0, 7, "SUNL", "SUN#4", "&SUN", "FRI-MON", "SUN", "MON,WED")
	if rapid.IntRange(0, 9).Draw(t, "year") == 0 {
		e = "0 " + e + " 2027-2029/2"
	}
	return e
}

// zones have changes by an hour at night, at midnight and by half an hour, offsets of quarters, or no changes.
var zones = []string{"UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/St_Johns", "America/Santiago", "America/Havana", "Africa/Cairo",
	"Asia/Beirut", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham", "Africa/Casablanca", "Atlantic/Azores", "America/Nuuk", "Antarctica/Troll"}

// fires are the instants of the lines after one, as the controller of CronJobs finds them: by the same package, in
// the zone of the CronJob, each searched from the one before.
func fires(t interface{ Fatalf(string, ...any) }, lines []string, after, until time.Time) map[time.Time]bool {
	all := map[time.Time]bool{}
	for _, l := range lines {
		f := strings.Fields(l)
		zone, err := time.LoadLocation(f[5])
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		s, err := cron.ParseStandard("TZ=" + f[5] + " " + strings.Join(f[:5], " ")) // as the controller does
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		last := after
		for at := s.Next(after.In(zone)); !at.IsZero() && !at.After(until); at = s.Next(at) {
			if !at.After(last) { // the controller would never end
				t.Fatalf("%s: after %s comes %s", l, last, at)
			}
			last = at
			all[at.UTC()] = true
		}
	}
	return all
}

// Whatever the expression, its zone and the changes of clocks in a year: Kubernetes fires at each tick, and where More
// is false at no other time.
func TestEachTickIsFired(t *testing.T) {
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
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 4000).Draw(t, "day"))
		compare(t, s, from)
	})
}

// The days on which Kubernetes' own steps go astray: midnight is not there, or a change is not from a whole hour to
// another.
func TestOddChanges(t *testing.T) {
	for _, name := range []string{"Pacific/Chatham", "Australia/Lord_Howe", "America/Santiago", "America/Havana", "Africa/Cairo", "Europe/Berlin", "Antarctica/Troll"} {
		zone, err := schedule.LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, expr := range []string{"*/15 3,4 * * *", "15 3 * * *", "0 12 * * 0", "0 12 * * 5", "30 0 * * *", "0 */2 * * *", "45 2-4 * * *", "59 23 1-10 * *"} {
			for _, dst := range []schedule.DST{schedule.Vixie, schedule.Skip, schedule.Repeat} {
				s, err := schedule.Options{Zone: zone, DST: dst}.Parse(expr)
				if err != nil {
					t.Fatal(err)
				}
				compare(t, s, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			}
		}
	}
}

// compare holds a year of what the lines fire against the schedule's own instants.
func compare(t interface{ Fatalf(string, ...any) }, s *schedule.Schedule, from time.Time) {
	zone := s.Zone()
	tr, err := kubernetes.Translate(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	until := from.AddDate(1, 0, 2)
	fired := fires(t, tr.Lines, from, until)
	ticks := map[time.Time]bool{}
	for at, ok := s.Next(from); ok && !at.After(until); at, ok = s.Next(at) {
		if ticks[at] = true; !fired[at] {
			t.Fatalf("%s in %s, dst %q: %q does not fire at its tick %s, %s", s, zone, s.DST(), tr.Lines, at, at.In(zone))
		}
	}
	for at := range fired {
		if !tr.More && !ticks[at] {
			t.Fatalf("%s in %s, dst %q: %q fires at %s, which is no tick", s, zone, s.DST(), tr.Lines, at)
		}
	}
}
