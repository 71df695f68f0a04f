package mutants

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/guardian/proc"
)

// adopt makes this process the parent of what the tests leave behind, a guardian above all: a bug, or a test that is
// killed because it hangs, keeps it from ending by itself.
func adopt(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
}

// below are the processes that descend from this one, by their numbers.
func below(t *testing.T) map[int]bool {
	found, err := proc.Descendants(os.Getpid())
	if err != nil {
		t.Error(err)
	}
	pids := map[int]bool{}
	for _, s := range found {
		pids[s.PID] = true
	}
	return pids
}

// end kills all that descends from this process, but for what did before: so no process of anybody else is ever
// touched.
func end(t *testing.T, before map[int]bool) {
	for left := true; left; {
		left = false
		for pid := range below(t) {
			if before[pid] {
				continue
			}
			left = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(pid, &status, 0, nil) // refused, at once, while it is another's child: it comes to this process
		}
	}
}

func TestWhatABugLeavesIsEnded(t *testing.T) {
	adopt(t)
	mine := exec.Command("sleep", "1000")
	if err := mine.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = mine.Process.Kill(), mine.Wait() }()
	before := below(t)
	out, err := exec.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	left, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	if !below(t)[left] {
		t.Fatal("what the shell left is not seen")
	}
	end(t, before)
	if s, err := proc.Read(left); err == nil && s.Alive() {
		t.Errorf("%d lives on", left)
	}
	if !below(t)[mine.Process.Pid] {
		t.Error("what was there before has ended as well")
	}
}
