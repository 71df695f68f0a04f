package schedule

// lastOfMonth is the row of calendar.nth for the last weekday of the month, after those of the
// first to the fifth.
const lastOfMonth = 5

// days returns the set of the month's matching days, bit 1 for the 1st. The weekdays of a month are the week's set,
// turned to the month's first weekday and repeated.
func (c *calendar) days(m month) uint64 {
	if !has(c.month, m.month) {
		return 0
	}
	turned := c.dow>>m.weekday() | c.dow<<(7-m.weekday())
	weekdays := turned & 0x7f * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << 1
	if c.nth != 0 {
		weekdays |= c.nthDays(m)
	}
	days := c.dom
	if c.fromEnd|c.nearest|c.nearestEnd != 0 {
		days |= c.specialDays(m)
	}
	all := uint64(1)<<(m.length()+1) - 2
	if c.both {
		return all & days & weekdays
	}
	return all & (days | weekdays)
}

// nthDays returns the days of n#k and nL.
func (c *calendar) nthDays(m month) (days uint64) {
	for set := c.nth; set != 0; set &= set - 1 {
		k, w := lowest(set)/7, lowest(set)%7
		first := 1 + (w-m.weekday()+7)%7
		switch {
		case k < lastOfMonth:
			days |= 1 << (first + 7*k) // a fifth that lies beyond the month is masked by days
		case first+28 <= m.length():
			days |= 1 << (first + 28)
		default:
			days |= 1 << (first + 21)
		}
	}
	return days
}

// specialDays returns the days of L-n, nW and L-nW. Days that the month does not have are left out.
func (c *calendar) specialDays(m month) (days uint64) {
	length := m.length()
	for set := upTo(c.fromEnd, length-1); set != 0; set &= set - 1 {
		days |= 1 << (length - lowest(set))
	}
	for set := upTo(c.nearestEnd, length-1); set != 0; set &= set - 1 {
		days |= 1 << m.workingDay(length-lowest(set))
	}
	for set := upTo(c.nearest, length); set != 0; set &= set - 1 {
		days |= 1 << m.workingDay(lowest(set))
	}
	return days
}

// workingDay returns the day from Monday to Friday that is nearest to day d and in the same month.
func (m month) workingDay(d int) int {
	switch (m.weekday() + d - 1) % 7 {
	case 6:
		if d == 1 {
			return 3
		}
		return d - 1
	case 0:
		if d == m.length() {
			return d - 2
		}
		return d + 1
	}
	return d
}

func (c *calendar) hasDay(day int64) bool {
	m, d := monthOf(day)
	if c.years != nil {
		if y, ok := c.years.next(m.year); !ok || y != m.year {
			return false
		}
	}
	return has(c.days(m), d)
}

// nextDay returns the first matching day at or after day. A calendar repeats after 400 years, so looking that far
// ahead, a month per step, finds every day; with years it looks through at most all of them.
func (c *calendar) nextDay(day int64) (int64, bool) {
	m, d := monthOf(day)
	for steps := 0; c.years != nil || steps < cycleMonths; steps++ {
		if c.years != nil {
			y, ok := c.years.next(m.year)
			if !ok {
				return 0, false
			}
			if y != m.year {
				m, d = monthIn(y, 1), 1
			}
		}
		if rest := from(c.days(m), d); rest != 0 {
			return m.first + int64(lowest(rest)) - 1, true
		}
		m, d = m.next(), 1
	}
	return 0, false
}

// prevDay returns the last matching day at or before day.
func (c *calendar) prevDay(day int64) (int64, bool) {
	m, d := monthOf(day)
	for steps := 0; c.years != nil || steps < cycleMonths; steps++ {
		if c.years != nil {
			y, ok := c.years.prev(m.year)
			if !ok {
				return 0, false
			}
			if y != m.year {
				m, d = monthIn(y, 12), 31
			}
		}
		if rest := upTo(c.days(m), d); rest != 0 {
			return m.first + int64(highest(rest)) - 1, true
		}
		m, d = m.prev(), 31
	}
	return 0, false
}
