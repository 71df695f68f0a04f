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
	days, more := daysOf(s, f)
	t.More = more || !f.AnyYear
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
// either needs two lines, and one that has to match both cannot be said.
func daysOf(s *schedule.Schedule, f schedule.Fields) (all []string, more bool) {
	month := values(f.Months, 1, 12)
	onDay := func(d string) string { return d + " " + month + " ? *" }
	onWeekday := func(d string) string { return "? " + month + " " + d + " *" }
	day, weekday := onDay(values(f.Days, 1, 31)), onWeekday(weekdays(f.Weekdays))
	allDays, allWeekdays := len(f.Days) == 31, len(f.Weekdays) == 7
	switch {
	case f.Special:
		day, week, exact := special(s)
		if week != "" {
			return []string{onWeekday(week)}, !exact
		}
		return []string{onDay(day)}, !exact
	case allWeekdays && (f.Both || allDays):
		return []string{day}, false
	case allDays && f.Both:
		return []string{weekday}, false
	case allDays || allWeekdays: // either field matches, and one always does
		return []string{onDay("*")}, false
	case f.Both && len(f.Days)*7 < len(f.Weekdays)*30: // the rarer of the two
		return []string{day}, true
	case f.Both:
		return []string{weekday}, true
	}
	return []string{day, weekday}, false
}

var weekdayNames = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

// special writes days that are not plain values as far as EventBridge documents the same: L alone as the day, and one
// n#k as the weekday. Otherwise it is the weekdays that are named, or each day.
func special(s *schedule.Schedule) (day, weekday string, exact bool) {
	words := strings.Fields(strings.ToUpper(s.String()))
	if len(words) > 5 {
		words = words[1:6]
	}
	free := func(word string) bool { return word == "*" || word == "?" }
	switch {
	case words[2] == "L" && free(words[4]):
		return "L", "", true
	case !free(words[2]):
		return "*", "", false
	}
	var named []int
	nth := ""
	for _, item := range strings.Split(words[4], ",") {
		name, k, _ := strings.Cut(strings.TrimSuffix(item, "L"), "#")
		n, err := strconv.Atoi(name)
		if i := slices.Index(weekdayNames, name); i >= 0 {
			n, err = i, nil
		}
		if err != nil {
			return "*", "", false
		}
		named, nth = append(named, n%7), k
	}
	slices.Sort(named)
	named = slices.Compact(named)
	if nth != "" && !strings.Contains(words[4], ",") {
		return "", weekdays(named) + "#" + nth, true
	}
	return "", weekdays(named), false
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
