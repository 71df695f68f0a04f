//go:build linux

package command

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The output of a brief command costs no memory: its end is kept.
// Holds: promise 14.
func TestABriefKeepsTheEndOfWhatItPrints(t *testing.T) {
	// Not parallel: it measures what this whole process allocates.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	printed, err := Brief{Args: []string{"/bin/sh", "-c", `head -c 50000000 /dev/zero | tr '\0' x; echo the end; exit 3`}, Timeout: time.Minute}.Run(t.Context())
	runtime.ReadMemStats(&after)
	if err == nil || err.Error() != "exit status 3" || len(printed) > maxPrinted || !strings.HasSuffix(printed, "xxx"+"the end") {
		t.Errorf("%d bytes, %.80q: %v", len(printed), printed, err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 20<<20 {
		t.Errorf("it took %d MB", got>>20)
	}
}

// At its timeout, and when its context ends, it is killed with all that it started, also in other sessions.
// Holds: promise 14.
func TestABriefIsKilledWithAllThatItStarted(t *testing.T) {
	bothWaysAlone(t, func(t *testing.T, ungrouped bool) {
		if ungrouped {
			t.Setenv("DIBS_CGROUP", "off") // a Brief has no choice of its own
		}
		id := newRun(t)
		_, err := Brief{Args: shell(id, escapee(id)+"trap '' TERM; sleep 300"), Timeout: 500 * time.Millisecond}.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "it took longer than 500ms, and was killed") {
			t.Error(err)
		}
		if left := awaitGone(id, soon); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// It runs as whom it is told to, and finds that user's home.
func TestABriefRunsAsWhomItIsToldTo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not covered: only root can run a command as another user")
	}
	t.Parallel()
	nobody, err := LookupUser("nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	umask := 0o27
	printed, err := Brief{Args: []string{"/bin/sh", "-c", "id -u; umask; pwd; echo $HOME $A $B; cat"}, Dir: "/", User: nobody, Umask: &umask,
		Env: []string{"PATH=" + os.Getenv("PATH"), "A=1", "B=1"}, ExtraEnv: []string{"B=2"}, Input: []byte("said"), Timeout: time.Minute}.Run(t.Context())
	if want := "65534\n0027\n/\n" + nobody.Home + " 1 2\nsaid"; printed != want || err != nil {
		t.Errorf("%q, want %q: %v", printed, want, err)
	}
}
