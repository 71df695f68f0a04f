package schedule

import (
	"fmt"
	"strings"
)

// Description says when the schedule is due, in plain English, without the zone: "at 04:15 on day 1 of the month".
// It writes out the values that H chose.
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
	return strings.Join(strings.Fields(times+" "+days+" "+c.describeMonths()+" "+c.describeYears()), " ")
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

// fewTimes is how many times of a day are listed one by one at most.
const fewTimes = 6

// describeTimes says at which times of a day; daily reports whether they are few enough to be followed by "every
// day".
func (c *calendar) describeTimes() (text string, daily bool) {
	seconds, minutes, hours := values(c.second), values(c.minute), values(c.hour)
	few := len(seconds)*len(minutes)*len(hours) <= fewTimes
	hour, daily := describeHours(hours, !few)
	everySecond, everyMinute := evenStep(seconds, 60), evenStep(minutes, 60)
	always := len(hours) == 24 && len(minutes) == 60
	switch {
	case everySecond > 0:
		text = "every " + spell(int64(everySecond)) + ofMinutes(minutes, everyMinute)
	case few && daily && everyMinute == 0:
		return "at " + list(c.times(), "and"), true
	case c.second != 1:
		text = "at " + count("second", seconds) + " of " + nth(everyMinute, "minute", minutes)
	case everyMinute > 0:
		text, always = "every "+spell(int64(everyMinute)*60), len(hours) == 24
	default:
		text = "at " + count("minute", minutes)
	}
	if always {
		return text, false
	}
	return text + " of " + hour, daily
}

// ofMinutes continues a distance in seconds: it applies to all minutes or only to some.
func ofMinutes(minutes []int, step int) string {
	if step == 1 {
		return ""
	}
	return " of " + nth(step, "minute", minutes)
}

// describeHours names the hours one by one, or as every n-th if they are many or all.
func describeHours(hours []int, many bool) (text string, daily bool) {
	step := evenStep(hours, 24)
	if step == 1 || step > 0 && many {
		return nth(step, "hour", hours), false
	}
	return count("hour", hours), true
}

// nth returns "every 2nd hour" or, for values with no even step, "hours 3 and 8".
func nth(step int, noun string, vs []int) string {
	switch step {
	case 0:
		return count(noun, vs)
	case 1:
		return "every " + noun
	}
	return "every " + ordinal(step) + " " + noun
}

// times lists the times of a day, with seconds if there are any.
func (c *calendar) times() (times []string) {
	for t, ok := c.nextTime(0); ok; t, ok = c.nextTime(t + 1) {
		text := fmt.Sprintf("%02d:%02d", t/3600, t/60%60)
		if c.second != 1 {
			text += fmt.Sprintf(":%02d", t%60)
		}
		times = append(times, text)
	}
	return times
}

// evenStep returns n if the values are 0, n, 2n, … all the way round, and else 0.
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

func values(set uint64) (vs []int) {
	for ; set != 0; set &= set - 1 {
		vs = append(vs, lowest(set))
	}
	return vs
}

// ordinal returns "1st", "2nd" and so on, up to a hundred.
func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprint(n) + suffix
}

// count names one value ("hour 5") or several ("hours 5 to 9 and 17").
func count(noun string, vs []int) string {
	if len(vs) > 1 {
		noun += "s"
	}
	return noun + " " + list(spans(vs, digits), "and")
}

func digits(v int) string { return fmt.Sprint(v) }

// spans names values, with three or more in a row as a range.
func spans(vs []int, name func(int) string) (parts []string) {
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
	return parts
}

// list joins parts with commas and a last word, "and" or "or".
func list(parts []string, word string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " " + word + " " + parts[last]
}
