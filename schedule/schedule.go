package schedule

import (
	"sync/atomic"
	"time"
)

// Schedules cover the years that RFC 3339 can write.
var (
	firstUnix = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	firstDay  = firstUnix / secondsPerDay
	lastUnix  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
)

// A Schedule is a parsed expression in its zone. It is immutable and safe for concurrent use.
type Schedule struct {
	expr     string
	zone     *time.Location
	dst      DST
	extended bool
	every    int64     // seconds; 0 unless the expression is @every
	calendar *calendar // nil if it is

	// last is the segment of the zone that was used last: the next request is nearly always for the same one. It
	// only saves time.
	last atomic.Pointer[segment]
}

// Next returns the first tick strictly after the given instant, in UTC; false if there is none before the year
// 10000. It takes bounded time whatever the expression.
func (s *Schedule) Next(after time.Time) (time.Time, bool) {
	unix := max(after.Unix()+1, firstUnix)
	if s.every > 0 {
		return result(-divideDown(-unix, s.every)*s.every, true)
	}
	return result(s.next(unix))
}

// Prev returns the latest tick at or before the given instant, in UTC; false if there is none since the year 1.
func (s *Schedule) Prev(at time.Time) (time.Time, bool) {
	unix := min(at.Unix(), lastUnix)
	if s.every > 0 {
		return result(divideDown(unix, s.every)*s.every, true)
	}
	return result(s.prev(unix))
}

// String returns the expression with single blanks and names in capitals, without a CRON_TZ prefix. Parsed with the
// same Zone, DST and name, it gives the same schedule.
func (s *Schedule) String() string { return s.expr }

// Zone returns the time zone in which the expression is read.
func (s *Schedule) Zone() *time.Location { return s.zone }

// DST returns what happens to the schedule's fixed times when clocks change.
func (s *Schedule) DST() DST { return s.dst }

// Extended reports whether the expression uses one of ? L W # H &, which plain crons do not read.
func (s *Schedule) Extended() bool { return s.extended }

// everyPass reports whether each pass over a reading counts: the schedule follows elapsed time, or its DST is
// Repeat.
func (s *Schedule) everyPass() bool { return s.calendar.elapsed || s.dst == Repeat }

func result(unix int64, ok bool) (time.Time, bool) {
	if !ok || unix < firstUnix || unix > lastUnix {
		return time.Time{}, false
	}
	return time.Unix(unix, 0).UTC(), true
}

// next returns the first tick at or after t. Each turn either answers from t's segment or leaves it.
func (s *Schedule) next(t int64) (int64, bool) {
	c := s.calendar
	for t <= lastUnix {
		g := s.segment(t)
		from := t + g.offset
		if !s.everyPass() {
			if t == g.start && s.dst == Vixie { // with the readings that the jump to here left out
				from = g.reached
			}
			from = max(from, g.reached)
		}
		reading, ok := c.next(from)
		if ok && reading < g.end+g.offset {
			return max(g.start, reading-g.offset), true
		}
		// No tick lies further from its reading than maxOffset: do not visit every segment
		// of the years to the next matching day.
		t = g.end
		if reading, ok = c.next(t - maxOffset); !ok {
			return 0, false
		}
		t = max(t, reading-maxOffset)
	}
	return 0, false
}

// prev returns the last tick at or before t: next's mirror image.
func (s *Schedule) prev(t int64) (int64, bool) {
	c := s.calendar
	for t >= firstUnix {
		g := s.segment(t)
		from := g.start + g.offset
		switch {
		case s.everyPass():
		case s.dst == Vixie:
			from = g.reached
		default:
			from = max(from, g.reached)
		}
		reading, ok := c.prev(t + g.offset)
		if ok && reading >= from {
			return max(g.start, reading-g.offset), true
		}
		t = g.start - 1
		if reading, ok = c.prev(t + maxOffset); !ok {
			return 0, false
		}
		t = min(t, reading+maxOffset)
	}
	return 0, false
}

func (s *Schedule) segment(t int64) *segment {
	if g := s.last.Load(); g != nil && g.start <= t && t < g.end {
		return g
	}
	g := segmentAt(s.zone, t)
	s.last.Store(&g)
	return &g
}
