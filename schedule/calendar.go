package schedule

import "math/bits"

// A calendar is what five fields say of wall-clock readings, without any zone: a set of days and
// a set of minutes of the day. Readings are seconds, days are days since 1970-01-01.
type calendar struct {
	minute, hour, dom, month, dow set
}

// elapsed says whether the schedule follows elapsed time rather than a fixed time of day.
func (c *calendar) elapsed() bool { return c.minute.star || c.hour.star }

// next is the first matching reading at or after l.
func (c *calendar) next(l int64) (int64, bool) {
	day, minute := divide(-divideDown(-l, 60), minutesPerDay) // rounded up to the minute
	if c.hasDay(day) {
		if m, ok := c.nextMinute(int(minute)); ok {
			return (day*minutesPerDay + int64(m)) * 60, true
		}
	}
	day, ok := c.nextDay(day + 1)
	m, _ := c.nextMinute(0)
	return (day*minutesPerDay + int64(m)) * 60, ok
}

// prev is the last matching reading at or before l.
func (c *calendar) prev(l int64) (int64, bool) {
	day, minute := divide(divideDown(l, 60), minutesPerDay)
	if c.hasDay(day) {
		if m, ok := c.prevMinute(int(minute)); ok {
			return (day*minutesPerDay + int64(m)) * 60, true
		}
	}
	day, ok := c.prevDay(day - 1)
	m, _ := c.prevMinute(minutesPerDay - 1)
	return (day*minutesPerDay + int64(m)) * 60, ok
}

// nextMinute is the first matching minute of the day at or after m.
func (c *calendar) nextMinute(m int) (int, bool) {
	h := m / 60
	if c.hour.bits&(1<<h) != 0 {
		if rest := from(c.minute.bits, m%60); rest != 0 {
			return h*60 + lowest(rest), true
		}
	}
	hours := from(c.hour.bits, h+1)
	if hours == 0 {
		return 0, false
	}
	return lowest(hours)*60 + lowest(c.minute.bits), true
}

// prevMinute is the last matching minute of the day at or before m.
func (c *calendar) prevMinute(m int) (int, bool) {
	h := m / 60
	if c.hour.bits&(1<<h) != 0 {
		if rest := upTo(c.minute.bits, m%60); rest != 0 {
			return h*60 + highest(rest), true
		}
	}
	hours := upTo(c.hour.bits, h-1)
	if hours == 0 {
		return 0, false
	}
	return highest(hours)*60 + highest(c.minute.bits), true
}

// days is the set of the month's matching days, bit 1 for the 1st. The weekdays of a month are
// the week's set, turned to the month's first weekday and repeated.
func (c *calendar) days(m month) uint64 {
	if c.month.bits&(1<<m.month) == 0 {
		return 0
	}
	turned := c.dow.bits>>m.weekday() | c.dow.bits<<(7-m.weekday())
	weekdays := turned & 0x7f * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << 1
	all := uint64(1)<<(m.length()+1) - 2
	if c.dom.star || c.dow.star {
		return all & c.dom.bits & weekdays
	}
	return all & (c.dom.bits | weekdays)
}

func (c *calendar) hasDay(day int64) bool {
	m, d := monthOf(day)
	return c.days(m)&(1<<d) != 0
}

// nextDay is the first matching day at or after day. A calendar repeats after 400 years, so the
// look-ahead that far, a month at a step, is complete.
func (c *calendar) nextDay(day int64) (int64, bool) {
	m, d := monthOf(day)
	for range cycleMonths {
		if rest := from(c.days(m), d); rest != 0 {
			return m.first + int64(lowest(rest)) - 1, true
		}
		m, d = m.next(), 1
	}
	return 0, false
}

// prevDay is the last matching day at or before day.
func (c *calendar) prevDay(day int64) (int64, bool) {
	m, d := monthOf(day)
	for range cycleMonths {
		if rest := upTo(c.days(m), d); rest != 0 {
			return m.first + int64(highest(rest)) - 1, true
		}
		m, d = m.prev(), 31
	}
	return 0, false
}

// from and upTo keep the members of a set that are at least, and at most, v.
func from(set uint64, v int) uint64 { return set >> v << v }
func upTo(set uint64, v int) uint64 { return set & (1<<(v+1) - 1) }

func lowest(set uint64) int  { return bits.TrailingZeros64(set) }
func highest(set uint64) int { return bits.Len64(set) - 1 }
