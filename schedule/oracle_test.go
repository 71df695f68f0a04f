package schedule_test

import (
	"testing"
	"time"
)

// The oracle is the slow truth that the package is held against. It shares no code with it, cannot
// see its inside, parses nothing (see oracle_expr_test.go), and finds ticks by looking at the wall
// clock second after second.

// A meaning is what an expression says of wall-clock readings.
type meaning struct {
	second, minute, hour, month [60]bool
	dom, dow                    []func(date time.Time) bool // any of each
	either                      bool                        // of the two, else both
	year                        func(int) bool
	elapsed                     bool
}

// date says whether the meaning holds on a date.
func (m *meaning) date(d time.Time) bool {
	if !m.month[d.Month()] || m.year != nil && !m.year(d.Year()) {
		return false
	}
	holds := func(any []func(time.Time) bool) bool {
		for _, one := range any {
			if one(d) {
				return true
			}
		}
		return false
	}
	if m.either {
		return holds(m.dom) || holds(m.dow)
	}
	return holds(m.dom) && holds(m.dow)
}

const day = 24 * 60 * 60

// A wall is a zone's clock: the readings at the minutes of days in UTC, as seconds since 1970.
type wall struct {
	zone *time.Location
	days map[int64]*[24 * 60]int64
}

func (w *wall) day(t testing.TB, d int64) *[24 * 60]int64 {
	if r, ok := w.days[d]; ok {
		return r
	}
	if len(w.days) > 1000 {
		clear(w.days)
	}
	r := &[24 * 60]int64{}
	for i := range r {
		at := time.Unix(d*day+int64(i)*60, 0).In(w.zone)
		y, mo, da := at.Date()
		h, mi, s := at.Clock()
		r[i] = time.Date(y, mo, da, h, mi, s, 0, time.UTC).Unix()
		if s != 0 {
			t.Fatalf("%s: the oracle knows no offsets of seconds, as at %s", w.zone, at)
		}
	}
	w.days[d] = r
	return r
}

// An oracle is a meaning on a wall clock under one rule of daylight saving.
type oracle struct {
	testing.TB
	*meaning
	*wall
	dst   string
	dates map[int64]bool
	ticks map[int64][]int64
}

func newOracle(t testing.TB, m *meaning, w *wall, dst string) *oracle {
	return &oracle{t, m, w, dst, map[int64]bool{}, map[int64][]int64{}}
}

func (o *oracle) onDate(d int64) bool {
	on, known := o.dates[d]
	if !known {
		on = o.date(time.Unix(d*day, 0).UTC())
		o.dates[d] = on
	}
	return on
}

func (o *oracle) matches(reading int64) bool {
	s := reading % day
	return o.second[s%60] && o.minute[s/60%60] && o.hour[s/3600] && o.onDate(reading/day)
}

// onDay lists the ticks of a day in UTC.
func (o *oracle) onDay(d int64) []int64 {
	if ticks, ok := o.ticks[d]; ok {
		return ticks
	}
	// What the clock has shown, or jumped over, in the two days before: they hold any jump back.
	passed := int64(0)
	for _, before := range []int64{d - 2, d - 1} {
		for _, reading := range o.wall.day(o, before) {
			passed = max(passed, reading+59)
		}
	}
	ticks := []int64{}
	for i, reading := range o.wall.day(o, d) {
		for s := range int64(60) {
			if o.due(reading+s, passed) {
				ticks = append(ticks, d*day+int64(i)*60+s)
			}
			passed = max(passed, reading+s)
		}
	}
	o.ticks[d] = ticks
	return ticks
}

// due says whether there is a tick as the clock shows a reading, after what it has passed.
func (o *oracle) due(reading, passed int64) bool {
	switch {
	case o.elapsed || o.dst == "repeat":
		return o.matches(reading)
	case o.dst == "skip":
		return reading > passed && o.matches(reading)
	}
	for r := passed + 1; r <= reading; r++ {
		if o.matches(r) {
			return true
		}
	}
	return false
}

// near says whether a day in UTC can have a tick: one of the dates that a clock shows on it, or a
// day before, matches.
func (o *oracle) near(d int64) bool {
	for date := d - 2; date <= d+2; date++ {
		if o.onDate(date) {
			return true
		}
	}
	return false
}

// horizon is how far the oracle looks, in days.
const horizon = 1600

func (o *oracle) next(at time.Time) (time.Time, bool) {
	for d := at.Unix() / day; d <= at.Unix()/day+horizon; d++ {
		if !o.near(d) {
			continue
		}
		for _, tick := range o.onDay(d) {
			if t := time.Unix(tick, 0).UTC(); t.After(at) {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

func (o *oracle) prev(at time.Time) (time.Time, bool) {
	for d := at.Unix() / day; d >= at.Unix()/day-horizon; d-- {
		if !o.near(d) {
			continue
		}
		ticks := o.onDay(d)
		for i := len(ticks) - 1; i >= 0; i-- {
			if t := time.Unix(ticks[i], 0).UTC(); !t.After(at) {
				return t, true
			}
		}
	}
	return time.Time{}, false
}

// never says whether there is no tick at all: no matching date in 400 years, after which the
// calendar comes round again, or in the years that the meaning names none that a clock shows.
func (o *oracle) never() bool {
	first, last := 1970, 1970+400
	if o.year != nil {
		last = 9999
	}
	for y := first; y <= last; y++ {
		if o.year != nil && !o.year(y) {
			continue
		}
		for d := time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() == y; d = d.AddDate(0, 0, 1) {
			if !o.date(d) {
				continue
			}
			if o.year == nil {
				return false
			}
			for at := d.Unix()/day - 2; at <= d.Unix()/day+2; at++ {
				if len(o.onDay(at)) > 0 {
					return false
				}
			}
		}
	}
	return true
}
