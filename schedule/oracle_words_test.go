package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/schedule"
)

// TestDescriptionsAreTrue reads descriptions of random expressions back, word by word, and compares
// what they say with what the expressions mean.
func TestDescriptionsAreTrue(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	read, wanted := 0, testsize.Of(300, 4000)
	for read < wanted && !t.Failed() {
		make := maker{r, 2000 + r.IntN(60), fmt.Sprintf("app/job-%d", r.IntN(1000))}
		expr, m := make.expression()
		s, err := schedule.Options{Name: make.name}.Parse(expr)
		if err != nil {
			continue // TestAgainstOracle looks into these
		}
		if strings.Contains(s.Description(), " of the years ") {
			continue // years without a rule, which are counted and not listed
		}
		said, err := readWords(s.Description())
		if err != nil {
			t.Fatalf("%s: %q: %v", expr, s.Description(), err)
		}
		read++
		for second := range day {
			h, mi, se := second/3600, second/60%60, second%60
			if got, want := said.time(h, mi, se), m.hour[h] && m.minute[mi] && m.second[se]; got != want {
				t.Fatalf("%s: %q says %v of %02d:%02d:%02d", expr, s.Description(), got, h, mi, se)
			}
		}
		from := time.Date(make.year-3, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range 7 * 365 {
			d := from.AddDate(0, 0, i)
			if got, want := said.date(d), m.date(d); got != want {
				t.Fatalf("%s: %q says %v of %s", expr, s.Description(), got, d.Format("Mon 2006-01-02"))
			}
		}
	}
}

// words are what a description says.
type words struct {
	time        func(h, m, s int) bool
	first, then []func(time.Time) bool // days; then is nil unless there are two kinds
	both        bool
	month       map[int]bool
	year        map[int]bool
}

func (w *words) date(d time.Time) bool {
	holds := func(any []func(time.Time) bool) bool {
		for _, one := range any {
			if one(d) {
				return true
			}
		}
		return false
	}
	days := w.first == nil || holds(w.first)
	if w.then != nil && w.both {
		days = days && holds(w.then)
	} else if w.then != nil {
		days = days || holds(w.then)
	}
	return days && (w.month == nil || w.month[int(d.Month())]) && (w.year == nil || w.year[d.Year()])
}

var (
	yearWords  = regexp.MustCompile(`^(.*?) in ((?:the years? |every \d+.. year from ).*)$`)
	monthWords = regexp.MustCompile(`^(.*?) in ((?:January|February|March|April|May|June|July|August|September|October|November|December)\b.*)$`)
	dayWords   = regexp.MustCompile(`^(.*?) on (.*)$`)
	clockWords = regexp.MustCompile(`^\d\d:\d\d(:\d\d)?$`)
	phrase     = regexp.MustCompile(`days? ([\d, andto]+) of the month|the (\d*)(?:st|nd|rd|th|last) day (?:before the last )?of the month|` +
		`the (last )?working day \(Monday to Friday\) of the month(?: nearest to (day|its) (\d+)(?:.. day before the last)?)?|` +
		`the ([\dstndrdthla, ]+) (\w+day) of the month|(\w+day)(?: to (\w+day))?`)
)

func readWords(text string) (*words, error) {
	w := &words{}
	var err error
	if m := yearWords.FindStringSubmatch(text); m != nil {
		text = m[1]
		if w.year, err = readYears(m[2]); err != nil {
			return nil, err
		}
	}
	if m := monthWords.FindStringSubmatch(text); m != nil {
		text = m[1]
		if w.month, err = readSet(m[2], func(s string) (int, error) {
			at, err := time.Parse("January", s)
			return int(at.Month()), err
		}); err != nil {
			return nil, err
		}
	}
	if m := dayWords.FindStringSubmatch(text); m != nil {
		text = m[1]
		if err := w.readDays(m[2]); err != nil {
			return nil, err
		}
	}
	return w, w.readTimes(strings.TrimSuffix(text, " every day"))
}

func parts(text string) []string {
	text = strings.NewReplacer(" and ", ", ", " or ", ", ").Replace(text)
	return strings.Split(text, ", ")
}

func readSet(text string, value func(string) (int, error)) (map[int]bool, error) {
	set := map[int]bool{}
	for _, part := range parts(text) {
		from, to, isRange := strings.Cut(part, " to ")
		a, err := value(from)
		b := a
		if isRange && err == nil {
			b, err = value(to)
		}
		if err != nil {
			return nil, err
		}
		for ; a <= b; a++ {
			set[a] = true
		}
	}
	return set, nil
}

func readYears(text string) (map[int]bool, error) {
	set := map[int]bool{}
	text = strings.TrimPrefix(strings.TrimPrefix(text, "the year "), "the years ")
	for _, part := range parts(text) {
		var step, a, b int
		var suffix string
		if n, _ := fmt.Sscanf(part, "every %d%2s year from %d to %d", &step, &suffix, &a, &b); n == 4 {
			for ; a <= b; a += step {
				set[a] = true
			}
			continue
		}
		some, err := readSet(part, strconv.Atoi)
		if err != nil {
			return nil, err
		}
		for y := range some {
			set[y] = true
		}
	}
	return set, nil
}

func (w *words) readDays(text string) (err error) {
	first, then, both := strings.Cut(text, " if it is ")
	if !both {
		first, then, _ = strings.Cut(text, " or on ")
	}
	w.both = both
	if w.first, err = readPhrases(first); err == nil && then != "" {
		w.then, err = readPhrases(then)
	}
	return err
}

func readPhrases(text string) (any []func(time.Time) bool, err error) {
	for _, m := range phrase.FindAllStringSubmatch(text, -1) {
		one, err := readPhrase(m)
		if err != nil {
			return nil, err
		}
		any = append(any, one)
	}
	rest := phrase.ReplaceAllString(text, "|")
	for _, between := range strings.Split(strings.Trim(rest, "|"), "|") {
		if between != "" && between != ", " && between != " and " && between != " or " {
			return nil, fmt.Errorf("%q is not understood in %q", between, text)
		}
	}
	return any, nil
}

func readPhrase(m []string) (func(time.Time) bool, error) {
	num := func(s string) int { n, _ := strconv.Atoi(s); return n }
	switch {
	case m[1] != "":
		set, err := readSet(m[1], strconv.Atoi)
		return func(d time.Time) bool { return set[d.Day()] }, err
	case m[8] != "":
		set, err := readSet(m[0], dayNumber)
		return func(d time.Time) bool { return set[int(d.Weekday())] }, err
	case m[7] != "":
		w, err := dayNumber(m[7])
		which := map[int]bool{}
		for _, k := range parts(m[6]) {
			which[num(strings.TrimRight(k, "stndrh"))] = k != "last"
			which[-1] = which[-1] || k == "last"
		}
		return func(d time.Time) bool {
			return int(d.Weekday()) == w && (which[(d.Day()+6)/7] || which[-1] && d.Day()+7 > lastDay(d))
		}, err
	case m[3] != "":
		return func(d time.Time) bool { return d.Day() == nearest(d, lastDay(d)) }, nil
	case m[4] == "day":
		return func(d time.Time) bool { return d.Day() == nearest(d, num(m[5])) }, nil
	case m[4] == "its":
		return func(d time.Time) bool { return d.Day() == nearest(d, lastDay(d)-num(m[5])) }, nil
	}
	return func(d time.Time) bool { return d.Day() == lastDay(d)-num(m[2]) }, nil
}

func dayNumber(name string) (int, error) {
	for w := time.Sunday; w <= time.Saturday; w++ {
		if w.String() == name {
			return int(w), nil
		}
	}
	return 0, fmt.Errorf("%q is no day", name)
}

func (w *words) readTimes(text string) error {
	if list, ok := strings.CutPrefix(text, "at "); ok && clockWords.MatchString(parts(list)[0]) {
		times := map[[3]int]bool{}
		for _, at := range parts(list) {
			var hms [3]int
			for i, n := range strings.Split(at, ":") {
				hms[i], _ = strconv.Atoi(n)
			}
			times[hms] = true
		}
		w.time = func(h, m, s int) bool { return times[[3]int{h, m, s}] }
		return nil
	}
	units := map[string]map[int]bool{} // what is said of hours, minutes and seconds
	smallest := ""
	for i, part := range strings.Split(strings.TrimPrefix(text, "at "), " of ") {
		unit, set, err := readUnit(part)
		if err != nil {
			return err
		}
		if i == 0 {
			smallest = unit
		}
		units[unit] = set
	}
	if smallest == "minute" {
		units["second"] = map[int]bool{0: true}
	}
	said := func(unit string, v int) bool { return units[unit] == nil || units[unit][v] }
	w.time = func(h, m, s int) bool { return said("hour", h) && said("minute", m) && said("second", s) }
	return nil
}

// readUnit reads "every 10 minutes", "every 2nd hour", "every minute" and "hours 3 and 5 to 7".
func readUnit(text string) (unit string, set map[int]bool, err error) {
	first, rest, _ := strings.Cut(text, " ")
	if first != "every" {
		set, err = readSet(rest, strconv.Atoi)
		return strings.TrimSuffix(first, "s"), set, err
	}
	fields := strings.Fields(rest)
	step := 1
	if len(fields) == 2 {
		if step, err = strconv.Atoi(strings.TrimRight(fields[0], "stndrh")); err != nil {
			return "", nil, err
		}
	}
	set = map[int]bool{}
	for v := 0; v < 60; v += step {
		set[v] = true
	}
	return strings.TrimSuffix(fields[len(fields)-1], "s"), set, nil
}
