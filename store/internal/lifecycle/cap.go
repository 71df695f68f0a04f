package lifecycle

import (
	"time"

	"github.com/dibs-run/dibs/queue/driver"
)

// A Cap is how many tasks may run under a limit: as many as its tasks declared last, or as an operator said. An
// operator's word stands above declarations until it is taken back (rule Q5).
type Cap struct {
	// Max is what holds.
	Max int
	// Declared is what tasks declared last, while an operator's word stands; else 0.
	Declared int
	// By and Since are of the operator's word.
	By    string
	Since time.Time
}

// Stands says whether an operator's word does.
func (c *Cap) Stands() bool { return c.Declared > 0 }

// Hears takes in what a task declares.
func (c *Cap) Hears(slots int) {
	if c.Stands() {
		c.Declared = slots
	} else {
		c.Max = slots
	}
}

// Says takes in an operator's word, or its end where slots is 0. It reports whether that changes anything.
func (c *Cap) Says(slots int, by string, now time.Time) bool {
	switch {
	case slots > 0:
		if c.Stands() && c.Max == slots {
			return false
		}
		if !c.Stands() {
			c.Declared = c.Max
		}
		c.Max, c.By, c.Since = slots, by, micro(now)
	case !c.Stands():
		return false
	default:
		*c = Cap{Max: c.Declared}
	}
	return true
}

// SaidEvent is the kind and the words of the event for an operator's word on a limit. c has heard it already.
func SaidEvent(key string, was int, c *Cap, by string) (kind, reason string) {
	if c.Stands() {
		return driver.LimitEvent(key, was, c.Max, by)
	}
	return driver.BackEvent(key, was, c.Max, by)
}
