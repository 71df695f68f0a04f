package schedule

import "math/bits"

// A calendar is what the fields say about wall-clock readings, without any zone: a set of days and a set of seconds
// of the day. Readings are seconds, days are days since 1970-01-01. In its sets, bit v stands for the value v.
type calendar struct {
	second, minute, hour uint64
	dom, month, dow      uint64 // their plain values

	fromEnd    uint64 // L-n: n days before the month's last
	nearest    uint64 // nW: the working day nearest to n
	nearestEnd uint64 // L-nW
	nth        uint64 // bit k*7+w: the weekday w's (k+1)-th of the month, or its last

	years *years
	// both: a day must match both day fields, not either. A star or an & in the expression says so.
	both bool
	// elapsed: the schedule follows elapsed time rather than a fixed time of day.
	elapsed bool
}

// next returns the first matching reading at or after l.
func (c *calendar) next(l int64) (int64, bool) {
	day, second := divide(l, secondsPerDay)
	if c.hasDay(day) {
		if s, ok := c.nextTime(int(second)); ok {
			return day*secondsPerDay + int64(s), true
		}
	}
	day, ok := c.nextDay(day + 1)
	s, _ := c.nextTime(0)
	return day*secondsPerDay + int64(s), ok
}

// prev returns the last matching reading at or before l.
func (c *calendar) prev(l int64) (int64, bool) {
	day, second := divide(l, secondsPerDay)
	if c.hasDay(day) {
		if s, ok := c.prevTime(int(second)); ok {
			return day*secondsPerDay + int64(s), true
		}
	}
	day, ok := c.prevDay(day - 1)
	s, _ := c.prevTime(secondsPerDay - 1)
	return day*secondsPerDay + int64(s), ok
}

// nextTime returns the first matching second of the day at or after t.
func (c *calendar) nextTime(t int) (int, bool) {
	h, m, s := t/3600, t/60%60, t%60
	if has(c.hour, h) {
		if rest := from(c.second, s); rest != 0 && has(c.minute, m) {
			return t - s + lowest(rest), true
		}
		if rest := from(c.minute, m+1); rest != 0 {
			return h*3600 + lowest(rest)*60 + lowest(c.second), true
		}
	}
	hours := from(c.hour, h+1)
	if hours == 0 {
		return 0, false
	}
	return lowest(hours)*3600 + lowest(c.minute)*60 + lowest(c.second), true
}

// prevTime returns the last matching second of the day at or before t.
func (c *calendar) prevTime(t int) (int, bool) {
	h, m, s := t/3600, t/60%60, t%60
	if has(c.hour, h) {
		if rest := upTo(c.second, s); rest != 0 && has(c.minute, m) {
			return t - s + highest(rest), true
		}
		if rest := upTo(c.minute, m-1); rest != 0 {
			return h*3600 + highest(rest)*60 + highest(c.second), true
		}
	}
	hours := upTo(c.hour, h-1)
	if hours == 0 {
		return 0, false
	}
	return highest(hours)*3600 + highest(c.minute)*60 + highest(c.second), true
}

func has(set uint64, v int) bool { return set>>v&1 != 0 }

// from and upTo keep the members of a set that are at least, and at most, v.
func from(set uint64, v int) uint64 { return set >> v << v }
func upTo(set uint64, v int) uint64 { return set & (1<<(v+1) - 1) }

func lowest(set uint64) int  { return bits.TrailingZeros64(set) }
func highest(set uint64) int { return bits.Len64(set) - 1 }
