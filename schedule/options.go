package schedule

import (
	"fmt"
	"time"
)

// Options configure how an expression is read. The zero value is UTC, Vixie's daylight saving, and no name.
type Options struct {
	// Zone is the time zone in which the expression is read; nil is UTC. A CRON_TZ= prefix overrides it.
	Zone *time.Location
	// Name is the job's name, which chooses the values of H. Without a name, an expression with H is refused.
	Name string
	// DST decides what happens to fixed times when the zone's clocks change; empty is Vixie.
	DST DST
}

// DST decides what happens to a fixed time that the wall clock skips or shows twice. A schedule whose minute or hour
// starts with a star follows elapsed time with each of them.
type DST string

// The values of DST.
const (
	// Vixie: exactly once. A skipped time is due at the first instant after the gap. If a time comes twice, the
	// first one counts.
	Vixie DST = "vixie"
	// Skip: at most once. A skipped time is not due that day.
	Skip DST = "skip"
	// Repeat: as often as the clock shows it. A skipped time is not due; a time that comes twice is due twice.
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

// Parse reads an expression. It refuses an expression that can never fire, and one of more than 1000 bytes. Errors
// name the field, the value, its column from 1, and what is allowed. Parse takes bounded time and memory whatever
// the expression.
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
