package schedule

import "time"

// Fields are the contents of an expression, with steps, ranges, names and H written out. Use them to translate an
// expression into another scheduler's language.
type Fields struct {
	// Every is the interval of an @every; all other fields are empty then.
	Every time.Duration
	// Seconds, Minutes, Hours and Months are the values of each field, in ascending order.
	Seconds, Minutes, Hours, Months []int
	// Days are days of the month, Weekdays days of the week, from 0, Sunday, without those that are not plain
	// values. A day matches if it is in either or, if Both is set, in both.
	Days, Weekdays []int
	Both           bool
	// Special means that the days are not only plain values: L, W or # is among them. They match like the others of
	// their field.
	Special bool
	// FromEnd are days counted back from the month's last, which is 0. Nearest and NearestFromEnd are the working days
	// nearest to such days, within the month.
	FromEnd, Nearest, NearestFromEnd []int
	// Nth are weekdays of certain weeks of the month.
	Nth []Nth
	// Elapsed means that the minutes or the hours start with a star, so the schedule follows elapsed time.
	Elapsed bool
	// AnyYear means that no year is named; otherwise Years are all that are.
	AnyYear bool
	Years   []int
}

// Nth is the Kth Weekday of a month, from 1; K 0 is the last.
type Nth struct{ Weekday, K int }

// Fields returns the contents of the expression.
func (s *Schedule) Fields() Fields {
	c := s.calendar
	if c == nil {
		return Fields{Every: time.Duration(s.every) * time.Second}
	}
	f := Fields{
		Seconds: members(c.second), Minutes: members(c.minute), Hours: members(c.hour), Months: members(c.month),
		Days: members(c.dom), Weekdays: members(c.dow), Both: c.both, Special: c.fromEnd|c.nearest|c.nearestEnd|c.nth != 0,
		FromEnd: members(c.fromEnd), Nearest: members(c.nearest), NearestFromEnd: members(c.nearestEnd),
		Elapsed: c.elapsed, AnyYear: c.years == nil,
	}
	if c.years != nil {
		f.Years = c.years.values()
	}
	for _, at := range members(c.nth) {
		f.Nth = append(f.Nth, Nth{at % 7, (at/7 + 1) % (lastOfMonth + 1)})
	}
	return f
}

func members(set uint64) (all []int) {
	for v := range 64 {
		if has(set, v) {
			all = append(all, v)
		}
	}
	return all
}
