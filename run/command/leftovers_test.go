//go:build linux

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/guardian"
)

// Rule L7: the main process's exit fixes the outcome; the lease lasts until its group is empty.

func TestLeftoversWait(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run, lock, end := newRun(t), openLock(t), filepath.Join(t.TempDir(), "end")
		if err := syscall.Mkfifo(end, 0o600); err != nil {
			t.Fatal(err)
		}
		p := start(t, Spec{Args: shell(run, "cat "+end+" & exit 3"), RunID: run, Locks: []*os.File{lock}, ungrouped: ungrouped})
		release(lock)
		if x := within(t, "exit", soon, p.Exited()); x.Status != 3 {
			t.Errorf("%+v, want status 3", x)
		}
		if pids := p.Leftovers(); len(pids) != 1 {
			t.Fatalf("leftovers %v, want the one that waits for its end", pids)
		}
		if !locked(t, lock.Name()) {
			t.Error("the lock is free while something is left")
		}
		if err := os.WriteFile(end, nil, 0); err != nil {
			t.Error(err)
		}
		within(t, "empty", soon, p.Empty())
		if pids := p.Leftovers(); len(pids) != 0 {
			t.Errorf("leftovers %v of nothing", pids)
		}
		if locked(t, lock.Name()) {
			t.Error("the lock is held though nothing is left")
		}
	})
}

func TestLeftoversKill(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		ready := filepath.Join(t.TempDir(), "ready")
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		script := "(trap '' TERM; : >" + ready + "; sleep 300) & " + escapee(run) + "read x; exit 3"
		p := start(t, Spec{Args: shell(run, script), Stdin: r, RunID: run, Leftovers: Kill, LeftoverGrace: 300 * time.Millisecond, ungrouped: ungrouped})
		awaitFile(t, ready)
		began := time.Now() // the command ends after this
		w.Close()
		if x := within(t, "exit", soon, p.Exited()); x.Status != 3 {
			t.Errorf("%+v, want status 3", x)
		}
		within(t, "empty", soon, p.Empty())
		if at := time.Since(began); at < 300*time.Millisecond {
			t.Errorf("the deaf one was killed after %s, before its 300 ms", at)
		}
	})
}

// A guardian that gets no processor for a while is late with the leftovers, and is not killed for that: with it the
// lock would go, and the outcome of a run that had succeeded. No lease is about to end here.
func TestALateGuardianKeepsTheLock(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run, lock, began := newRun(t), openLock(t), time.Now()
		p := start(t, Spec{Args: shell(run, "(trap '' TERM; sleep 300) & exit 0"), RunID: run, Locks: []*os.File{lock}, HoldLocks: true,
			Leftovers: Kill, LeftoverGrace: 200 * time.Millisecond, Deadline: in(time.Hour, 2*time.Hour), ungrouped: ungrouped})
		release(lock)
		if x := within(t, "exit", soon, p.Exited()); x.Status != 0 || x.Err != nil {
			t.Errorf("%+v", x)
		}
		for late := time.Now().Add(1500 * time.Millisecond); time.Now().Before(late); time.Sleep(time.Millisecond) {
			p.guardian.signal(syscall.SIGSTOP)
		}
		p.guardian.signal(syscall.SIGCONT)
		within(t, "empty", soon, p.Empty())
		if free := !locked(t, lock.Name()); free && time.Since(began) > guardian.Unhurried {
			t.Skip("the machine is slow: the guardian was late for longer than it may be")
		} else if free {
			t.Error("the lock is free before its release")
		}
		p.Release()
		within(t, "reaped", soon, p.Reaped())
	})
}

func TestLeftoversLeave(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run, lock := newRun(t), openLock(t)
		pidFile := filepath.Join(t.TempDir(), "pid")
		p := start(t, Spec{Args: shell(run, "sleep 300 & echo $! >"+pidFile+"; exit 3"), RunID: run, Leftovers: Leave, Locks: []*os.File{lock}, ungrouped: ungrouped})
		release(lock)
		if x := within(t, "exit", soon, p.Exited()); x.Status != 3 {
			t.Errorf("%+v, want status 3", x)
		}
		within(t, "empty", soon, p.Empty())
		within(t, "reaped", soon, p.Reaped())
		if locked(t, lock.Name()) {
			t.Error("what was left holds the lock")
		}
		b, err := os.ReadFile(pidFile)
		if err != nil {
			t.Fatal(err)
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("what was to be left alone is gone: %v", err)
		}
	})
}

func TestLocksAreHeldUntilReleased(t *testing.T) {
	t.Parallel()
	run, lock := newRun(t), openLock(t)
	p := start(t, Spec{Args: []string{"true"}, RunID: run, Locks: []*os.File{lock}, HoldLocks: true})
	release(lock)
	within(t, "empty", soon, p.Empty())
	p.Stop(0) // too late to matter
	p.Kill()
	select {
	case <-p.Reaped():
		t.Error("the guardian ended before the release")
	case <-time.After(100 * time.Millisecond):
	}
	if !locked(t, lock.Name()) {
		t.Error("the lock is free before its release")
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.guardian.pid)); err != nil || strings.TrimSpace(string(name)) != guardian.Name {
		t.Errorf("the guardian, which waits for the release alone, is called %q, %v", name, err)
	}
	p.Release()
	within(t, "reaped", soon, p.Reaped())
	if locked(t, lock.Name()) {
		t.Error("the lock is held after its release")
	}
}

// awaitFile waits until a file is there.
func awaitFile(t *testing.T, path string) {
	t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("there is no %s", path)
		}
	}
}

// openLock is a locked file.
func openLock(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return f
}
