package room

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

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

// On a busy machine Least tests run beside each other. The others wait until one of these ends, the machine is quiet,
// or their patience is over.
func TestABusyMachine(t *testing.T) {
	real := running
	defer func() { running = real }()
	for name, c := range map[string]struct {
		quiet, ends, want time.Duration // when the machine is quiet, and one of the tests ends; how long the next one waits
	}{
		"one ends":             {time.Hour, 10 * time.Second, 10 * time.Second},
		"the machine is quiet": {20 * time.Second, time.Hour, 20 * time.Second},
		"patience is over":     {time.Hour, time.Hour, patience},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			running = func() int {
				if time.Since(began) > c.quiet {
					return 0
				}
				return 1000
			}
			enters := func(tb *fake) time.Duration {
				For(tb)
				return time.Since(began)
			}
			first := &fake{TB: t, name: name + " first"}
			for i := range Least {
				tb := first
				if i > 0 {
					tb = &fake{TB: t, name: fmt.Sprint(name, i)}
				}
				if after := enters(tb); after != 0 {
					t.Errorf("%s: test %d waited for %s", name, i, after)
				}
			}
			time.AfterFunc(c.ends, func() { first.end() })
			if after := enters(&fake{TB: t, name: name + " last"}); after < c.want || after > c.want+time.Second {
				t.Errorf("%s: one more waited for %s, want %s", name, after, c.want)
			}
		})
	}
}

// fake is a test of another name, which ends when it is told.
type fake struct {
	testing.TB
	name string
	end  func()
}

func (f *fake) Name() string { return f.name }

func (f *fake) Cleanup(do func()) {
	f.end = do
	f.TB.Cleanup(do)
}
