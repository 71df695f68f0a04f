//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/room"
	"github.com/dibs-run/dibs/internal/test/testbin"
	"github.com/dibs-run/dibs/internal/test/testdirs"
	"github.com/dibs-run/dibs/internal/test/testsize"
)

// The binaries under test: what people run, and the build that lets a test shift its wall clock.
var dibsBinary, shiftedBinary string

// long says that the full rounds are asked for.
var long = testsize.Long()

// The test binary also plays the commands that dibs runs: see work_test.go.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if play, ok := parts[os.Args[1]]; ok {
			play(os.Args[2:])
			os.Exit(0)
		}
	}
	flag.Parse()
	// Most of these tests wait most of the time.
	_ = flag.Set("test.parallel", "20")
	room.Least = 6
	heedSignals()
	ownStatus = statusOfThis()
	os.Exit(buildAndRun(m))
}

// heedSignals has what the tests start begin with the usual signals, whatever a shell or nohup(1) told this process to
// ignore: dibs, and its commands, ignore what they were told to.
func heedSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "dibs-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // other users run the binaries too
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, binary := range []struct {
		path *string
		tags []string
	}{{&dibsBinary, nil}, {&shiftedBinary, []string{testbin.Shifted}}} {
		if *binary.path, err = testbin.Dibs(dir, binary.tags...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return testdirs.Run(m)
}

// patience is for what has to happen, on a machine that does much else: it ends the waiting of a test that
// fails. It is shorter than the works that only a kill ends. How soon something happens is said where it is
// what a test shows.
const patience = 2 * time.Minute

// eventually polls until ok, or fails the test after the bound with what describe says. It pauses longer after a look
// that costs much, like a process of dibs: many tests poll at once, and must leave time for what they wait for.
func eventually(t *testing.T, bound time.Duration, ok func() bool, describe func() string) {
	t.Helper()
	const shortest, longest = 10 * time.Millisecond, 400 * time.Millisecond
	pause := shortest
	for end := time.Now().Add(bound); ; time.Sleep(pause) {
		began := time.Now()
		if ok() {
			return
		}
		if began.After(end) {
			t.Fatalf("not within %s: %s", bound, describe())
		}
		pause = min(pause*3/2, max(shortest, 20*time.Since(began)), longest)
	}
}

// rounds is how often something is repeated: few times by default.
func rounds(short, full int) int {
	if long {
		return full
	}
	return short
}
