//go:build dibstest

package clock

import (
	"os"
	"time"
)

// testWallOffset shifts the wall clock of a test build (-tags dibstest), and of no other.
var testWallOffset = func() time.Duration {
	v := os.Getenv("DIBS_TEST_WALL_OFFSET")
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		panic("DIBS_TEST_WALL_OFFSET: " + err.Error())
	}
	return d
}()
