package schedule

const (
	secondsPerDay = 24 * 60 * 60
	// cycleMonths is the Gregorian calendar's period of 400 years, plus the month it began in.
	cycleMonths = 400*12 + 1
	daysPer400  = 400*365 + 97
	daysPer100  = 100*365 + 24
	daysPer4    = 4*365 + 1
)

// A month is one month of one year, and the day on which it begins.
type month struct {
	year, month int
	first       int64 // days since 1970-01-01
}

// monthOf finds the month of a day and the day of that month, from 1. It counts years from
// March, so that the leap day is a year's last.
func monthOf(day int64) (month, int) {
	const march0 = 719468 // days from 0000-03-01 to 1970-01-01
	era, d := divide(day+march0, daysPer400)
	century := min(d/daysPer100, 3)
	d -= century * daysPer100
	four := d / daysPer4
	d -= four * daysPer4
	year := min(d/365, 3)
	d -= year * 365
	m := (5*d + 2) / 153 // months of 31, 30, 31, 30, 31 days: 153 days to five
	d -= (153*m + 2) / 5
	y := int(era*400 + century*100 + four*4 + year)
	mo := int(m) + 3
	if mo > 12 {
		y, mo = y+1, mo-12
	}
	return month{y, mo, day - d}, int(d) + 1
}

func (m month) next() month {
	n := month{m.year, m.month + 1, m.first + int64(m.length())}
	if n.month > 12 {
		n.year, n.month = n.year+1, 1
	}
	return n
}

func (m month) prev() month {
	p := month{year: m.year, month: m.month - 1}
	if p.month < 1 {
		p.year, p.month = p.year-1, 12
	}
	p.first = m.first - int64(p.length())
	return p
}

// monthIn returns a month of a year.
func monthIn(year, mon int) month {
	// The day lies within the year whatever its leap days before; the months between are walked.
	m, _ := monthOf(int64(year-1970)*daysPer400/400 + 180)
	for m.year > year || m.year == year && m.month > mon {
		m = m.prev()
	}
	for m.year < year || m.month < mon {
		m = m.next()
	}
	return m
}

// length returns the number of the month's days.
func (m month) length() int {
	switch m.month {
	case 2:
		if m.year%4 == 0 && (m.year%100 != 0 || m.year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// weekday returns the weekday of the month's first day, 0 for Sunday. 1970-01-01 was a Thursday.
func (m month) weekday() int {
	_, w := divide(m.first+4, 7)
	return int(w)
}

// divide rounds down, as clocks and calendars before 1970 need, so that the rest is never negative.
func divide(a, b int64) (quotient, rest int64) {
	q := divideDown(a, b)
	return q, a - q*b
}

func divideDown(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
