package schedule

import (
	"fmt"
	"strings"
	"time"
)

// Description says when the schedule is due, in plain English, without the zone: "at 04:15 on
// day 1 of the month".
func (s *Schedule) Description() string {
	if s.every > 0 {
		return "every " + spell(s.every)
	}
	c := s.calendar
	times, daily := c.describeTimes()
	days := c.describeDays()
	if days == "" && daily {
		days = "every day"
	}
	if !c.month.full(&monthField) {
		days += " in " + spans(values(c.month.bits), func(v int) string { return time.Month(v).String() })
	}
	return strings.TrimSpace(times + " " + strings.TrimSpace(days))
}

// spell writes seconds in the largest unit that divides them.
func spell(seconds int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"day", secondsPerDay}, {"hour", 3600}, {"minute", 60}, {"second", 1}} {
		switch n := seconds / unit.size; {
		case seconds%unit.size != 0:
		case n == 1:
			return unit.name
		default:
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return ""
}

// describeTimes says at which times of a day; daily is whether those are few enough to be followed
// by "every day".
func (c *calendar) describeTimes() (text string, daily bool) {
	minutes, hours := values(c.minute.bits), values(c.hour.bits)
	within := count("hour", hours, digits)
	daily = true
	if step := evenStep(hours, 24); step > 0 && (step == 1 || len(minutes)*len(hours) > 6) {
		within, daily = "every "+ordinal(step)+"hour", false
	}
	switch step := evenStep(minutes, 60); {
	case step > 0 && len(hours) == 24:
		return "every " + spell(int64(step)*60), false
	case step > 0:
		return "every " + spell(int64(step)*60) + " of " + within, daily
	case daily && len(minutes)*len(hours) <= 6:
		return "at " + list(c.times()), true
	}
	return "at " + count("minute", minutes, digits) + " of " + within, daily
}

func (c *calendar) times() (times []string) {
	for m, ok := c.nextMinute(0); ok; m, ok = c.nextMinute(m + 1) {
		times = append(times, fmt.Sprintf("%02d:%02d", m/60, m%60))
	}
	return times
}

func (c *calendar) describeDays() string {
	monthly, weekly := !c.dom.full(&domField), !c.dow.full(&dowField)
	dom := count("day", values(c.dom.bits), digits) + " of the month"
	dow := spans(values(c.dow.bits), func(v int) string { return time.Weekday(v).String() })
	both := c.dom.star || c.dow.star // must match; otherwise one that is not restricted matches all
	switch {
	case monthly && weekly && both:
		return "on " + dom + " if it is " + dow
	case monthly && weekly:
		return "on " + dom + " or on " + dow
	case monthly && both:
		return "on " + dom
	case weekly && both:
		return "on " + dow
	}
	return ""
}

// full says whether the set has every value of the field.
func (s set) full(f *field) bool {
	return s.bits == upTo(from(^uint64(0), f.lo), f.star)
}

func values(set uint64) (vs []int) {
	for ; set != 0; set &= set - 1 {
		vs = append(vs, lowest(set))
	}
	return vs
}

// evenStep is n if the values are 0, n, 2n, … all the way round, and else 0.
func evenStep(vs []int, round int) int {
	if len(vs) < 2 || round%len(vs) != 0 {
		return 0
	}
	step := round / len(vs)
	for i, v := range vs {
		if v != i*step {
			return 0
		}
	}
	return step
}

// ordinal is "", "2nd ", "3rd " and so on, up to a day's hours.
func ordinal(n int) string {
	switch n {
	case 1:
		return ""
	case 2:
		return "2nd "
	case 3:
		return "3rd "
	}
	return fmt.Sprintf("%dth ", n)
}

func digits(v int) string { return fmt.Sprint(v) }

// count names one value ("hour 5") or several ("hours 5 to 9 and 17").
func count(noun string, vs []int, name func(int) string) string {
	if len(vs) > 1 {
		noun += "s"
	}
	return noun + " " + spans(vs, name)
}

// spans lists values, with three or more in a row as a range.
func spans(vs []int, name func(int) string) string {
	var parts []string
	for i := 0; i < len(vs); {
		j := i
		for j+1 < len(vs) && vs[j+1] == vs[j]+1 {
			j++
		}
		if j-i >= 2 {
			parts = append(parts, name(vs[i])+" to "+name(vs[j]))
			i = j + 1
		} else {
			parts = append(parts, name(vs[i]))
			i++
		}
	}
	return list(parts)
}

func list(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}
