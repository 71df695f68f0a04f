// Package clock is the seam through which time reaches dibs. Two clocks matter: the wall
// clock, which people read and which may step, and the boot clock, which only moves forward
// and, unlike the one behind Go's timers, keeps moving while the machine is suspended
// (golang/go#24595). Leases are measured on the boot clock.
package clock

import "time"

// A Clock tells both times. Implementations are safe for concurrent use.
type Clock interface {
	// Wall is the time of day.
	Wall() time.Time
	// Boot is the time since some fixed instant of this boot, suspend included.
	Boot() time.Duration
}

// System is the machine's own clock.
var System Clock = system{}

// Virtual is a clock for tests in a testing/synctest bubble: both clocks follow the bubble's
// time. WallOffset shifts the wall clock, as a badly set server's would be.
type Virtual struct {
	Start      time.Time
	WallOffset time.Duration
}

// Wall is the bubble's time plus the offset.
func (v Virtual) Wall() time.Time { return time.Now().Add(v.WallOffset) }

// Boot is the bubble's time since Start.
func (v Virtual) Boot() time.Duration { return time.Since(v.Start) }
