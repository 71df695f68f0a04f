package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// A field is one column of an expression: its name, its range and the names of its values.
type field struct {
	name   string
	lo, hi int
	star   int      // the last value that a star, or an open "a/n", reaches
	hashed int      // the last value that H may stand for; 0: H is refused
	names  []string // of lo, lo+1, …; three letters each
	cycle  int      // of values that come round again: a range may wrap over its end
	want   string   // the range in words, for errors
}

var (
	secondField = field{name: "second", lo: 0, hi: 59, star: 59, hashed: 59, want: "0-59"}
	minuteField = field{name: "minute", lo: 0, hi: 59, star: 59, hashed: 59, want: "0-59"}
	hourField   = field{name: "hour", lo: 0, hi: 23, star: 23, hashed: 23, want: "0-23"}
	// Every month has the days that H stands for.
	domField   = field{name: "day-of-month", lo: 1, hi: 31, star: 31, hashed: 28, want: "1-31, L, L-3, LW or 15W"}
	monthField = field{name: "month", lo: 1, hi: 12, star: 12, hashed: 12, want: "1-12 or JAN-DEC",
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}}
	dowField = field{name: "day-of-week", lo: 0, hi: 7, star: 6, hashed: 6, cycle: 7,
		want:  "0-7 or SUN-SAT, where 0 and 7 are Sunday; FRI#2 is the month's second Friday, FRIL its last",
		names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}}
	yearField = field{name: "year", lo: firstYear, hi: lastYear, star: lastYear, want: "1970-9999"}
)

// A word is a part of an expression and its position, in bytes from 0.
type word struct {
	text string
	at   int
}

// cut splits w at the first sep, as strings.Cut does.
func (w word) cut(sep string) (before, after word, found bool) {
	b, a, found := strings.Cut(w.text, sep)
	return word{b, w.at}, word{a, w.at + len(b) + len(sep)}, found
}

// A span is the values of one item: lo, lo+step, … up to hi. If the range wraps, hi exceeds the field's.
type span struct{ lo, hi, step int }

// errorf says which word of the field is wrong and what is allowed.
func (f *field) errorf(w word, format string, args ...any) error {
	return fmt.Errorf("%s %q at column %d: %s", f.name, w.text, w.at+1, fmt.Sprintf(format, args...))
}

// bits returns the set of a span's values, for a field whose values are less than 64.
func (f *field) bits(s span) (set uint64) {
	for v := s.lo; v <= s.hi; v += s.step {
		at := v
		if f.cycle > 0 {
			at %= f.cycle
		}
		set |= 1 << at
	}
	return set
}

// full returns the set that a star stands for.
func (f *field) full() uint64 { return f.bits(span{f.lo, f.star, 1}) }

// items calls do for each item of a list.
func (f *field) items(list word, do func(item word) error) error {
	for rest, more := list, true; more; {
		var item word
		item, rest, more = rest.cut(",")
		if item.text == "" {
			return f.errorf(item, "empty item of a list: want %s", f.want)
		}
		if err := do(item); err != nil {
			return err
		}
	}
	return nil
}

// parseItem reads "*", "a" or "a-b", each with an optional "/step".
func (f *field) parseItem(item word) (span, error) {
	between, stepWord, stepped := item.cut("/")
	step := 1
	if stepped {
		var err error
		if step, err = f.parseStep(stepWord); err != nil {
			return span{}, err
		}
	}
	lo, hi, err := f.parseSpan(between, stepped)
	return span{lo, hi, step}, err
}

func (f *field) parseStep(w word) (int, error) {
	step, err := number(w.text)
	if err != nil || step < 1 {
		return 0, f.errorf(w, "want a step that is a whole number from 1")
	}
	return step, nil
}

// parseSpan returns the first and last value; if the range wraps, the last exceeds the field's.
func (f *field) parseSpan(between word, open bool) (lo, hi int, err error) {
	if between.text == "*" {
		return f.lo, f.star, nil
	}
	first, last, isRange := between.cut("-")
	if lo, err = f.parseValue(first); err != nil {
		return 0, 0, err
	}
	switch {
	case isRange:
		if hi, err = f.parseValue(last); err != nil {
			return 0, 0, err
		}
	case open: // "5/15" is 5-59/15
		return lo, max(lo, f.star), nil
	default:
		return lo, lo, nil
	}
	if lo <= hi {
		return lo, hi, nil
	}
	if f.cycle == 0 {
		return 0, 0, f.errorf(between, "the range ends before it begins: want %s-%d,%d-%s",
			first.text, f.hi, f.lo, last.text)
	}
	if lo >= f.cycle { // 7-2 begins on the same day as 0-2
		return lo - f.cycle, hi, nil
	}
	return lo, hi + f.cycle, nil
}

func (f *field) parseValue(w word) (int, error) {
	for i, name := range f.names {
		// Unicode folds letters from other alphabets to ours; their bytes are more.
		if len(w.text) == len(name) && strings.EqualFold(w.text, name) {
			return f.lo + i, nil
		}
	}
	v, err := number(w.text)
	if err != nil || v < f.lo || v > f.hi {
		return 0, f.errorf(w, "want %s", f.want)
	}
	return v, nil
}

// number reads a few decimal digits: no sign, no blank, nothing that could overflow.
func number(s string) (int, error) {
	if s == "" || len(s) > 6 || strings.Trim(s, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(s)
}
