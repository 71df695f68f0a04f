package crontab

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

// A Translation is a schedule in the language of a crontab.
type Translation struct {
	// Lines are the schedules of its lines: five fields each.
	Lines []string
	// More means that cron fires more often than the schedule is due, because it cannot express the schedule: `dibs
	// trigger` decides which of its fires are ticks. It never fires less often.
	More bool
}

// Translate writes a schedule for a cron that reads times in a zone: at each tick, and in the same minute, at least
// one of the lines fires. It is right for all crons that treat changes of clocks as Vixie's does (Debian's and Red
// Hat's do): lines whose minute or hour starts with a star follow elapsed time, the others fire once for each time of
// day.
//
// Cron's zone counts, and CRON_TZ is not used: a cron that reads it fires nothing at a time that the other zone's
// clock leaves out. The rules of zones are looked at as far as 2060.
//
// Seconds are refused: cron looks at its table once a minute.
func Translate(s *schedule.Schedule, host *time.Location) (Translation, error) {
	f := s.Fields()
	if f.Every%time.Minute != 0 || f.Every == 0 && !slices.Equal(f.Seconds, []int{0}) {
		return Translation{}, fmt.Errorf("%s: cron starts at whole minutes: leave out the seconds, or let dibs serve run this job", s)
	}
	if f.Every == 0 && clocks.Same(s.Zone(), host) && (s.DST() != schedule.Repeat || f.Elapsed || len(clocks.Changes(host)) == 0) {
		return inPlace(s, f), nil
	}
	return elsewhere(s, f, host), nil
}

// aliases are words that stand for fields.
var aliases = map[string]string{
	"@HOURLY": "0 * * * *", "@DAILY": "0 0 * * *", "@MIDNIGHT": "0 0 * * *", "@WEEKLY": "0 0 * * 0",
	"@MONTHLY": "0 0 1 * *", "@YEARLY": "0 0 1 1 *", "@ANNUALLY": "0 0 1 1 *",
}

// inPlace writes a schedule in its own zone: the same fields, as far as every cron reads them.
func inPlace(s *schedule.Schedule, f schedule.Fields) Translation {
	text := strings.ToUpper(s.String())
	if a, ok := aliases[text]; ok {
		return Translation{Lines: []string{a}}
	}
	words := strings.Fields(text)
	if len(words) > 5 {
		words = words[1:6]
	}
	t := Translation{More: !f.AnyYear || s.DST() == schedule.Skip && !f.Elapsed && len(clocks.Changes(s.Zone())) > 0}
	minute, hour, month := plainField(words[0], 59, f.Minutes), plainField(words[1], 23, f.Hours), plainField(words[3], 12, f.Months)
	day, weekday := "*", "*"
	if plainDays(words[2], words[4]) {
		day, weekday = plainField(words[2], 31, nil), plainField(words[4], 6, nil)
	} else {
		t.More = true
	}
	t.Lines = []string{strings.Join([]string{minute, hour, day, month, weekday}, " ")}
	return t
}

// plainDays says that the two fields of days have nothing that only some crons read.
func plainDays(day, weekday string) bool {
	return !strings.ContainsAny(day, "LWH") && !strings.ContainsAny(weekday, "#&") &&
		!slices.ContainsFunc(strings.Split(weekday, ","), func(item string) bool {
			return item[0] == 'H' || len(item) > 1 && item[len(item)-1] == 'L'
		})
}

var (
	monthNames   = []string{"", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	weekdayNames = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)

// plainField writes a field so that every cron reads it: names stand alone, open steps have an end, ranges do not go
// over the end of the week, and H is the value that it stands for.
func plainField(text string, hi int, values []int) string {
	if text == "?" {
		return "*"
	}
	if strings.Contains(text, "H") && slices.Contains([]int{59, 23}, hi) || strings.HasPrefix(text, "H") || strings.Contains(text, ",H") {
		return numbers(values)
	}
	items := strings.Split(text, ",")
	for i, item := range items {
		span, step, stepped := strings.Cut(item, "/")
		lo, end, ranged := strings.Cut(span, "-")
		switch {
		case span == "*" || !ranged && !stepped:
		case !ranged && hi == 6 && lo == "7": // Sunday, the last value
			items[i] = "7"
		case !ranged:
			items[i] = fmt.Sprintf("%s-%d/%s", value(lo), hi, step)
		default:
			items[i] = plainRange(value(lo), value(end), step, stepped)
		}
		if len(items) > 1 && !ranged && !stepped && span != "*" {
			items[i] = value(span)
		}
	}
	return strings.Join(items, ",")
}

// plainRange writes a range of numbers; one that goes over the end of the week as a list.
func plainRange(lo, end, step string, stepped bool) string {
	from, _ := strconv.Atoi(lo)
	to, _ := strconv.Atoi(end)
	by := 1
	if stepped {
		by, _ = strconv.Atoi(step)
	}
	if to >= from {
		if stepped {
			return fmt.Sprintf("%d-%d/%d", from, to, by)
		}
		return fmt.Sprintf("%d-%d", from, to)
	}
	var all []int
	for v := from; v <= to+7; v += by {
		all = append(all, v%7)
	}
	slices.Sort(all)
	return numbers(slices.Compact(all))
}

// value is a name's number, and a number itself.
func value(word string) string {
	if i := slices.Index(monthNames, word); i > 0 {
		return strconv.Itoa(i)
	}
	if i := slices.Index(weekdayNames, word); i >= 0 {
		return strconv.Itoa(i)
	}
	return word
}

func numbers(values []int) string {
	var s []string
	for _, v := range values {
		s = append(s, strconv.Itoa(v))
	}
	return strings.Join(s, ",")
}

const minutesPerDay = 24 * 60

// elsewhere writes a schedule by the host's clock: all times of day at which it can be due, on every day.
func elsewhere(s *schedule.Schedule, f schedule.Fields, host *time.Location) Translation {
	due := map[int]bool{} // minutes of the host's day
	hostMoves := len(clocks.Changes(host)) > 0
	for _, own := range clocks.Readings(f) {
		due[own] = true
	}
	zone := s.Zone()
	if f.Every > 0 {
		zone = time.UTC
	}
	due = shift(due, clocks.Differences(zone, host))
	if f.Every == 0 && !f.Elapsed && s.DST() == schedule.Vixie {
		for _, at := range clocks.AfterGaps(zone, f) {
			due[minuteOf(at.In(host))] = true
		}
	}
	t := Translation{Lines: lines(due, hostMoves), More: true}
	if f.Every > 0 && !hostMoves && 24*time.Hour%f.Every == 0 {
		t.More = false
	}
	return t
}

func minuteOf(t time.Time) int { return t.Hour()*60 + t.Minute() }

func shift(minutes map[int]bool, by []int) map[int]bool {
	all := map[int]bool{}
	for m := range minutes {
		for _, d := range by {
			all[((m+d)%minutesPerDay+minutesPerDay)%minutesPerDay] = true
		}
	}
	return all
}

// lines writes minutes of the day, as few lines as there are different sets of minutes in an hour. Where the host's
// clock changes, a line follows elapsed time: one that names hours fires once where the clock shows them twice.
func lines(due map[int]bool, hostMoves bool) (all []string) {
	hours := map[string][]int{} // by their minutes
	for h := range 24 {
		var minutes []int
		for m := range 60 {
			if due[h*60+m] || hostMoves && anyHour(due, m) {
				minutes = append(minutes, m)
			}
		}
		if len(minutes) > 0 {
			key := stepped(minutes, 60)
			hours[key] = append(hours[key], h)
		}
	}
	for _, minutes := range slices.SortedFunc(maps.Keys(hours), func(a, b string) int { return hours[a][0] - hours[b][0] }) {
		all = append(all, minutes+" "+stepped(hours[minutes], 24)+" * * *")
	}
	return all
}

func anyHour(due map[int]bool, minute int) bool {
	for h := range 24 {
		if due[h*60+minute] {
			return true
		}
	}
	return false
}

// stepped writes values of 0 to n-1, shorter where they are all or each so many-th.
func stepped(values []int, n int) string {
	if len(values) == n {
		return "*"
	}
	if step := 0; len(values) > 2 && values[0] == 0 {
		step = values[1]
		even := n%step == 0 && len(values) == n/step
		for i, v := range values {
			even = even && v == i*step
		}
		if even {
			return fmt.Sprintf("*/%d", step)
		}
	}
	return numbers(values)
}
