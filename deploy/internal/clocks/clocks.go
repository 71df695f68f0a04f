// Package clocks says how the clocks of zones change. The targets use it to translate schedules into another
// program's language.
package clocks

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/schedule"
)

const minutesPerDay = 24 * 60

// Same says that two zones show the same time, by their names.
func Same(a, b *time.Location) bool {
	return a.String() == b.String() || isUTC(a) && isUTC(b)
}

func isUTC(z *time.Location) bool {
	switch strings.TrimPrefix(z.String(), "Etc/") {
	case "UTC", "UCT", "Universal", "Zulu", "GMT", "GMT0", "GMT+0", "GMT-0", "Greenwich":
		return true
	}
	return false
}

// Readings are the minutes of the day at which a schedule is due by its own clock; of an @every by UTC's.
func Readings(f schedule.Fields) (all []int) {
	if f.Every > 0 {
		step := minutesPerDay
		for d := int(f.Every / time.Minute % minutesPerDay); d > 0; { // the greatest common divisor
			step, d = d, step%d
		}
		for m := 0; m < minutesPerDay; m += step {
			all = append(all, m)
		}
		return all
	}
	for _, h := range f.Hours {
		for _, m := range f.Minutes {
			all = append(all, h*60+m)
		}
	}
	return all
}

// The years whose rules are looked at. They are fixed, so that the same schedule always gives the same text.
var (
	firstLook = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lastLook  = time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)
)

var changesOf sync.Map // name of a zone → []time.Time; the database bounds it

// Changes are the instants at which a zone's distance from UTC changes.
func Changes(zone *time.Location) []time.Time {
	if all, ok := changesOf.Load(zone.String()); ok {
		return all.([]time.Time)
	}
	all := find(zone)
	changesOf.Store(zone.String(), all)
	return all
}

func find(zone *time.Location) (all []time.Time) {
	for day := firstLook; day.Before(lastLook); day = day.AddDate(0, 0, 1) {
		from, to := day.Unix(), day.Unix()+24*60*60
		was := Offset(zone, from)
		if Offset(zone, to) == was {
			continue
		}
		for from+1 < to {
			if mid := (from + to) / 2; Offset(zone, mid) == was {
				from = mid
			} else {
				to = mid
			}
		}
		all = append(all, time.Unix(to, 0).UTC())
	}
	return all
}

// Offset is a zone's distance from UTC at an instant, in seconds.
func Offset(zone *time.Location, unix int64) int {
	_, o := time.Unix(unix, 0).In(zone).Zone()
	return o
}

// Differences are by how many minutes the host's clock is ahead of another zone's, at any time.
func Differences(zone, host *time.Location) []int {
	found := map[int]bool{}
	look := func(unix int64) { found[(Offset(host, unix)-Offset(zone, unix))/60] = true }
	look(firstLook.Unix())
	for _, at := range slices.Concat(Changes(zone), Changes(host)) {
		look(at.Unix() - 1)
		look(at.Unix())
	}
	return slices.Sorted(maps.Keys(found))
}

// AfterGaps are the instants at which a schedule is due because the clock of its zone jumped over one of its times.
func AfterGaps(zone *time.Location, f schedule.Fields) (all []time.Time) {
	own := map[int]bool{}
	for _, m := range Readings(f) {
		own[m] = true
	}
	for _, at := range Changes(zone) {
		first := at.Unix() + int64(Offset(zone, at.Unix()-1)) // the reading that would have come
		last := at.Unix() + int64(Offset(zone, at.Unix()))
		for r := first; r < last; r += 60 {
			if own[int(r/60%minutesPerDay)] {
				all = append(all, at)
				break
			}
		}
	}
	return all
}

// Earlier is when the clock of a zone showed for the first time what it shows at one of the instants of Repeated.
func Earlier(zone *time.Location, at time.Time) time.Time {
	const before = 3 * 60 * 60 // no clock is set back by so much
	return at.Add(-time.Duration(Offset(zone, at.Unix()-before)-Offset(zone, at.Unix())) * time.Second)
}

// Repeated are the instants at which a clock shows one of a schedule's times for the second time.
func Repeated(zone *time.Location, f schedule.Fields) (all []time.Time) {
	own := map[int]bool{}
	for _, m := range Readings(f) {
		own[m] = true
	}
	for _, at := range Changes(zone) {
		first := at.Unix() + int64(Offset(zone, at.Unix())) // the first reading that comes again
		last := at.Unix() + int64(Offset(zone, at.Unix()-1))
		for r := first; r < last; r += 60 {
			if own[int(r/60%minutesPerDay)] {
				all = append(all, time.Unix(at.Unix()+r-first, 0).UTC())
			}
		}
	}
	return all
}

// Twice are the instants at which a clock shows one of a schedule's times that it shows twice: of both passes.
func Twice(zone *time.Location, f schedule.Fields) (all []time.Time) {
	again := Repeated(zone, f)
	for _, at := range Changes(zone) {
		back := int64(Offset(zone, at.Unix()-1) - Offset(zone, at.Unix()))
		for _, t := range again {
			if d := t.Unix() - at.Unix(); 0 <= d && d < back {
				all = append(all, time.Unix(t.Unix()-back, 0).UTC(), t)
			}
		}
	}
	return all
}
