package schedule

import (
	"fmt"
	"time"
)

// Options are what an expression is read with. The zero value is UTC, Vixie's daylight saving, and
// no name.
type Options struct {
	// Zone's wall clock is read; nil is UTC. A CRON_TZ= prefix goes before it.
	Zone *time.Location
	// Name is the job's, which H stands for; an expression with H is refused without one.
	Name string
	// DST is what becomes of fixed times when clocks change; empty is Vixie.
	DST DST
}

// DST is what becomes of a fixed time that the wall clock leaves out or shows twice. Schedules
// whose minute or hour starts with a star follow elapsed time under all of them.
type DST string

// The meanings of daylight saving.
const (
	// Vixie: exactly once. A time that is left out is due at the first instant after the gap, of
	// a time that comes twice the first one counts.
	Vixie DST = "vixie"
	// Skip: at most once. A time that is left out is not due that day.
	Skip DST = "skip"
	// Repeat: whatever the clock shows. A time that is left out is not due, one that comes twice
	// is due twice.
	Repeat DST = "repeat"
)

// ParseDST reads one of the words vixie, skip and repeat; empty is Vixie.
func ParseDST(s string) (DST, error) {
	switch d := DST(s); d {
	case "":
		return Vixie, nil
	case Vixie, Skip, Repeat:
		return d, nil
	}
	return "", fmt.Errorf("dst %q: want vixie, skip or repeat", s)
}

// Parse reads an expression with default options in a zone; see Options.Parse.
func Parse(expr string, zone *time.Location) (*Schedule, error) {
	return Options{Zone: zone}.Parse(expr)
}

// Parse reads an expression. One that can never fire is refused. Errors name the field, the
// value, its column from 1, and what would be accepted. It takes bounded time and memory whatever
// the expression; one of more than 1000 bytes is refused.
func (o Options) Parse(expr string) (*Schedule, error) {
	if len(expr) > maxLength {
		return nil, fmt.Errorf("schedule %.40q…: %d bytes are too many: want at most %d", expr, len(expr), maxLength)
	}
	s, err := o.parse(words(expr))
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", expr, err)
	}
	return s, nil
}
