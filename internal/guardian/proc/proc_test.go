//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

func TestParseIsNotFooledByNames(t *testing.T) {
	line := "42 (a) R (b c)) S 7 42 41 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 3 0 98765 4096 9 18446744073709551615 64 65 66\n"
	got, err := parse(42, []byte(line))
	want := Stat{PID: 42, Comm: "a) R (b c)", Parent: 7, Group: 42, Session: 41, State: 'S', Threads: 3, Start: 98765, Memory: 4096, Code: 64, Stack: 66, Kernel: true}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := parse(42, []byte("42 (x) S 1")); err == nil {
		t.Error("a short line is understood")
	}
}

func TestAlive(t *testing.T) {
	for s, want := range map[Stat]bool{
		{State: 'S', Threads: 1}: true,
		{State: 'T', Threads: 1}: true,
		{State: 'Z', Threads: 1}: false,
		{State: 'Z', Threads: 2}: true, // threads of it still end, with its files open
		{State: 'X', Threads: 1}: false,
	} {
		if s.Alive() != want {
			t.Errorf("%c with %d threads: alive %v", s.State, s.Threads, !want)
		}
	}
}

func TestThisProcess(t *testing.T) {
	s, err := Read(os.Getpid())
	if err != nil || s.Parent != os.Getppid() || !s.Alive() || s.Kernel {
		t.Errorf("%+v, %v", s, err)
	}
	if args := Args(os.Getpid()); len(args) == 0 || args[0] != os.Args[0] {
		t.Errorf("arguments %q", args)
	}
	if _, err := Read(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no process: %v", err)
	}
}

// In the middle of an exec, a process shows no environment for a moment. That is no proof that it has none.
func TestEnvironInTheMiddleOfAnExec(t *testing.T) {
	if left, err := strconv.Atoi(os.Getenv("EXECS_LEFT")); err == nil {
		if left == 0 {
			return
		}
		t.Fatal(syscall.Exec("/proc/self/exe", os.Args, []string{"RUN=x1", fmt.Sprint("EXECS_LEFT=", left-1)}))
	}
	c := exec.Command("/proc/self/exe", "-test.run=^TestEnvironInTheMiddleOfAnExec$")
	c.Env = []string{"RUN=x1", "EXECS_LEFT=100"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Wait() }()
	for look := 0; ; look++ {
		env, err := Environ(c.Process.Pid)
		select {
		case <-ended:
			return
		default:
		}
		if err == nil && !env.Has("RUN", "x1") {
			t.Fatalf("look %d: %q", look, env)
		}
	}
}

func TestBelow(t *testing.T) {
	all := []Stat{{PID: 1}, {PID: 2, Parent: 1}, {PID: 3, Parent: 2}, {PID: 4, Parent: 2, State: 'Z'}, {PID: 5, Parent: 4}, {PID: 6, Parent: 1}}
	var sum int
	for _, s := range Below(all, func(s Stat) bool { return s.PID == 2 }) {
		sum += s.PID
	}
	if sum != 2+3+5 {
		t.Errorf("the pids below 2 add up to %d", sum)
	}
}

func TestEnv(t *testing.T) {
	e := Env("A=b\x00RUN=x1\x00PARENTS=p1:p2\x00")
	for _, c := range []struct {
		got, want bool
	}{
		{e.Has("A", "b"), true}, {e.Has("RUN", "x1"), true}, {e.Has("RUN", "x"), false}, {e.Has("UN", "x1"), false},
		{e.Lists("PARENTS", "p1"), true}, {e.Lists("PARENTS", "p2"), true}, {e.Lists("PARENTS", "p"), false}, {e.Lists("RUN", "p1"), false},
	} {
		if c.got != c.want {
			t.Errorf("%+v", c)
		}
	}
}
