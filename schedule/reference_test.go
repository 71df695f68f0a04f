package schedule

import (
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine
)

// A reference is the slow truth that Schedule is held against: it reads an expression anew for
// every minute, and walks through time a minute at a step. It shares no code with the package.
type reference5 struct {
	fields [5]string
	zone   *time.Location
}

func newReference(expr string, zone *time.Location) reference5 {
	return reference5{[5]string(strings.Fields(expr)), zone}
}

func (r reference5) elapsed() bool {
	return r.fields[0][0] == '*' || r.fields[1][0] == '*'
}

// matches says whether a wall-clock reading, given as an instant of UTC, matches.
func (r reference5) matches(reading time.Time) bool {
	in := func(i, v int) bool { return listHas(r.fields[i], v, i) }
	if !in(0, reading.Minute()) || !in(1, reading.Hour()) || !in(3, int(reading.Month())) {
		return false
	}
	dom := in(2, reading.Day())
	dow := in(4, int(reading.Weekday()))
	if reading.Weekday() == time.Sunday {
		dow = dow || in(4, 7)
	}
	if r.fields[2][0] == '*' || r.fields[4][0] == '*' {
		return dom && dow
	}
	return dom || dow
}

// listHas understands what expressions() makes: numbers, ranges, steps and lists.
func listHas(list string, v, field int) bool {
	lowest := [5]int{0, 0, 1, 1, 0}[field]
	highest := [5]int{59, 23, 31, 12, 7}[field]
	for _, item := range strings.Split(list, ",") {
		span, step, _ := strings.Cut(item, "/")
		lo, hi := lowest, highest
		if span != "*" {
			a, b, isRange := strings.Cut(span, "-")
			lo, _ = strconv.Atoi(a)
			hi = lo
			if isRange {
				hi, _ = strconv.Atoi(b)
			}
		}
		n := 1
		if step != "" {
			n, _ = strconv.Atoi(step)
		}
		for x := lo; x <= hi; x += n {
			if x == v {
				return true
			}
		}
		if lo > hi { // a wrapping range of weekdays
			for x := lo; x <= hi+7; x += n {
				if x%7 == v%7 {
					return true
				}
			}
		}
	}
	return false
}

// ticks lists all ticks of [start, end), which must be whole minutes, in a zone whose offsets are.
func (r reference5) ticks(start, end time.Time) (ticks []time.Time) {
	wall := func(t time.Time) time.Time {
		_, offset := t.In(r.zone).Zone()
		return t.UTC().Add(time.Duration(offset) * time.Second)
	}
	// What the clock has shown before start. Two days hold any jump back.
	shown := wall(start.Add(-48 * time.Hour))
	for t := start.Add(-48 * time.Hour); t.Before(end); t = t.Add(time.Minute) {
		due := false
		if r.elapsed() {
			due = r.matches(wall(t))
		} else {
			for ; !shown.After(wall(t)); shown = shown.Add(time.Minute) {
				due = due || r.matches(shown)
			}
		}
		if due && !t.Before(start) {
			ticks = append(ticks, t.UTC())
		}
	}
	return ticks
}
