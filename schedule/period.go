package schedule

import "time"

// reference is the instant from which a look-ahead that must not depend on a clock begins.
var reference = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)

// Period is the shortest distance between two neighbouring ticks, on a calendar without daylight
// saving. It depends on nothing but the expression, so all servers agree on what is derived from
// it, such as a job's starting deadline. It is 0 if there are never two ticks.
func (s *Schedule) Period() time.Duration {
	if s.every > 0 {
		return time.Duration(s.every) * time.Second
	}
	minutes := s.calendar.shortest()
	return time.Duration(minutes) * time.Minute
}

// shortest is the least number of minutes between two matching readings: within a day, or from
// the last of one to the first of the next matching day.
func (c *calendar) shortest() int64 {
	first, _ := c.nextMinute(0)
	last, _ := c.prevMinute(minutesPerDay - 1)
	shortest := c.daysApart()*minutesPerDay - int64(last-first)
	for m := first; m < last; {
		next, _ := c.nextMinute(m + 1)
		shortest = min(shortest, int64(next-m))
		m = next
	}
	return shortest
}

// daysApart is the least number of days between two matching ones, of the 28 years after which
// weekdays and leap days come round again in this century. Nothing is nearer than neighbours.
func (c *calendar) daysApart() int64 {
	nearest := int64(daysPer400)
	day, _ := c.nextDay(0)
	for end := day + 7*daysPer4; day < end && nearest > 1; {
		next, _ := c.nextDay(day + 1)
		nearest = min(nearest, next-day)
		day = next
	}
	return nearest
}
