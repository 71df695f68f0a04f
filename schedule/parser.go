package schedule

import (
	"fmt"
	"strings"
)

// A parser fills a calendar from the words of an expression.
type parser struct {
	name     string // the job's, for H
	c        *calendar
	extended bool // it met more than lists, ranges, steps and names
}

// fields reads five words, six with the seconds first, or seven with a year last too.
func (p *parser) fields(ws []word) (err error) {
	c := p.c
	if len(ws) > 5 {
		if c.second, _, err = p.set(&secondField, ws[0]); err != nil {
			return err
		}
		ws = ws[1:]
	}
	var minuteStar, hourStar, domStar, dowStar bool
	if c.minute, minuteStar, err = p.set(&minuteField, ws[0]); err != nil {
		return err
	}
	if c.hour, hourStar, err = p.set(&hourField, ws[1]); err != nil {
		return err
	}
	if c.dom, domStar, err = p.set(&domField, ws[2]); err != nil {
		return err
	}
	if c.month, _, err = p.set(&monthField, ws[3]); err != nil {
		return err
	}
	dow, and := p.and(ws[4])
	if c.dow, dowStar, err = p.set(&dowField, dow); err != nil {
		if y, e := number(dow.text); e == nil && y >= firstYear {
			err = fmt.Errorf("%w; a year is the last of seven fields, of which seconds are the first", err)
		}
		return err
	}
	c.elapsed, c.both = minuteStar || hourStar, domStar || dowStar || and
	if len(ws) > 5 {
		c.years, err = parseYears(ws[5])
	}
	return err
}

// and removes the & before the weekdays, which makes both day fields count.
func (p *parser) and(w word) (word, bool) {
	if !strings.HasPrefix(w.text, "&") {
		return w, false
	}
	p.extended = true
	return word{w.text[1:], w.at + 1}, true
}

// set reads a field into the set of its plain values, and stores what is special about days in the calendar. star
// reports whether the field starts with a star, which two of Vixie's rules depend on.
func (p *parser) set(f *field, list word) (set uint64, star bool, err error) {
	if days := f == &domField || f == &dowField; list.text == "?" && days {
		p.extended = true
		return f.full(), true, nil
	}
	err = f.items(list, func(item word) error {
		switch special, err := p.special(f, item); {
		case err != nil:
			return err
		case special:
			p.extended = true
			return nil
		}
		var s span
		var err error
		if item.text[0] == 'H' || item.text[0] == 'h' {
			p.extended = true
			s, err = p.hash(f, item)
		} else {
			s, err = f.parseItem(item)
		}
		if err == nil {
			set |= f.bits(s)
		}
		return err
	})
	return set, strings.HasPrefix(list.text, "*"), err
}

// special reads an item whose days differ between months.
func (p *parser) special(f *field, item word) (bool, error) {
	switch f {
	case &domField:
		return p.fromEnd(item)
	case &dowField:
		return p.nthWeekday(item)
	}
	return false, nil
}

// fromEnd reads L, L-n, LW, L-nW and nW.
func (p *parser) fromEnd(item word) (bool, error) {
	text := strings.ToUpper(item.text)
	number, nearest := strings.CutSuffix(text, "W")
	n, last := strings.CutPrefix(number, "L")
	switch {
	case !last && !nearest:
		return false, nil
	case !last:
		v, err := domField.parseValue(word{number, item.at})
		if err == nil {
			p.c.nearest |= 1 << v
		}
		return true, err
	}
	before := 0
	if n != "" {
		var err error
		if before, err = daysBefore(n); err != nil {
			return true, domField.errorf(item, "want L, or L-1 to L-30 for that many days before the last, with or without a W")
		}
	}
	if nearest {
		p.c.nearestEnd |= 1 << before
	} else {
		p.c.fromEnd |= 1 << before
	}
	return true, nil
}

func daysBefore(text string) (int, error) {
	digits, ok := strings.CutPrefix(text, "-")
	n, err := number(digits)
	if !ok || err != nil || n > 30 {
		return 0, fmt.Errorf("%q is no number of days", text)
	}
	return n, nil
}

// nthWeekday reads n#k and nL.
func (p *parser) nthWeekday(item word) (bool, error) {
	day, nth, found := item.cut("#")
	k := lastOfMonth
	switch last := len(item.text) - 1; {
	case found:
		n, err := number(nth.text)
		if err != nil || n < 1 || n > 5 {
			return true, dowField.errorf(nth, "want 1-5 after #: which one of the month")
		}
		k = n - 1
	case item.text[last] != 'L' && item.text[last] != 'l':
		return false, nil
	case last == 0:
		return true, dowField.errorf(item, "of which weekday the last: want SATL for the month's last Saturday, SAT for each one, or L as the day of the month")
	default:
		day = word{item.text[:last], item.at}
	}
	v, err := dowField.parseValue(day)
	if err == nil {
		p.c.nth |= 1 << (k*7 + v%7)
	}
	return true, err
}

// neverFires says why no date matches.
func (p *parser) neverFires(ws []word) error {
	if len(ws) > 5 {
		ws = ws[1:]
	}
	dom, month, dow := ws[2], ws[3], ws[4]
	plain := *p.c
	plain.dow, plain.nth, plain.both, plain.years = dowField.full(), 0, true, nil
	if _, ever := plain.nextDay(firstDay); !ever {
		return domField.errorf(dom, "month %q has no such day, so it never fires: want a day of that month", month.text)
	}
	dates := fmt.Sprintf("day-of-month %q, month %q, day-of-week %q", dom.text, month.text, dow.text)
	if len(ws) > 5 {
		dates += fmt.Sprintf(" and year %q", ws[5].text)
	}
	return fmt.Errorf("no date matches %s, so it never fires: want fields that have a date in common", dates)
}
