package schedule

import (
	"fmt"
	"strings"
	"time"
)

// describeDays says on which days of a month; "" for all days.
func (c *calendar) describeDays() string {
	monthly, weekly := c.dom != domField.full(), c.dow != dowField.full()
	switch {
	case monthly && weekly && c.both:
		return "on " + list(c.monthDays(), "and") + " if it is " + list(c.weekdays(), "or")
	case monthly && weekly:
		return "on " + list(c.monthDays(), "and") + " or on " + list(c.weekdays(), "and")
	case monthly && c.both: // either matches all days if one of them is not restricted
		return "on " + list(c.monthDays(), "and")
	case weekly && c.both:
		return "on " + list(c.weekdays(), "and")
	}
	return ""
}

// monthDays names the days of the month that the first day field lists.
func (c *calendar) monthDays() (parts []string) {
	if c.dom != 0 {
		parts = append(parts, count("day", values(c.dom))+" of the month")
	}
	for _, n := range values(c.fromEnd) {
		parts = append(parts, beforeLast(n)+" of the month")
	}
	const nearest = "the working day (Monday to Friday) of the month nearest to "
	for _, n := range values(c.nearest) {
		parts = append(parts, nearest+"day "+fmt.Sprint(n))
	}
	for _, n := range values(c.nearestEnd) {
		if n == 0 {
			parts = append(parts, "the last working day (Monday to Friday) of the month")
		} else {
			parts = append(parts, nearest+"its "+ordinal(n)+" day before the last")
		}
	}
	return parts
}

func beforeLast(n int) string {
	if n == 0 {
		return "the last day"
	}
	return "the " + ordinal(n) + " day before the last"
}

// weekdays names the days of the week that the second day field lists.
func (c *calendar) weekdays() []string {
	parts := spans(values(c.dow), func(v int) string { return time.Weekday(v).String() })
	for w := time.Sunday; w <= time.Saturday; w++ {
		var which []string
		for k := range lastOfMonth {
			if has(c.nth, k*7+int(w)) {
				which = append(which, ordinal(k+1))
			}
		}
		if has(c.nth, lastOfMonth*7+int(w)) {
			which = append(which, "last")
		}
		if which != nil {
			parts = append(parts, "the "+list(which, "and")+" "+w.String()+" of the month")
		}
	}
	return parts
}

func (c *calendar) describeMonths() string {
	if c.month == monthField.full() {
		return ""
	}
	return "in " + list(spans(values(c.month), func(v int) string { return time.Month(v).String() }), "and")
}

func (c *calendar) describeYears() string {
	if c.years == nil {
		return ""
	}
	vs := c.years.values()
	parts := progressions(vs)
	switch {
	case len(vs) == 1:
		return "in the year " + parts[0]
	case len(parts) > maxYears:
		return fmt.Sprintf("in %d of the years %d to %d", len(vs), vs[0], vs[len(vs)-1])
	case len(parts) == 1 && strings.HasPrefix(parts[0], "every "):
		return "in " + parts[0]
	}
	return "in the years " + list(parts, "and")
}

// maxYears bounds how many years are listed if they follow no rule.
const maxYears = 24

// progressions names values, with three or more at an even distance as a range.
func progressions(vs []int) (parts []string) {
	for i := 0; i < len(vs); {
		j := i
		for j+1 < len(vs) && vs[j+1]-vs[j] == vs[i+1]-vs[i] {
			j++
		}
		switch {
		case j-i < 2:
			parts = append(parts, digits(vs[i]))
			i++
			continue
		case vs[i+1]-vs[i] == 1:
			parts = append(parts, fmt.Sprintf("%d to %d", vs[i], vs[j]))
		default:
			parts = append(parts, fmt.Sprintf("every %s year from %d to %d", ordinal(vs[i+1]-vs[i]), vs[i], vs[j]))
		}
		i = j + 1
	}
	return parts
}
