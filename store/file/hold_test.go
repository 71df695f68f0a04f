//go:build linux

package file

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A contender that tries a lock has it for a moment. A hold that takes its locks again is not lost by that, and gives
// up where somebody keeps the lock.
func TestAProbeIsNoLoss(t *testing.T) {
	for _, c := range []struct {
		after int // sleeps until the other lets go
		want  bool
	}{{0, true}, {1, true}, {probes, true}, {probes + 1, false}} {
		path := filepath.Join(t.TempDir(), "k")
		mine, other := descriptor(t, path), descriptor(t, path)
		if err := unix.Flock(other, unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		slept := 0
		letGo := func() {
			if slept == c.after {
				unlock(other)
			}
		}
		letGo()
		ok, err := retake(mine, func(time.Duration) { slept++; letGo() })
		if ok != c.want || err != nil || slept > probes {
			t.Errorf("the other lets go after %d looks: %t, %v, after %d", c.after, ok, err, slept)
		}
	}
}

func descriptor(t *testing.T, path string) int {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}
