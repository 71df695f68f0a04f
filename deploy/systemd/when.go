package systemd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy/internal/clocks"
	"github.com/dibs-run/dibs/schedule"
)

// A Translation is a schedule in the language of a timer.
type Translation struct {
	// Lines are values of OnCalendar.
	Lines []string
	// More means that the timer fires more often than the schedule is due, because systemd cannot express the
	// schedule: `dibs trigger` decides which of its fires are ticks. It never fires less often.
	More bool
}

// Translate writes a schedule for a timer: each tick is an instant of one of the lines. The zone is the schedule's
// own.
//
// When clocks change, systemd leaves out a time that the clock jumps over, and fires only once at a time that the
// clock shows twice. A schedule that is due then has lines in UTC beside those in its zone.
func Translate(s *schedule.Schedule) (Translation, error) {
	f := s.Fields()
	if f.Every > 0 {
		return every(f.Every)
	}
	zone := s.Zone()
	at := clock(f.Hours, f.Minutes, f.Seconds)
	days, exact := days(f)
	t := Translation{More: !exact}
	for _, day := range days {
		t.Lines = append(t.Lines, day+" "+at+" "+zone.String())
	}
	beside := map[int]bool{} // minutes of UTC's day
	second := "00"
	if f.Elapsed || s.DST() == schedule.Repeat {
		for _, at := range clocks.Repeated(zone, f) {
			beside[minuteOf(at)] = true
		}
		second = list(f.Seconds, 60)
	} else if s.DST() == schedule.Vixie {
		for _, at := range clocks.AfterGaps(zone, f) {
			beside[minuteOf(at)] = true
		}
	}
	if slices.ContainsFunc(days, func(day string) bool { return strings.Contains(day, "~") }) {
		// Of a time that the clock shows twice, systemd takes either one, on a day that is counted from the last of
		// the month.
		for _, at := range clocks.Repeated(zone, f) {
			beside[minuteOf(at)], beside[minuteOf(clocks.Earlier(zone, at))] = true, true
		}
		second = list(f.Seconds, 60)
	}
	if len(beside) > 0 {
		t.More = true
		for _, l := range daily(slices.Sorted(maps.Keys(beside))) {
			t.Lines = append(t.Lines, "*-*-* "+l+":"+second+" UTC")
		}
	}
	return t, nil
}

func minuteOf(t time.Time) int { return t.UTC().Hour()*60 + t.UTC().Minute() }

var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// A daySet is what one line says of the day: weekdays, and days counted from the month's first or, with a ~ instead of
// the -, from its last. Nil is all.
type daySet struct {
	week []int
	sep  string
	days []int
}

func (d daySet) line(years, months string) string {
	week, day := "", "*"
	if d.week != nil {
		var names []string
		for _, w := range d.week {
			names = append(names, weekdays[w])
		}
		week = strings.Join(names, ",") + " "
	}
	if d.days != nil {
		day = list(d.days, 32)
	}
	return week + years + "-" + months + d.sep + day
}

// both is the days that are in both sets. With days counted from both ends they are not exact: too many.
func (d daySet) both(e daySet) (and daySet, exact bool) {
	and = daySet{week: meet(d.week, e.week), sep: d.sep, days: d.days}
	switch {
	case d.days == nil:
		and.sep, and.days = e.sep, e.days
	case e.days != nil && d.sep != e.sep:
		return and, false
	default:
		and.days = meet(d.days, e.days)
	}
	return and, true
}

// meet returns the values that are in both lists, of which nil has all.
func meet(a, b []int) []int {
	if a == nil || b == nil {
		return slices.Concat(a, b)
	}
	both := []int{}
	for _, v := range a {
		if slices.Contains(b, v) {
			both = append(both, v)
		}
	}
	return both
}

// days writes the days, as few more than needed where systemd cannot say them.
func days(f schedule.Fields) (all []string, exact bool) {
	inMonth, exact := daysInMonth(f)
	inWeek := daysInWeek(f)
	sets := slices.Concat(inMonth, inWeek)
	every := func(d daySet) bool { return d.week == nil && d.days == nil }
	switch {
	case f.Both:
		sets = nil
		for _, a := range inMonth {
			for _, b := range inWeek {
				and, sure := a.both(b)
				sets, exact = append(sets, and), exact && sure
			}
		}
	case slices.ContainsFunc(sets, every):
		sets, exact = []daySet{{sep: "-"}}, true
	}
	years, fits := yearsOf(f)
	months := "*"
	if len(f.Months) < 12 {
		months = list(f.Months, 13)
	}
	for _, d := range sets {
		if d.week != nil && len(d.week) == 0 || d.days != nil && len(d.days) == 0 {
			continue // there is no such day
		}
		if l := d.line(years, months); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all, exact && fits
}

// yearsOf writes the years; a star where they are too many, or later than systemd's last.
func yearsOf(f schedule.Fields) (text string, exact bool) {
	switch {
	case f.AnyYear:
		return "*", true
	case len(f.Years) > 50 || f.Years[len(f.Years)-1] > 2199:
		return "*", false
	}
	return list(f.Years, 0), true
}

// daysInMonth are the sets of the field of days. A working day is near one of the month's first 27, or before its
// last, in all months alike; others are not exact.
func daysInMonth(f schedule.Fields) (all []daySet, exact bool) {
	add := func(week []int, sep string, days ...int) { all = append(all, daySet{week, sep, days}) }
	work, exact := []int{1, 2, 3, 4, 5}, true
	if len(f.Days) == 31 {
		add(nil, "-")
	} else if len(f.Days) > 0 {
		add(nil, "-", f.Days...)
	}
	var back []int
	for _, n := range f.FromEnd {
		back = append(back, n+1)
	}
	if len(back) > 0 {
		add(nil, "~", back...)
	}
	for _, n := range f.Nearest {
		if exact = exact && n < 28; n > 27 {
			add(nil, "-", n-2, n-1, n, min(n+1, 31))
			continue
		}
		add(work, "-", n)
		if add([]int{1}, "-", n+1); n == 1 {
			add([]int{1}, "-", 3) // the first is a Saturday
		} else {
			add([]int{5}, "-", n-1)
		}
	}
	for _, n := range f.NearestFromEnd {
		if exact = exact && n < 27; n > 26 {
			add(nil, "-")
			continue
		}
		add(work, "~", n+1)
		if add([]int{5}, "~", n+2); n == 0 {
			add([]int{5}, "~", 3) // the last is a Sunday
		} else {
			add([]int{1}, "~", n)
		}
	}
	return all, exact
}

// daysInWeek are the sets of the field of weekdays.
func daysInWeek(f schedule.Fields) (all []daySet) {
	if len(f.Weekdays) == 7 {
		all = append(all, daySet{sep: "-"})
	} else if len(f.Weekdays) > 0 {
		all = append(all, daySet{f.Weekdays, "-", nil})
	}
	for _, n := range f.Nth {
		d := daySet{[]int{n.Weekday}, "-", nil}
		from := 7*n.K - 6
		if n.K == 0 {
			d.sep, from = "~", 1
		}
		for day := from; day < from+7 && day <= 31; day++ {
			d.days = append(d.days, day)
		}
		all = append(all, d)
	}
	return all
}

// list writes the values of a field whose values are less than n, shorter where they are all of 0 to n-1.
func list(values []int, n int) string {
	if len(values) == n {
		return "*"
	}
	var s []string
	for _, v := range values {
		s = append(s, fmt.Sprintf("%02d", v))
	}
	return strings.Join(s, ",")
}

func clock(hours, minutes, seconds []int) string {
	return list(hours, 24) + ":" + list(minutes, 60) + ":" + list(seconds, 60)
}

// daily writes minutes of the day, as few times as there are different sets of minutes in an hour.
func daily(due []int) (all []string) {
	hours := map[string][]int{} // by their minutes
	for h := range 24 {
		var minutes []int
		for _, m := range due {
			if m/60 == h {
				minutes = append(minutes, m%60)
			}
		}
		if len(minutes) > 0 {
			key := list(minutes, 60)
			hours[key] = append(hours[key], h)
		}
	}
	for _, minutes := range slices.SortedFunc(maps.Keys(hours), func(a, b string) int { return hours[a][0] - hours[b][0] }) {
		all = append(all, list(hours[minutes], 24)+":"+minutes)
	}
	return all
}

const day = 24 * time.Hour

// every writes an @every by UTC's clock: at its times of day, or where it does not go up in a day, at all that it can
// have.
func every(d time.Duration) (Translation, error) {
	step := day
	for rest := d % day; rest > 0; { // the greatest common divisor
		step, rest = rest, step%rest
	}
	t := Translation{More: day%d != 0}
	switch {
	case step%time.Minute == 0:
		var due []int
		for m := time.Duration(0); m < day; m += step {
			due = append(due, int(m/time.Minute))
		}
		for _, l := range daily(due) {
			t.Lines = append(t.Lines, "*-*-* "+l+":00 UTC")
		}
	case time.Minute%step == 0:
		t.Lines = []string{fmt.Sprintf("*-*-* *:*:00/%d UTC", step/time.Second)}
	default:
		return t, fmt.Errorf("@every %s: a timer cannot express it: %w", d, errSteps)
	}
	return t, nil
}

var errSteps = errors.New("use seconds that divide a minute, or whole minutes, or let dibs serve run this job")
