package kubernetes

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

// A Translation is a schedule in the language of CronJobs.
type Translation struct {
	// Lines are five fields and a zone each: "15 4 1 * * Europe/Berlin". Each becomes a CronJob.
	Lines []string
	// More means that the CronJobs fire more often than the schedule is due, because Kubernetes cannot express the
	// schedule: `dibs trigger` decides which of their fires are ticks. They never fire less often.
	More bool
}

const (
	utc = "Etc/UTC"
	// mostLines is how many CronJobs an @every may become. Beyond it, one fires more often.
	mostLines = 4
)

// Translate writes a schedule for Kubernetes: each tick is an instant at which one of the lines fires. The rules of
// zones are looked at as far as 2060.
//
// A zone whose clock changes at other times than whole hours (Chatham, Lord Howe) is never named: on such a day the
// controller of Kubernetes may find the same times again and again, and never end. Its schedules become lines in UTC.
//
// Kubernetes takes the clock at its word: at a time that the clock jumps over nothing fires, and at one that it shows
// twice it fires twice. Where a schedule is due and Kubernetes would not fire, a line in UTC fires beside the others.
//
// Seconds are refused: Kubernetes fires at whole minutes.
func Translate(s *schedule.Schedule) (Translation, error) {
	f := s.Fields()
	if f.Every%time.Minute != 0 || f.Every == 0 && !slices.Equal(f.Seconds, []int{0}) {
		return Translation{}, fmt.Errorf("%s: Kubernetes fires at whole minutes: leave out the seconds, or let dibs serve run this job", s)
	}
	if f.Every > 0 {
		return every(f), nil
	}
	zone := s.Zone()
	if slices.ContainsFunc(clocks.Changes(zone), func(at time.Time) bool { return broken(zone, at) }) {
		return Translation{Lines: []string{elsewhere(s, f)}, More: true}, nil
	}
	day, weekday, more := days(s, f)
	t := Translation{More: more || !f.AnyYear}
	t.Lines = []string{line(f.Minutes, f.Hours, day, f.Months, weekday, zoneName(zone))}
	if !f.Elapsed && s.DST() != schedule.Repeat && len(clocks.Repeated(zone, f)) > 0 {
		t.More = true
	}
	if missed := unsure(s, f); len(missed) > 0 {
		t.More = true
		t.Lines = append(t.Lines, around(missed))
	}
	return t, nil
}

func zoneName(zone *time.Location) string {
	if clocks.Same(zone, time.UTC) {
		return utc
	}
	return zone.String()
}

// days writes the two fields of days. Kubernetes fires on a day that matches either, unless one of them is a star.
func days(s *schedule.Schedule, f schedule.Fields) (day, weekday []int, more bool) {
	if f.Special {
		f.Days, f.Weekdays = seen(s)
		f.Both = true
	}
	allDays, allWeekdays := len(f.Days) == 31, len(f.Weekdays) == 7
	switch {
	case !f.Both && (allDays || allWeekdays):
		return nil, nil, false
	case !f.Both, !f.Special && (allDays || allWeekdays):
		return f.Days, f.Weekdays, false
	case len(f.Days)*7 <= len(f.Weekdays)*31: // both, which Kubernetes cannot say: the one that has fewer days
		return f.Days, nil, true
	}
	return nil, f.Weekdays, true
}

// seen are the days of the month and of the week at which a schedule is ever due. The calendar of the years that are
// looked at comes round in 28 years.
func seen(s *schedule.Schedule) (day, weekday []int) {
	d, w := map[int]bool{}, map[int]bool{}
	end := time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)
	at, ok := s.Next(time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC))
	for ; ok && at.Before(end); at, ok = s.Next(at) {
		local := at.In(s.Zone())
		d[local.Day()], w[int(local.Weekday())] = true, true
		y, m, n := local.Date()
		if next := time.Date(y, m, n, 23, 0, 0, 0, s.Zone()).UTC(); next.After(at) {
			at = next
		}
	}
	return slices.Sorted(maps.Keys(d)), slices.Sorted(maps.Keys(w))
}

// unsure are the ticks at which the line in the schedule's own zone does not fire for certain.
func unsure(s *schedule.Schedule, f schedule.Fields) (all []time.Time) {
	zone := s.Zone()
	if !f.Elapsed && s.DST() == schedule.Vixie {
		for _, at := range clocks.AfterGaps(zone, f) {
			if isTick(s, at) {
				all = append(all, at)
			}
		}
	}
	for _, at := range clocks.Changes(zone) {
		if !odd(zone, at) {
			continue
		}
		for tick, ok := s.Next(at.Add(-25 * time.Hour)); ok && tick.Before(at.Add(49*time.Hour)); tick, ok = s.Next(tick) {
			all = append(all, tick)
		}
	}
	return all
}

func isTick(s *schedule.Schedule, at time.Time) bool {
	prev, ok := s.Prev(at)
	return ok && prev.Equal(at)
}

const hour, day = 60 * 60, 24 * 60 * 60 // in seconds

// readings are those of a change: the one that would have come, and the one that comes.
func readings(zone *time.Location, at time.Time) (first, last int64) {
	return at.Unix() + int64(clocks.Offset(zone, at.Unix()-1)), at.Unix() + int64(clocks.Offset(zone, at.Unix()))
}

// broken says that a change is not from a whole hour to another. Kubernetes steps by hours, and may then step back.
func broken(zone *time.Location, at time.Time) bool {
	first, last := readings(zone, at)
	return first%hour != 0 || last%hour != 0
}

// odd says that Kubernetes loses times on the day of a change: it steps from midnight to midnight, and one is missing.
func odd(zone *time.Location, at time.Time) bool {
	first, last := readings(zone, at)
	return first < last && (first+day-1)/day*day < last
}

// elsewhere is a line in UTC that fires at all times of day at which a schedule can be due, on every day.
func elsewhere(s *schedule.Schedule, f schedule.Fields) string {
	hours, minutes := map[int]bool{}, map[int]bool{}
	due := func(minute int) {
		minute = (minute%minutesPerDay + minutesPerDay) % minutesPerDay
		hours[minute/60], minutes[minute%60] = true, true
	}
	for _, own := range clocks.Readings(f) {
		for _, d := range clocks.Differences(s.Zone(), time.UTC) {
			due(own + d)
		}
	}
	for _, at := range clocks.AfterGaps(s.Zone(), f) {
		due(at.Hour()*60 + at.Minute())
	}
	return line(slices.Sorted(maps.Keys(minutes)), slices.Sorted(maps.Keys(hours)), nil, nil, nil, utc)
}

const minutesPerDay = 24 * 60

// around is a line in UTC that fires at least at these instants.
func around(all []time.Time) string {
	sets := [5]map[int]bool{{}, {}, {}, {}, {}}
	for _, at := range all {
		at = at.UTC()
		for i, v := range [5]int{at.Minute(), at.Hour(), at.Day(), int(at.Month()), int(at.Weekday())} {
			sets[i][v] = true
		}
	}
	var v [5][]int
	for i := range sets {
		v[i] = slices.Sorted(maps.Keys(sets[i]))
	}
	if len(v[2])*7 <= len(v[4])*31 {
		v[4] = nil
	} else {
		v[2] = nil
	}
	return line(v[0], v[1], v[2], v[3], v[4], utc)
}

// every writes an @every by UTC's clock, or where it does not go up in a day, all that it can have.
func every(f schedule.Fields) Translation {
	t := Translation{More: 24*time.Hour%f.Every != 0}
	hours := map[string][]int{} // by their minutes
	minutes, allMinutes, allHours := map[string][]int{}, map[int]bool{}, map[int]bool{}
	byHour := map[int][]int{}
	for _, m := range clocks.Readings(f) {
		byHour[m/60] = append(byHour[m/60], m%60)
		allMinutes[m%60], allHours[m/60] = true, true
	}
	for _, h := range slices.Sorted(maps.Keys(byHour)) {
		key := field(byHour[h], 0, 60)
		hours[key], minutes[key] = append(hours[key], h), byHour[h]
	}
	if len(hours) > mostLines {
		return Translation{More: true, Lines: []string{
			line(slices.Sorted(maps.Keys(allMinutes)), slices.Sorted(maps.Keys(allHours)), nil, nil, nil, utc)}}
	}
	for _, key := range slices.SortedFunc(maps.Keys(hours), func(a, b string) int { return hours[a][0] - hours[b][0] }) {
		t.Lines = append(t.Lines, line(minutes[key], hours[key], nil, nil, nil, utc))
	}
	return t
}

// line writes five fields and the zone; nil is a star.
func line(minutes, hours, days, months, weekdays []int, zone string) string {
	return strings.Join([]string{field(minutes, 0, 60), field(hours, 0, 24), field(days, 1, 31), field(months, 1, 12), field(weekdays, 0, 7), zone}, " ")
}

// field writes the values of a field, which has n from lo: shorter where they are all, each so many-th, or in a row.
func field(values []int, lo, n int) string {
	if len(values) == 0 || len(values) == n {
		return "*"
	}
	if len(values) > 2 && lo == 0 && values[0] == 0 {
		if step := values[1]; n%step == 0 && len(values) == n/step && evenly(values, step) {
			return fmt.Sprintf("*/%d", step)
		}
	}
	var parts []string
	for i := 0; i < len(values); {
		j := i
		for j+1 < len(values) && values[j+1] == values[j]+1 {
			j++
		}
		switch {
		case j > i+1:
			parts = append(parts, fmt.Sprintf("%d-%d", values[i], values[j]))
		default:
			for k := i; k <= j; k++ {
				parts = append(parts, strconv.Itoa(values[k]))
			}
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

func evenly(values []int, step int) bool {
	for i, v := range values {
		if v != i*step {
			return false
		}
	}
	return true
}
