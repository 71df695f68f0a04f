package systemd

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/deploy/internal/clocks"
	"github.com/dibs-run/dibs/schedule"
)

var elapses = regexp.MustCompile(`(?m)(?:Next elapse|Iter\. #\d+): \w{3} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC`)

// asks has systemd say when a line elapses: the first n instants after one.
func asks(t interface{ Fatalf(string, ...any) }, line string, after time.Time, n int) (all []time.Time) {
	cmd := exec.Command("systemd-analyze", "calendar", "--base-time="+after.Format("2006-01-02 15:04:05")+" UTC", "--iterations="+strconv.Itoa(n), line)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "TZ=UTC", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "Next elapse: never") {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	for _, m := range elapses.FindAllStringSubmatch(string(out), -1) {
		at, err := time.Parse("2006-01-02 15:04:05", m[1])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, at)
	}
	return all
}

func drawField(t *rapid.T, name string, lo, hi int, special ...string) string {
	one := func() string { return strconv.Itoa(rapid.IntRange(lo, hi).Draw(t, name)) }
	switch n := rapid.IntRange(0, 9).Draw(t, name+" form"); {
	case n < 4:
		return "*"
	case n == 4:
		return "*/" + strconv.Itoa(rapid.IntRange(1, hi-lo).Draw(t, name+" step"))
	case n == 5:
		a, b := rapid.IntRange(lo, hi).Draw(t, name+" from"), rapid.IntRange(lo, hi).Draw(t, name+" to")
		return strconv.Itoa(min(a, b)) + "-" + strconv.Itoa(max(a, b))
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
	e := drawField(t, "minute", 0, 59, "H") + " " + drawField(t, "hour", 0, 5, "H(1-3)", "1,2,3") + " " + drawField(t, "day", 1, 31, "L", "15W", "?", "L-2,1", "LW", "1W", "L-3W", "30W", "10,L") + " " +
		drawField(t, "month", 1, 12, "MAR,OCT", "MAR-OCT") + " " + drawField(t, "weekday", 0, 7, "SUNL", "SUN#4", "&SUN", "FRI-MON", "SUN", "MON#1,FRIL", "WED#5", "&TUE#2")
	if rapid.IntRange(0, 4).Draw(t, "seconds") == 0 {
		e = strconv.Itoa(rapid.IntRange(0, 59).Draw(t, "second")) + " " + e + rapid.SampledFrom([]string{"", " 2026-2030", " 2027"}).Draw(t, "year")
	}
	return e
}

// systemd itself says when the lines elapse: at each tick, and where More is false at no other time, through the
// changes of clocks too.
func TestEachTickElapses(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("NOT COVERED: what systemd makes of a timer: " + err.Error())
	}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Auckland", "America/Santiago"}
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
		from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 1000).Draw(t, "day"))
		if changes := clocks.Changes(zone); len(changes) > 0 && rapid.Bool().Draw(t, "near a change") {
			from = changes[rapid.IntRange(0, 9).Draw(t, "change")].Add(-3 * time.Hour)
		}
		const n = 60
		fires := map[time.Time]bool{}
		until := from.AddDate(60, 0, 0)
		for _, line := range tr.Lines {
			all := asks(t, line, from, n)
			for _, at := range all {
				fires[at] = true
			}
			if len(all) == n && all[n-1].Before(until) { // beyond that the line was not asked for
				until = all[n-1]
			}
		}
		ticks := map[time.Time]bool{}
		for at, ok := s.Next(from); ok && !at.After(until); at, ok = s.Next(at) {
			if ticks[at] = true; !fires[at] {
				t.Fatalf("%s in %s, dst %q: %q does not elapse at its tick %s", s, zone, s.DST(), tr.Lines, at)
			}
		}
		for at := range fires {
			if !tr.More && !at.After(until) && !ticks[at] {
				t.Fatalf("%s in %s, dst %q: %q elapses at %s, which is no tick", s, zone, s.DST(), tr.Lines, at)
			}
		}
	})
}

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		expr, zone, want string
		more             bool
	}{
		{"15 4 1 * *", "Europe/Berlin", "*-*-01 04:15:00 Europe/Berlin", false},
		{"*/10 9-10 * * MON-FRI", "UTC", "Mon,Tue,Wed,Thu,Fri *-*-* 09,10:00,10,20,30,40,50:00 UTC", false},
		{"0 0 13 * FRI", "UTC", "*-*-13 00:00:00 UTC; Fri *-*-* 00:00:00 UTC", false},
		{"0 0 */2 * FRI", "UTC", "Fri *-*-01,03,05,07,09,11,13,15,17,19,21,23,25,27,29,31 00:00:00 UTC", false},
		{"@weekly", "UTC", "Sun *-*-* 00:00:00 UTC", false},
		{"30 2 * * *", "Europe/Berlin", "*-*-* 02:30:00 Europe/Berlin; *-*-* 01:00:00 UTC", true},
		{"0 * * * *", "Europe/Berlin", "*-*-* *:00:00 Europe/Berlin; *-*-* 01:00:00 UTC", true},
		{"0 18 L * *", "UTC", "*-*~01 18:00:00 UTC", false},
		{"30 2 L-2 10 *", "Europe/Berlin", "*-10~03 02:30:00 Europe/Berlin; *-*-* 00:30:00 UTC; *-*-* 01:00,30:00 UTC", true},
		{"0 18 L-2,10 * *", "UTC", "*-*-10 18:00:00 UTC; *-*~03 18:00:00 UTC", false},
		{"0 9 * * MON#3", "UTC", "Mon *-*-15,16,17,18,19,20,21 09:00:00 UTC", false},
		{"0 9 * * MON#5", "UTC", "Mon *-*-29,30,31 09:00:00 UTC", false},
		{"0 22 * 6 FRIL", "UTC", "Fri *-06~01,02,03,04,05,06,07 22:00:00 UTC", false},
		{"0 22 13 * FRIL", "UTC", "*-*-13 22:00:00 UTC; Fri *-*~01,02,03,04,05,06,07 22:00:00 UTC", false},
		{"0 22 13 * &FRI#2", "UTC", "Fri *-*-13 22:00:00 UTC", false},
		{"0 22 L * &FRI#5", "UTC", "Fri *-*~01 22:00:00 UTC", true},
		{"0 12 15W * *", "UTC", "Mon,Tue,Wed,Thu,Fri *-*-15 12:00:00 UTC; Mon *-*-16 12:00:00 UTC; Fri *-*-14 12:00:00 UTC", false},
		{"0 0 12 ? * MON-FRI 2027", "UTC", "Mon,Tue,Wed,Thu,Fri 2027-*-* 12:00:00 UTC", false},
		{"0 0 12 1 1 ? 2027/2", "UTC", "*-01-01 12:00:00 UTC", true},
		{"*/10 * * * * *", "UTC", "*-*-* *:*:00,10,20,30,40,50 UTC", false},
		{"@every 90m", "UTC", "*-*-* 00,03,06,09,12,15,18,21:00:00 UTC; *-*-* 01,04,07,10,13,16,19,22:30:00 UTC", false},
		{"@every 36h", "UTC", "*-*-* 00,12:00:00 UTC", true},
		{"@every 20s", "UTC", "*-*-* *:*:00/20 UTC", false},
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
	s, _ := schedule.Parse("@every 32s", time.UTC)
	if tr, err := Translate(s); err == nil {
		t.Errorf("@every 32s: %v", tr)
	}
}
