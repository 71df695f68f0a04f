package task_test

import (
	"math"
	"testing"
	"time"

	"github.com/dibs-run/dibs/task"
)

// Without MaxWait, a debounce postpones for ten delays at most, and never for so long that the sum overflows.
// Holds: Q3.
func TestHowLongADebounceWaitsAtMost(t *testing.T) {
	const tenth = math.MaxInt64 / 10
	for _, c := range []struct{ maxWait, delay, want time.Duration }{
		{0, 0, 0}, {0, 1, 10}, {0, time.Second, 10 * time.Second}, {0, tenth, 10 * tenth}, {0, tenth + 1, math.MaxInt64},
		{0, math.MaxInt64, math.MaxInt64}, {1, time.Second, 1}, {time.Hour, time.Second, time.Hour}, {-1, time.Second, 10 * time.Second},
	} {
		if got := (&task.Unique{MaxWait: c.maxWait}).Longest(c.delay); got != c.want {
			t.Errorf("max wait %s, delay %s: %s, want %s", c.maxWait, c.delay, got, c.want)
		}
	}
}
