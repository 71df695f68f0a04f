//go:build linux

package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/guardian"
)

// An orphan that died behind a warden which was not reaped yet is reaped after it, although no other child dies.
func TestAnOrphanBehindADeadWardenIsReaped(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(os.Args[0], "inherit").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "reaped") {
		t.Errorf("%v: %s", err, out)
	}
}

// inherit is a process with two dead children: a warden, and behind it one that it does not know.
func inherit([]string) {
	dead := func() int {
		c := exec.Command("true")
		if err := c.Start(); err != nil {
			panic(err)
		}
		for errors.Is(unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
		return c.Process.Pid
	}
	warden := dead()
	wardens.pids = map[int]bool{warden: true}
	orphan := dead()
	ReapOrphans()
	time.Sleep(50 * time.Millisecond) // it looks, and finds the warden in the way
	if _, err := reapWarden(warden); err != nil {
		panic(err)
	}
	for end := time.Now().Add(soon); !errors.Is(syscall.Kill(orphan, 0), syscall.ESRCH); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			fmt.Println("the orphan is left")
			return
		}
	}
	fmt.Println("reaped")
}

// A guardian that ends with a message unread has its last words heard.
func TestLastWordsAreHeard(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{sock: os.NewFile(uintptr(pair[0]), "guardian")}
	defer p.sock.Close()
	if err := p.send(guardian.Message{Kind: guardian.Extend}); err != nil { // it never reads this
		t.Fatal(err)
	}
	if _, err := unix.Write(pair[1], guardian.Message{Kind: guardian.Exited, Value: 7}.Encode()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Close(pair[1]); err != nil {
		t.Fatal(err)
	}
	if m, err := p.receive(); m.Kind != guardian.Exited || m.Value != 7 || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// timers counts this process's POSIX timers.
func timers(t *testing.T) int {
	t.Helper()
	all, err := os.ReadFile("/proc/self/timers")
	if err != nil {
		t.Skipf("this kernel does not list timers: %v", err)
	}
	return strings.Count(string(all), "ID:")
}

// Not parallel: it counts.
func TestAFailedStartLeavesNothing(t *testing.T) {
	lost := writeProgram(t, t.TempDir()+"/lost", "#!/no/such/interpreter\n", 0o755)
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	try := func() {
		if _, err := Start(Spec{Args: []string{lost}, RunID: newRun(t), Deadline: in(time.Hour, time.Hour)}); err == nil {
			t.Fatal("it started")
		}
	}
	try() // what is made once
	alarms, fds := timers(t), open()
	for range 10 {
		try()
	}
	if now := timers(t); now > alarms {
		t.Errorf("%d timers, before it %d", now, alarms)
	}
	if now := open(); now > fds {
		t.Errorf("%d descriptors, before it %d", now, fds)
	}
}

// A deadline that passes while the program is being executed, by a dead file server say, ends the command.
// Holds: promise 3.
func TestADeadlineInTheMiddleOfTheExec(t *testing.T) {
	t.Parallel()
	for term := time.Second; ; term *= 2 {
		run := newRun(t)
		slow := writeProgram(t, t.TempDir()+"/slow", "#!/bin/sh\nexec sleep 1000\n", 0o755)
		f, err := os.Open(slow)
		if err != nil {
			t.Fatal(err)
		}
		// Whoever else opens the file waits until the lease on it is given back.
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
			t.Skipf("no lease on a file can be had here: %v", err)
		}
		time.AfterFunc(term+200*time.Millisecond, func() { f.Close() })
		p, err := Start(Spec{Args: []string{slow, run}, RunID: run, Deadline: in(term, time.Hour)})
		if errors.Is(err, syscall.ETIME) {
			continue // a slow machine: it was too late to begin
		}
		if err != nil {
			t.Fatal(err)
		}
		if x := within(t, "exit", soon, p.Exited()); x.Signal != syscall.SIGTERM || !x.ByDeadline {
			t.Errorf("%+v, want SIGTERM by the deadline", x)
		}
		p.Kill()
		within(t, "reaped", soon, p.Reaped())
		return
	}
}
