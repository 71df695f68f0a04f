package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// hash reads H, H(a-b), H/n and H(a-b)/n, as in Jenkins: the job's name chooses the value or, with a step, the first
// value.
func (p *parser) hash(f *field, item word) (span, error) {
	if f.hashed == 0 {
		return span{}, f.errorf(item, "want %s", f.want)
	}
	between, stepWord, stepped := item.cut("/")
	lo, hi, err := f.hashRange(between)
	if err != nil {
		return span{}, err
	}
	if p.name == "" {
		return span{}, f.errorf(item, "H depends on the name of a job, and there is none here: want the job's name as well, or a number")
	}
	if !stepped {
		v := lo + spread(p.name, f.name, hi-lo+1)
		return span{v, v, 1}, nil
	}
	step, err := f.parseStep(stepWord)
	if err != nil {
		return span{}, err
	}
	if step < 2 || step > hi-lo+1 {
		return span{}, f.errorf(stepWord, "want a step after H that is 2 or more, and no more than the %d values it chooses from", hi-lo+1)
	}
	return span{lo + spread(p.name, f.name, step), hi, step}, nil
}

func (f *field) hashRange(w word) (lo, hi int, err error) {
	inner := w.text[1:]
	if inner == "" {
		return f.lo, f.hashed, nil
	}
	within, open := strings.CutPrefix(inner, "(")
	within, closed := strings.CutSuffix(within, ")")
	first, last, isRange := word{within, w.at + 2}.cut("-")
	if !open || !closed || !isRange {
		return 0, 0, f.errorf(w, "want H, H(a-b), H/n or H(a-b)/n")
	}
	if lo, err = f.parseValue(first); err != nil {
		return 0, 0, err
	}
	if hi, err = f.parseValue(last); err != nil {
		return 0, 0, err
	}
	if lo > hi {
		return 0, 0, f.errorf(w, "the range ends before it begins: want H(%s-%s)", last.text, first.text)
	}
	return lo, hi, nil
}

// spread chooses one of n values for a job in a field, the same one everywhere and for ever: the first 8 bytes of
// SHA-256 over the name, a zero byte and the field's name, as a number, modulo n.
func spread(name, field string, n int) int {
	sum := sha256.Sum256([]byte(name + "\x00" + field))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}
