//go:build linux

package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/guardian/proc"
)

func TestStatusesPassVerbatim(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		for script, want := range map[string]Exit{
			"exit 0":        {},
			"exit 3":        {Status: 3},
			"exit 75":       {Status: 75},
			"exit 255":      {Status: 255},
			"kill -TERM 0":  {Status: 143, Signal: syscall.SIGTERM},
			"kill -KILL $$": {Status: 137, Signal: syscall.SIGKILL},
		} {
			run := newRun(t)
			p := start(t, Spec{Args: shell(run, script), RunID: run, ungrouped: ungrouped})
			if got := within(t, script, soon, p.Exited()); got != want {
				t.Errorf("%s: %+v, want %+v", script, got, want)
			}
			within(t, script, soon, p.Empty())
		}
	})
}

func TestWhatCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	lost := writeProgram(t, filepath.Join(dir, "lost"), "#!/no/such/interpreter\n", 0o755)
	plain := writeProgram(t, filepath.Join(dir, "plain"), "x", 0o644)
	bothWays(t, func(t *testing.T, ungrouped bool) {
		for _, c := range []struct {
			what   string
			spec   Spec
			status int
		}{
			{"no such name", Spec{Args: []string{"no-such-command-here"}}, 127},
			{"no such path", Spec{Args: []string{dir + "/none"}}, 127},
			{"no such interpreter", Spec{Args: []string{lost}}, 127},
			{"not executable", Spec{Args: []string{plain}}, 126},
			{"not executable, in PATH", Spec{Args: []string{"plain"}, Env: []string{"PATH=" + dir}}, 126},
			{"a directory", Spec{Args: []string{dir}}, 126},
			{"arguments too long", Spec{Args: []string{"echo", strings.Repeat("x", 200<<10)}}, 126},
			{"no working directory", Spec{Args: []string{"true"}, Dir: dir + "/none"}, 125},
			{"nothing", Spec{}, 125},
		} {
			c.spec.RunID, c.spec.ungrouped = newRun(t), ungrouped
			p, err := Start(c.spec)
			var start *StartError
			if !errors.As(err, &start) || start.Status != c.status || p != nil {
				t.Errorf("%s: %v (%+v), want status %d", c.what, err, start, c.status)
			}
		}
	})
}

func TestProgramWithoutGuardianMainIsNotRunAgain(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(os.Args[0], "forget").Output()
	if err != nil || !strings.Contains(string(out), "call command.GuardianMain first") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestScriptWithoutInterpreterRunsInShell(t *testing.T) {
	t.Parallel()
	run, path := newRun(t), writeProgram(t, filepath.Join(t.TempDir(), "script"), "exit $1\n", 0o755)
	p := start(t, Spec{Args: []string{path, "4"}, RunID: run})
	if got := within(t, "exit", soon, p.Exited()); got.Status != 4 {
		t.Errorf("status %d, want 4", got.Status)
	}
}

func TestCommandIsLookedUpAndRunsInItsOwnDirAndEnv(t *testing.T) {
	t.Parallel()
	run, dir := newRun(t), t.TempDir()
	writeProgram(t, filepath.Join(dir, "tool"), "#!/bin/sh\necho $PWD $A $DIBS_RUN_ID $DIBS_RUN_PARENTS\n", 0o755)
	got := printed(t, Spec{Args: []string{"tool"}, Dir: dir, RunID: run,
		Env: []string{"PATH=" + dir, "A=b", EnvRunID + "=outer", EnvRunParents + "=outermost"}})
	if want := dir + " b " + run + " outermost:outer\n"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
}

// printed is what the command prints, to the end of which nobody but its own processes holds it open.
func printed(t *testing.T, s Spec) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.Stdout, s.HoldLocks = w, true // the guardian stays, and must not hold the pipe
	start(t, s)
	w.Close()
	_ = r.SetReadDeadline(time.Now().Add(soon))
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCommandInheritsNothingButStandardFilesAndLocks(t *testing.T) {
	// Not parallel: what other tests start would inherit the leak as well.
	leak, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if fd, err := syscall.Dup(int(leak.Fd())); err != nil { // without close-on-exec
		t.Fatal(err)
	} else {
		defer syscall.Close(fd)
	}
	lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	bothWaysAlone(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		s := Spec{Args: []string{"ls", "-l", "/proc/self/fd"}, RunID: run, Locks: []*os.File{lock}, ungrouped: ungrouped}
		if got, want := inherited(printed(t, s)), []string{"3 -> " + lock.Name()}; !slices.Equal(got, want) {
			t.Errorf("inherited %q, want %q", got, want)
		}
		s.RunID, s.Leftovers = newRun(t), Leave
		if got := inherited(printed(t, s)); len(got) > 0 {
			t.Errorf("with Leave inherited %q", got)
		}
	})
}

var (
	link     = regexp.MustCompile(`(?m)\d+ -> .*$`)
	expected = regexp.MustCompile(`^[012] -> |-> /proc/\d+/fd$`)
)

// inherited reads what ls says of its descriptors: all but the standard ones and its own.
func inherited(ls string) []string {
	return slices.DeleteFunc(link.FindAllString(ls, -1), expected.MatchString)
}

// Signals 32 and 33 are the C library's own; make(1), for one, hands them on ignored.
const librarys = 1<<31 | 1<<32

func TestCommandHasDefaultSignals(t *testing.T) {
	t.Parallel()
	run := newRun(t)
	got := printed(t, Spec{Args: []string{"grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"}, RunID: run})
	var blocked, ignored uint64
	if _, err := fmt.Sscanf(got, "SigBlk:\t%x\nSigIgn:\t%x\n", &blocked, &ignored); err != nil {
		t.Fatalf("%v: %q", err, got)
	}
	if blocked&^librarys != 0 || ignored&^librarys != 0 {
		t.Errorf("signals of the command:\n%s", got)
	}
}

func TestSignalsReachTheGroup(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		r, w, _ := os.Pipe()
		defer r.Close()
		p := start(t, Spec{Args: shell(run, "trap 'exit 7' USR1; echo up; while :; do sleep 0.01; done"), RunID: run, Stdout: w, Stderr: w, ungrouped: ungrouped})
		w.Close()
		if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		if got := within(t, "exit", soon, p.Exited()); got.Status != 7 {
			t.Errorf("%+v, want status 7", got)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	// Not parallel: it looks for children of this process.
	bothWaysAlone(t, func(t *testing.T, ungrouped bool) {
		var wg sync.WaitGroup
		for range 50 {
			run := newRun(t)
			wg.Go(func() {
				p, err := Start(Spec{Args: shell(run, "exit 5"), RunID: run, Leftovers: Kill, ungrouped: ungrouped})
				if err != nil {
					t.Error(err)
					return
				}
				if x := <-p.Exited(); x.Status != 5 {
					t.Errorf("%+v", x)
				}
				<-p.Empty()
				<-p.Reaped()
			})
		}
		wg.Wait()
		all, _ := proc.All()
		for _, s := range all {
			if s.Parent == os.Getpid() {
				t.Errorf("a child is left: %d, state %c", s.PID, s.State)
			}
		}
	})
}

func BenchmarkTrue(b *testing.B) {
	var begun, exited, empty, reaped time.Duration
	for i := 0; b.Loop(); i++ {
		t := time.Now()
		p, err := Start(Spec{Args: []string{"/bin/true"}, RunID: "bench" + time.Now().Format("150405.000000")})
		if err != nil {
			b.Fatal(err)
		}
		begun += time.Since(t)
		<-p.Exited()
		exited += time.Since(t)
		<-p.Empty()
		empty += time.Since(t)
		<-p.Reaped()
		reaped += time.Since(t)
	}
	n := float64(b.N) * 1e6
	b.ReportMetric(float64(begun)/n, "ms-to-start")
	b.ReportMetric(float64(exited)/n, "ms-to-exited")
	b.ReportMetric(float64(empty)/n, "ms-to-empty")
	b.ReportMetric(float64(reaped)/n, "ms-to-reaped")
}
