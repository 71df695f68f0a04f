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
	t := Translation{More: f.Special || !f.AnyYear}
	at := clock(f.Hours, f.Minutes, f.Seconds)
	for _, day := range days(f) {
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

// days writes the days: one line asks for both fields, so a day that matches either needs two.
func days(f schedule.Fields) []string {
	month := list(f.Months, 13)
	if len(f.Months) == 12 {
		month = "*"
	}
	allDays, allWeekdays := len(f.Days) == 31, len(f.Weekdays) == 7
	day, week := "*", ""
	if !allDays {
		day = list(f.Days, 32)
	}
	if !allWeekdays {
		var names []string
		for _, d := range f.Weekdays {
			names = append(names, weekdays[d])
		}
		week = strings.Join(names, ",") + " "
	}
	line := func(week, day string) string { return week + "*-" + month + "-" + day }
	switch {
	case f.Special, !f.Both && (allDays || allWeekdays):
		return []string{line("", "*")}
	case f.Both:
		return []string{line(week, day)}
	}
	return []string{line("", day), line(week, "*")}
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
