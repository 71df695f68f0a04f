package eventbridge

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy/internal/clocks"
	"github.com/dibs-run/dibs/schedule"
)

// A Translation is a schedule in the language of EventBridge Scheduler.
type Translation struct {
	// Lines are expressions, each followed by a space and its zone.
	Lines []string
	// More means that they fire more often than the schedule is due, because EventBridge cannot express the
	// schedule: `dibs trigger` decides which of its fires are ticks. They never fire less often.
	More bool
}

// longest is how long an expression may be.
const longest = 256

// Translate writes a schedule: each tick is an instant of one of the lines.
//
// EventBridge leaves out a time that the clock jumps over, and fires once at one that the clock shows twice, without
// saying at which of the two. A schedule that is due then has lines in UTC beside those in its zone, in the months and
// on the weekdays on which the clock changes. The rules of zones are looked at as far as 2060.
//
// Seconds are refused: EventBridge fires at whole minutes.
func Translate(s *schedule.Schedule) (t Translation, err error) {
	f := s.Fields()
	switch {
	case f.Every%time.Minute != 0 || f.Every == 0 && !slices.Equal(f.Seconds, []int{0}):
		return t, fmt.Errorf("%s: EventBridge fires at whole minutes: leave out the seconds, or let dibs serve run this job", s)
	case f.Every > 0:
		for _, at := range hours(clocks.Readings(f)) {
			t.Lines = append(t.Lines, line(at+" * * ? *", time.UTC))
		}
		t.More = 24*time.Hour%f.Every != 0
		return t, nil
	}
	days, more := daysOf(f)
	t.More = more
	for _, d := range days {
		t.Lines = append(t.Lines, line(values(f.Minutes, 0, 59)+" "+values(f.Hours, 0, 23)+" "+d, s.Zone()))
	}
	if beside := changes(s, f); len(beside) > 0 {
		t.More = true
		t.Lines = append(t.Lines, beside...)
	}
	for _, l := range t.Lines {
		if expr, _, _ := strings.Cut(l, ") "); len(expr) >= longest {
			return t, fmt.Errorf("%s: it has more than %d characters as an expression of EventBridge: make two schedules of it", s, longest)
		}
	}
	return t, nil
}

func line(fields string, zone *time.Location) string { return "cron(" + fields + ") " + zone.String() }

// daysOf writes day, month, weekday and year. Exactly one of the day fields is a question mark, so a day that matches
// either needs two lines, and one that has to match both cannot be said. Of days that are not plain values,
// EventBridge documents L alone, and one n#k or nL.
func daysOf(f schedule.Fields) (all []string, more bool) {
	month := values(f.Months, 1, 12)
	year, fits := years(f)
	onDay := func(d string) string { return d + " " + month + " ? " + year }
	onWeekday := func(d string) string { return "? " + month + " " + d + " " + year }
	day, sure := inMonth(f)
	week := inWeek(f)
	allDays, allWeekdays := slices.Contains(day, "*"), slices.Contains(week, "*")
	switch {
	case allDays && allWeekdays, !f.Both && (allDays || allWeekdays): // either field matches, and one always does
		return []string{onDay("*")}, !fits || !sure && (f.Both || !allWeekdays)
	case f.Both && allDays:
		day = nil
	case f.Both && allWeekdays:
		week = nil
	case f.Both && sure && (len(f.Nth) > 0 || len(f.Days)*7 < len(f.Weekdays)*30): // the rarer of the two
		sure, week = false, nil
	case f.Both:
		sure, day = false, nil
	}
	for _, d := range day {
		all = append(all, onDay(d))
	}
	for _, w := range week {
		all = append(all, onWeekday(w))
	}
	return all, !sure || !fits
}

// years writes the years; a star where they are too many, or later than EventBridge's last.
func years(f schedule.Fields) (text string, exact bool) {
	if f.AnyYear {
		return "*", true
	}
	if text = values(f.Years, 1970, 9999); f.Years[len(f.Years)-1] > 2199 || len(text) > 50 {
		return "*", false
	}
	return text, true
}

// inMonth are the items of the field of days, as far as there is one for each; otherwise every day.
func inMonth(f schedule.Fields) (all []string, exact bool) {
	if len(f.Nearest)+len(f.NearestFromEnd) > 0 || slices.ContainsFunc(f.FromEnd, func(n int) bool { return n > 0 }) {
		return []string{"*"}, false
	}
	if len(f.Days) > 0 {
		all = append(all, values(f.Days, 1, 31))
	}
	if len(f.FromEnd) > 0 {
		all = append(all, "L")
	}
	return all, true
}

// inWeek are the items of the field of weekdays.
func inWeek(f schedule.Fields) (all []string) {
	if len(f.Weekdays) > 0 {
		all = append(all, weekdays(f.Weekdays))
	}
	for _, n := range f.Nth {
		which := "L"
		if n.K > 0 {
			which = "#" + strconv.Itoa(n.K)
		}
		all = append(all, weekdays([]int{n.Weekday})+which)
	}
	return all
}

// weekdays writes days of the week, which EventBridge counts from 1, Sunday.
func weekdays(days []int) string {
	var all []int
	for _, d := range days {
		all = append(all, d+1)
	}
	return values(all, 1, 7)
}

// values writes the values of a field: all of them as a star, others as numbers and ranges.
func values(all []int, lo, hi int) string {
	if len(all) == hi-lo+1 {
		return "*"
	}
	var s []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		switch {
		case j-i < 2:
			s, i = append(s, strconv.Itoa(all[i])), i+1
		default:
			s, i = append(s, fmt.Sprintf("%d-%d", all[i], all[j])), j+1
		}
	}
	return strings.Join(s, ",")
}

// hours writes minutes of the day, as few fields of minute and hour as there are different sets of minutes in an hour.
func hours(due []int) (all []string) {
	of := map[string][]int{} // hours, by their minutes
	for h := range 24 {
		var minutes []int
		for _, m := range due {
			if m/60 == h {
				minutes = append(minutes, m%60)
			}
		}
		if len(minutes) > 0 {
			key := values(minutes, 0, 59)
			of[key] = append(of[key], h)
		}
	}
	for _, minutes := range slices.SortedFunc(maps.Keys(of), func(a, b string) int { return of[a][0] - of[b][0] }) {
		all = append(all, minutes+" "+values(of[minutes], 0, 23))
	}
	return all
}

// changes are lines in UTC for the ticks round changes of the zone's clock.
func changes(s *schedule.Schedule, f schedule.Fields) (all []string) {
	at := slices.Concat(clocks.AfterGaps(s.Zone(), f), clocks.Twice(s.Zone(), f))
	minutes, months, week := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, t := range at {
		if tick, ok := s.Next(t.Add(-time.Second)); ok && tick.Equal(t) {
			minutes[t.Hour()*60+t.Minute()], months[int(t.Month())], week[int(t.Weekday())] = true, true, true
		}
	}
	if len(minutes) == 0 {
		return nil
	}
	sorted := func(set map[int]bool) []int { return slices.Sorted(maps.Keys(set)) }
	for _, h := range hours(sorted(minutes)) {
		all = append(all, line(h+" ? "+values(sorted(months), 1, 12)+" "+weekdays(sorted(week))+" *", time.UTC))
	}
	return all
}
