package schedule

import (
	"fmt"
	"strings"
	"time"
)

// A Window is a part of the week by the wall clock, such as MON-FRI 09:00-17:00: the days on which it begins, and
// its first and last time. It is a value, and comparable.
type Window struct {
	days     uint64 // bit 0 is Sunday
	from, to int    // minutes of the day; to may lie on the next day, and is not part of it
}

const day = 24 * 60

// ParseWindow reads HH:MM-HH:MM, after weekdays as in the last field of an expression, unless it is every day. A
// window that ends no later than it begins ends on the next day. 24:00 is the end of a day.
func ParseWindow(text string) (Window, error) {
	wrong := func(what string) (Window, error) {
		return Window{}, fmt.Errorf("window %q: %s: want HH:MM-HH:MM, or weekdays and that, as in MON-FRI 09:00-17:00", text, what)
	}
	w := Window{days: 1<<7 - 1}
	parts := strings.Fields(text)
	if len(parts) == 2 {
		w.days = 0
		err := dowField.items(word{parts[0], 0}, func(item word) error {
			s, err := dowField.parseItem(item)
			w.days |= dowField.bits(s)
			return err
		})
		if err != nil {
			return wrong(err.Error())
		}
		parts = parts[1:]
	}
	if len(parts) != 1 {
		return wrong("it has another form")
	}
	from, to, ok := strings.Cut(parts[0], "-")
	if !ok {
		return wrong("it has no end")
	}
	if w.from, ok = minuteOf(from); !ok || w.from == day {
		return wrong("its beginning is no time of the day")
	}
	if w.to, ok = minuteOf(to); !ok {
		return wrong("its end is no time of the day")
	}
	if w.to == w.from {
		return wrong("it is empty")
	}
	if w.to < w.from {
		w.to += day
	}
	return w, nil
}

// minuteOf reads HH:MM.
func minuteOf(s string) (int, bool) {
	if len(s) != 5 || s[2] != ':' {
		return 0, false
	}
	h, err := number(s[:2])
	m, merr := number(s[3:])
	if err != nil || merr != nil || h > 24 || m > 59 || h == 24 && m > 0 {
		return 0, false
	}
	return h*60 + m, true
}

// Contains reports whether an instant is in the window by the wall clock of its own location: convert it first. An
// hour that the clock shows twice counts twice.
func (w Window) Contains(t time.Time) bool {
	minute, weekday := t.Hour()*60+t.Minute(), int(t.Weekday())
	return w.begins(weekday) && w.from <= minute && minute < w.to ||
		w.begins((weekday+6)%7) && minute+day < w.to
}

func (w Window) begins(weekday int) bool { return w.days>>weekday&1 == 1 }
