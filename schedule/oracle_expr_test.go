package schedule_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// A maker makes random expressions together with their meaning, so that the oracle parses nothing.
type maker struct {
	*rand.Rand
	year int    // years are named near this one
	name string // of the job, for H
}

func (r maker) one(in ...int) int { return in[r.IntN(len(in))] }

// expression makes five to seven fields.
func (r maker) expression() (string, *meaning) {
	m := &meaning{}
	count := r.one(5, 5, 5, 6, 7)
	everyDay := r.IntN(2) == 0
	second, minute, hour, month := "0", "", "", "*"
	m.second[0] = true
	if count > 5 && r.IntN(4) > 0 {
		second = r.values(&m.second, "second", 0, 59)
	}
	minute = r.values(&m.minute, "minute", 0, 59)
	if r.IntN(2) == 0 {
		hour = r.values(&m.hour, "hour", 0, 3) // where most clocks change
	} else {
		hour = r.values(&m.hour, "hour", 0, 23)
	}
	dom, dow := r.anyDay(), r.anyDay()
	m.dom, m.dow = append(m.dom, always), append(m.dow, always)
	if !everyDay {
		if r.IntN(2) == 0 {
			dom, m.dom = r.days()
		}
		if r.IntN(2) == 0 {
			dow, m.dow = r.weekdays()
		}
	}
	for i := range m.month {
		m.month[i] = true
	}
	if !everyDay && r.IntN(3) == 0 {
		month = r.values(&m.month, "month", 1, 12)
	}
	open := strings.HasPrefix(dom, "*") || strings.HasPrefix(dow, "*") || dom == "?" || dow == "?"
	if r.IntN(5) == 0 && dow != "?" {
		dow, open = "&"+dow, true
	}
	m.either = !open
	m.elapsed = strings.HasPrefix(minute, "*") || strings.HasPrefix(hour, "*")
	fields := []string{minute, hour, dom, month, dow}
	if count > 5 {
		fields = append([]string{second}, fields...)
	}
	if count > 6 {
		fields = append(fields, r.years(m))
	}
	return strings.Join(fields, " "), m
}

func always(time.Time) bool { return true }

func (r maker) anyDay() string { return []string{"*", "*", "?"}[r.IntN(3)] }

// list joins one to three items.
func (r maker) list(item func() string) string {
	items := make([]string, r.one(1, 1, 1, 2, 3))
	for i := range items {
		items[i] = item()
	}
	return strings.Join(items, ",")
}

var top = map[string]int{"second": 59, "minute": 59, "hour": 23, "day-of-month": 31, "month": 12, "day-of-week": 6}
var bottom = map[string]int{"day-of-month": 1, "month": 1}

// values fills a set with the values of a list, drawn from lo to hi.
func (r maker) values(set *[60]bool, field string, lo, hi int) string {
	*set = [60]bool{}
	return r.list(func() string {
		text, vs := r.item(field, lo, hi)
		for _, v := range vs {
			set[v] = true
		}
		return text
	})
}

// item makes a plain item or one with H, and lists its values.
func (r maker) item(field string, lo, hi int) (string, []int) {
	a, b := lo+r.IntN(hi-lo+1), lo+r.IntN(hi-lo+1)
	a, b = min(a, b), max(a, b)
	step := 1 + r.IntN(hi+1)
	switch r.IntN(9) {
	case 0:
		return "*", ladder(bottom[field], top[field], 1)
	case 1:
		return fmt.Sprintf("*/%d", step), ladder(bottom[field], top[field], step)
	case 2:
		return fmt.Sprintf("%d-%d", a, b), ladder(a, b, 1)
	case 3:
		return fmt.Sprintf("%d-%d/%d", a, b, step), ladder(a, b, step)
	case 4:
		return fmt.Sprintf("%d/%d", a, step), ladder(a, top[field], step)
	case 5:
		return r.hashed(field, a, b)
	}
	return fmt.Sprint(a), []int{a}
}

func ladder(lo, hi, step int) (vs []int) {
	for v := lo; v <= hi; v += step {
		vs = append(vs, v)
	}
	return vs
}

// hashed is what docs/reference/schedules.md says of H.
func (r maker) hashed(field string, a, b int) (string, []int) {
	sum := sha256.Sum256([]byte(r.name + "\x00" + field))
	hash := binary.BigEndian.Uint64(sum[:8])
	text := fmt.Sprintf("H(%d-%d)", a, b)
	if r.IntN(2) == 0 {
		text, a, b = "H", bottom[field], top[field]
		if field == "day-of-month" {
			b = 28
		}
	}
	if size := b - a + 1; size > 1 && r.IntN(2) == 0 {
		step := 2 + r.IntN(size-1)
		return fmt.Sprintf("%s/%d", text, step), ladder(a+int(hash%uint64(step)), b, step)
	}
	v := a + int(hash%uint64(b-a+1))
	return text, []int{v}
}

// days makes a list for the days of the month.
func (r maker) days() (string, []func(time.Time) bool) {
	var any []func(time.Time) bool
	return r.list(func() string {
		n, before := 1+r.IntN(31), r.IntN(31)
		switch r.IntN(10) {
		case 0:
			any = append(any, func(d time.Time) bool { return d.Day() == lastDay(d) })
			return "L"
		case 1:
			any = append(any, func(d time.Time) bool { return d.Day() == lastDay(d)-before })
			return fmt.Sprintf("L-%d", before)
		case 2:
			any = append(any, func(d time.Time) bool { return d.Day() == nearest(d, lastDay(d)) })
			return "LW"
		case 3:
			any = append(any, func(d time.Time) bool { return d.Day() == nearest(d, n) })
			return fmt.Sprintf("%dW", n)
		case 4:
			any = append(any, func(d time.Time) bool { return d.Day() == nearest(d, lastDay(d)-before) })
			return fmt.Sprintf("L-%dw", before)
		}
		text, vs := r.item("day-of-month", 1, 31)
		any = append(any, in(vs, func(d time.Time) int { return d.Day() }))
		return text
	}), any
}

func in(vs []int, of func(time.Time) int) func(time.Time) bool {
	return func(d time.Time) bool {
		for _, v := range vs {
			if v == of(d) {
				return true
			}
		}
		return false
	}
}

func lastDay(d time.Time) int { return time.Date(d.Year(), d.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() }

// nearest looks through the month for the working day nearest to day n, 0 if it has no day n.
func nearest(d time.Time, n int) int {
	best, distance := 0, 100
	if n < 1 || n > lastDay(d) {
		return 0
	}
	for i := 1; i <= lastDay(d); i++ {
		w := time.Date(d.Year(), d.Month(), i, 0, 0, 0, 0, time.UTC).Weekday()
		if away := max(n-i, i-n); w != time.Saturday && w != time.Sunday && away < distance {
			best, distance = i, away
		}
	}
	return best
}

// weekdays makes a list for the days of the week.
func (r maker) weekdays() (string, []func(time.Time) bool) {
	var any []func(time.Time) bool
	return r.list(func() string {
		w, to, k := r.IntN(7), r.IntN(7), 1+r.IntN(5)
		name := strings.ToUpper(time.Weekday(w).String()[:3])
		switch {
		case w == 0 && r.IntN(2) == 0:
			name = "7"
		case r.IntN(2) == 0:
			name = fmt.Sprint(w)
		}
		switch r.IntN(8) {
		case 0:
			any = append(any, func(d time.Time) bool { return int(d.Weekday()) == w && (d.Day()+6)/7 == k })
			return fmt.Sprintf("%s#%d", name, k)
		case 1:
			any = append(any, func(d time.Time) bool { return int(d.Weekday()) == w && d.Day()+7 > lastDay(d) })
			return name + "L"
		case 2: // may wrap
			step := 1 + r.IntN(3)
			vs := ladder(w, to, step)
			if to < w {
				vs = ladder(w, to+7, step)
			}
			any = append(any, func(d time.Time) bool {
				return in(vs, weekday)(d) || in(vs, func(d time.Time) int { return weekday(d) + 7 })(d)
			})
			return fmt.Sprintf("%d-%s/%d", w, time.Weekday(to).String()[:3], step)
		case 3, 4:
			any = append(any, func(d time.Time) bool { return int(d.Weekday()) == w })
			return name
		}
		text, vs := r.item("day-of-week", 0, 6)
		any = append(any, in(vs, weekday))
		return text
	}), any
}

func weekday(d time.Time) int { return int(d.Weekday()) }

// years makes a list of years round the maker's.
func (r maker) years(m *meaning) string {
	if r.IntN(4) == 0 {
		return "*"
	}
	var all []int
	text := r.list(func() string {
		a, step := r.year-r.IntN(3), 1+r.IntN(4)
		switch r.IntN(4) {
		case 0:
			all = append(all, ladder(a, a+4, 1)...)
			return fmt.Sprintf("%d-%d", a, a+4)
		case 1:
			all = append(all, ladder(a, 9999, step)...)
			return fmt.Sprintf("%d/%d", a, step)
		case 2:
			all = append(all, ladder(1970, 9999, step)...)
			return fmt.Sprintf("*/%d", step)
		}
		all = append(all, a)
		return fmt.Sprint(a)
	})
	named := map[int]bool{}
	for _, y := range all {
		named[y] = true
	}
	m.year = func(y int) bool { return named[y] }
	return text
}
