package schedule

import "math/bits"

// The years that an expression can name.
const (
	firstYear = 1970
	lastYear  = 9999
)

// years is the set of an expression's years, bit 0 for firstYear. Nil is every year, including those that an
// expression cannot name.
type years [(lastYear-firstYear)/64 + 1]uint64

func parseYears(w word) (*years, error) {
	if w.text == "*" {
		return nil, nil
	}
	set := &years{}
	err := yearField.items(w, func(item word) error {
		s, err := yearField.parseItem(item)
		if err != nil {
			return err
		}
		for y := s.lo; y <= s.hi; y += s.step {
			set[(y-firstYear)/64] |= 1 << ((y - firstYear) % 64)
		}
		return nil
	})
	return set, err
}

// next returns the first year of the set at or after y.
func (s *years) next(y int) (int, bool) {
	at := max(y-firstYear, 0)
	for i := at / 64; i < len(s); i++ {
		if rest := from(s[i], at-i*64); rest != 0 {
			return firstYear + i*64 + lowest(rest), true
		}
		at = (i + 1) * 64
	}
	return 0, false
}

// prev returns the last year of the set at or before y.
func (s *years) prev(y int) (int, bool) {
	at := min(y, lastYear) - firstYear
	for i := at / 64; at >= 0 && i >= 0; i-- {
		if rest := upTo(s[i], at-i*64); rest != 0 {
			return firstYear + i*64 + highest(rest), true
		}
		at = i*64 - 1
	}
	return 0, false
}

// values lists the years in order.
func (s *years) values() (all []int) {
	for i, set := range s {
		for ; set != 0; set &= set - 1 {
			all = append(all, firstYear+i*64+bits.TrailingZeros64(set))
		}
	}
	return all
}
