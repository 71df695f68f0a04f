package schedule

import "time"

// reference is the start of a look-ahead that must not depend on a clock.
var reference = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)

// Period returns the shortest distance between two neighbouring ticks within 28 years, on a calendar without
// daylight saving. It depends only on the expression, so all servers agree on what is derived from it, such as a
// job's starting deadline. It is 0 if there are never two ticks.
func (s *Schedule) Period() time.Duration {
	if s.every > 0 {
		return time.Duration(s.every) * time.Second
	}
	return time.Duration(s.calendar.shortest()) * time.Second
}

// shortest returns the least number of seconds between two matching readings, or 0: those of a minute, and from the
// last one of a minute, hour or day to the first of the next that matches.
func (c *calendar) shortest() int64 {
	var least int64
	keep := func(d int64) {
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	keep(nearest(c.second))
	if d := nearest(c.minute); d > 0 {
		keep(d*60 - width(c.second))
	}
	if d := nearest(c.hour); d > 0 {
		keep(d*3600 - width(c.minute)*60 - width(c.second))
	}
	if d := c.daysApart(); d > 0 {
		keep(d*secondsPerDay - width(c.hour)*3600 - width(c.minute)*60 - width(c.second))
	}
	return least
}

// width returns the distance between a set's lowest and highest member.
func width(set uint64) int64 { return int64(highest(set) - lowest(set)) }

// nearest returns the least distance between two members of a set, or 0.
func nearest(set uint64) (least int64) {
	for last := lowest(set); ; {
		set &= set - 1
		if set == 0 {
			return least
		}
		if d := int64(lowest(set) - last); least == 0 || d < least {
			least = d
		}
		last = lowest(set)
	}
}

// daysApart returns the least number of days between two matching ones within 28 years, after which weekdays and
// leap days repeat in this century, or 0 if there are never two. It compares neighbours only, since nothing is
// nearer.
func (c *calendar) daysApart() (least int64) {
	day, _ := c.nextDay(0)
	for end := day + 7*daysPer4; day < end && least != 1; {
		next, ok := c.nextDay(day + 1)
		if !ok {
			break
		}
		if least == 0 || next-day < least {
			least = next - day
		}
		day = next
	}
	return least
}
