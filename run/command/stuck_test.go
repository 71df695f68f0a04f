//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/proc"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
)

// immortal begins a run whose work survives SIGKILL, until free is called: the first process of a pid namespace, which
// the kernel does not let go before somebody has reaped the last one. That is traced by this process, which does not.
func immortal(t *testing.T, ungrouped bool) (p *Process, pid int, free func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not covered: only root can make a pid namespace")
	}
	id := newRun(t)
	p, err := Start(Spec{Args: []string{"unshare", "--pid", "--fork", "sh", "-c", "sleep 300 & wait", id}, RunID: id, Key: testKey, ungrouped: ungrouped})
	if err != nil {
		t.Skipf("not covered: %v", err)
	}
	var first, last proc.Stat
	for end := time.Now().Add(soon); last.PID == 0; time.Sleep(5 * time.Millisecond) {
		for _, s := range p.tree().Living() {
			switch {
			case s.Comm == "sleep":
				last = s
			case s.Comm == "sh":
				first = s
			}
		}
		if x := len(p.Exited()); x > 0 || time.Now().After(end) {
			p.Kill()
			<-p.Reaped()
			t.Skip("not covered: no pid namespace can be made here")
		}
	}
	traced, reap, reaped := make(chan error), make(chan bool), make(chan struct{})
	go func() {
		runtime.LockOSThread() // which is the tracer, and ends with this
		traced <- unix.PtraceSeize(last.PID)
		<-reap
		_, _ = unix.Wait4(last.PID, nil, unix.WALL, nil)
		close(reaped)
	}()
	err = <-traced
	free = func() { close(reap); <-reaped; <-p.Reaped() }
	if err != nil {
		p.Kill()
		free()
		t.Skipf("not covered: %v", err)
	}
	return p, first.PID, free
}

// Work that survives SIGKILL is seen by the next run of its key, which says so and waits until it is gone. Runs of
// other keys do not, and a run that may not wait for long ends as it is told.
// Holds: promise 3, L6.
func TestTheNextRunWaitsForWorkThatSurvives(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		p, pid, free := immortal(t, ungrouped)
		p.Kill()
		seen := func(key lease.Key, run string) bool { return slices.Contains(stuck(key, run), pid) }
		await := func(want bool) {
			t.Helper()
			for end := time.Now().Add(soon); seen(testKey, "next") != want; time.Sleep(stuckPause) {
				if time.Now().After(end) {
					t.Fatalf("%d is seen: %v; there are %v", pid, !want, living(p.run))
				}
			}
		}
		await(true)
		if seen("other", "next") || seen(testKey, p.run) {
			t.Error("another key, or the run itself, sees it too")
		}
		if p.isEmpty() {
			t.Error("the run is said to be over")
		}
		free()
		await(false)
	})
}

// pretends starts a process that looks as a guardian does whose kills are in vain, of a run of the key, with a child.
func pretends(t *testing.T, key lease.Key) (end func()) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), guardian.Stuck)
	if err := os.Symlink(sh, name); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(name, "-c", "sleep 300 & wait; exit")
	c.Env = []string{EnvRunProofs + "=" + bound("outer", "outer") + ":" + bound(key, "earlier")}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	})
	t.Cleanup(end)
	return end
}

// An attempt waits for what survives of an earlier run, says so once, and then begins; told to end before that, it
// starts nothing. A target that does not ask for it does not wait.
// Holds: L6.
func TestAnAttemptWaitsForWhatSurvives(t *testing.T) {
	t.Parallel()
	key := lease.Key("app/j")
	end := pretends(t, key)
	for begun := time.Now(); len(stuck(key, "next")) == 0; time.Sleep(stuckPause) {
		if time.Since(begun) > soon {
			t.Fatal("the pretender is not seen")
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	told := make(chan []int, 10)
	results := make(chan run.Result, 1)
	attempt := func(ctx context.Context, target Target) {
		id := newRun(t)
		c := call(t, id, memory.New(memory.Options{}), io.Discard)
		target.Args = shell(id, "touch "+file)
		go func() {
			r := target.Attempt(ctx, c)
			if r.Recorded != nil {
				r.Recorded()
			}
			results <- r
		}()
	}
	waits := Target{OnStuck: func(pids []int) { told <- pids }}

	ctx, cancel := context.WithCancelCause(t.Context())
	attempt(ctx, waits)
	if pids := within(t, "the word", soon, told); len(pids) != 1 {
		t.Errorf("it is told of %v, want the child", pids)
	}
	cancel(run.ErrTimedOut)
	if r := within(t, "the end", soon, results); r.Outcome == run.Succeeded || !r.Stopped || !strings.Contains(fmt.Sprint(r.Err), "survive SIGKILL") {
		t.Errorf("timed out: %+v", r)
	}
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	waits.Signals = signals
	attempt(t.Context(), waits)
	if r := within(t, "the end", soon, results); r.Outcome != run.Canceled || r.Status != 143 {
		t.Errorf("a signal: %+v", r)
	}
	waits.Signals = nil
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Error("the command was executed beside what survived")
	}
	within(t, "the word", soon, told)
	attempt(t.Context(), waits)
	within(t, "the word", soon, told)
	end()
	if r := within(t, "the end", soon, results); r.Outcome != run.Succeeded || len(told) > 0 {
		t.Errorf("once it is gone: %+v, told %d times more", r, len(told))
	}
}
