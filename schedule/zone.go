package schedule

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

var zones sync.Map // name → *time.Location: those that were found, which a database bounds

// LoadZone finds a zone by its IANA name in the host's time zone database or the embedded one. It refuses names that
// mean something else on each host ("Local", "").
func LoadZone(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	const want = "want an IANA name such as Europe/Berlin or UTC"
	if name == "" || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("zone %q is no place: %s", name, want)
	}
	z, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %q is unknown: %s", name, want)
	}
	zones.Store(name, z)
	return z, nil
}

const (
	alpha = math.MinInt64 / 2 // before and after all time, with room for an offset
	omega = math.MaxInt64 / 2
	// maxOffset is more than any zone's distance from UTC, in seconds.
	maxOffset = 48 * 60 * 60
)

// A segment is a stretch of time in which a zone's offset is constant.
type segment struct {
	start, end int64 // Unix seconds, end exclusive
	offset     int64 // wall-clock reading = Unix seconds + offset
	reached    int64 // the wall clock has shown, or jumped over, all readings before this one
}

// segmentAt finds the segment of an instant. A segment may end early, at no transition: the next
// one then has the same offset.
func segmentAt(zone *time.Location, unix int64) segment {
	g := bounds(zone, unix)
	// The start of a year that package time reports where a rule goes on from the last listed
	// transition can lie before that transition. Ends are exact, so find it from there.
	for at := g.start; at > alpha; {
		b := bounds(zone, at)
		if b.end > unix {
			g.start = at
			break
		}
		at = b.end
	}
	g.reached = alpha
	for at := g.start; at > alpha && at > g.start-maxOffset; {
		before := bounds(zone, at-1)
		g.reached = max(g.reached, at+before.offset)
		at = min(before.start, at-1)
	}
	return g
}

// bounds returns what package time knows about a zone at an instant, with ends that are never too late and always
// after the instant.
func bounds(zone *time.Location, unix int64) segment {
	t := time.Unix(unix, 0).In(zone)
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	g := segment{start: alpha, end: omega, offset: int64(offset)}
	if !start.IsZero() {
		g.start = min(start.Unix(), unix)
	}
	if !end.IsZero() {
		g.end = end.Unix()
	}
	if g.end <= unix { // package time gives every year 365 days; its rules never change on the last
		day := divideDown(unix, secondsPerDay)
		g.end = (day + 1) * secondsPerDay
	}
	return g
}
