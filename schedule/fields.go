package schedule

import "time"

// Fields are what an expression says, with steps, ranges, names and H written out. Use them to translate an
// expression into another scheduler's language.
type Fields struct {
	// Every is the distance of an @every; all else is empty then.
	Every time.Duration
	// Seconds, Minutes, Hours and Months are the values of each field, in ascending order.
	Seconds, Minutes, Hours, Months []int
	// Days are those of the month, Weekdays those of the week, from 0, Sunday: as far as they are plain values. A day
	// matches if it is in either, or if Both says so, in both.
	Days, Weekdays []int
	Both           bool
	// Special says that the days are not plain values alone: L, W or # is among them.
	Special bool
	// Elapsed says that the minutes or the hours start with a star, so the schedule follows elapsed time.
	Elapsed bool
	// AnyYear says that no year is named.
	AnyYear bool
}

// Fields answers what the expression says of the clock.
func (s *Schedule) Fields() Fields {
	c := s.calendar
	if c == nil {
		return Fields{Every: time.Duration(s.every) * time.Second}
	}
	return Fields{
		Seconds: members(c.second), Minutes: members(c.minute), Hours: members(c.hour), Months: members(c.month),
		Days: members(c.dom), Weekdays: members(c.dow), Both: c.both, Special: c.fromEnd|c.nearest|c.nearestEnd|c.nth != 0,
		Elapsed: c.elapsed, AnyYear: c.years == nil,
	}
}

func members(set uint64) (all []int) {
	for v := range 64 {
		if has(set, v) {
			all = append(all, v)
		}
	}
	return all
}
