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
	names  []string // of lo, lo+1, …
	cycle  int      // of values that come round again: a range may wrap over its end
	want   string   // the range in words, for errors
}

var (
	minuteField = field{name: "minute", lo: 0, hi: 59, star: 59, want: "0-59"}
	hourField   = field{name: "hour", lo: 0, hi: 23, star: 23, want: "0-23"}
	domField    = field{name: "day-of-month", lo: 1, hi: 31, star: 31, want: "1-31"}
	monthField  = field{name: "month", lo: 1, hi: 12, star: 12, want: "1-12 or JAN-DEC",
		names: []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}}
	dowField = field{name: "day-of-week", lo: 0, hi: 7, star: 6, cycle: 7, want: "0-7 or SUN-SAT, where 0 and 7 are Sunday",
		names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}}
)

// A set is a parsed field: bit v is set if the field matches v.
type set struct {
	bits uint64
	star bool // the field starts with a star, which two of Vixie's rules turn on
}

// A word is a part of an expression and where it stands, in bytes from 0.
type word struct {
	text string
	at   int
}

// cut splits w at the first sep, as strings.Cut does.
func (w word) cut(sep string) (before, after word, found bool) {
	b, a, found := strings.Cut(w.text, sep)
	return word{b, w.at}, word{a, w.at + len(b) + len(sep)}, found
}

// errorf says which word of the field is wrong and what would be right.
func (f *field) errorf(w word, format string, args ...any) error {
	return fmt.Errorf("%s %q at column %d: %s", f.name, w.text, w.at+1, fmt.Sprintf(format, args...))
}

// parse reads a list of items: "*", "a", "a-b", each with an optional "/step".
func (f *field) parse(w word) (set, error) {
	s := set{star: strings.HasPrefix(w.text, "*")}
	for rest, more := w, true; more; {
		var item word
		item, rest, more = rest.cut(",")
		bits, err := f.parseItem(item)
		if err != nil {
			return set{}, err
		}
		s.bits |= bits
	}
	return s, nil
}

func (f *field) parseItem(item word) (uint64, error) {
	if item.text == "" {
		return 0, f.errorf(item, "empty item of a list: want %s", f.want)
	}
	span, stepWord, stepped := item.cut("/")
	step := 1
	if stepped {
		var err error
		if step, err = number(stepWord.text); err != nil || step < 1 {
			return 0, f.errorf(stepWord, "want a step that is a whole number from 1")
		}
	}
	lo, hi, err := f.parseSpan(span, stepped)
	if err != nil {
		return 0, err
	}
	var bits uint64
	for v := lo; v <= hi; v += step {
		at := v
		if f.cycle > 0 {
			at %= f.cycle
		}
		bits |= 1 << at
	}
	return bits, nil
}

// parseSpan answers the first and last value; of a wrapping range the last exceeds the field's.
func (f *field) parseSpan(span word, open bool) (lo, hi int, err error) {
	if span.text == "*" {
		return f.lo, f.star, nil
	}
	first, last, isRange := span.cut("-")
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
		return 0, 0, f.errorf(span, "the range ends before it begins: want %s-%d,%d-%s",
			first.text, f.hi, f.lo, last.text)
	}
	if lo >= f.cycle { // 7-2 begins on the same day as 0-2
		return lo - f.cycle, hi, nil
	}
	return lo, hi + f.cycle, nil
}

func (f *field) parseValue(w word) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(w.text, name) {
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
