//go:build !linux

package clock

import "time"

type system struct{}

var started = time.Now()

func (system) Wall() time.Time { return time.Now().Add(testWallOffset) }

// Boot is Go's monotonic clock: elsewhere than on Linux it may stop during suspend.
func (system) Boot() time.Duration { return time.Since(started) }
