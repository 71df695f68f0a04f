package room

import (
	"os"
	"testing"

	"github.com/dibs-run/dibs/internal/test/uncovered"
)

// A test keeps its place until it ends; one that has parts gives its place to the first of them.
func TestPlaces(t *testing.T) {
	count := func(t *testing.T, what string, want int) {
		t.Helper()
		if n := inside.count(); n != want {
			t.Errorf("%s: %d places are taken, want %d", what, n, want)
		}
	}
	t.Run("whole", func(t *testing.T) {
		For(t)
		For(t)
		count(t, "asked twice", 1)
		t.Run("part", func(t *testing.T) {
			For(t)
			count(t, "a part beside what waits for it", 1)
		})
		count(t, "the part has ended", 0)
	})
	count(t, "all have ended", 0)
}

// The processors' queue has at least this test in it.
func TestRunning(t *testing.T) {
	if _, err := os.Stat("/proc/loadavg"); err != nil {
		uncovered.Skip(t, "how many threads run", "there is no /proc/loadavg")
	}
	if n := running(); n < 1 {
		t.Errorf("%d threads run", n)
	}
}
