//go:build linux

package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
)

// The kill chain (promise 3): whoever is killed or stopped, nothing of the command outlives it.

// deaf ignores SIGTERM and says when it got one.
const deaf = "trap 'echo term' TERM; echo up; while :; do sleep 0.02; done"

// Holds: promise 3.
func TestSupervisorKilled(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		for _, hold := range []bool{false, true} {
			run, lock := newRun(t), filepath.Join(t.TempDir(), "lock")
			s := inSupervisor(t, part{Args: shell(run, escapee(run)+deaf), RunID: run, Lock: lock, HoldLocks: hold, Ungrouped: ungrouped})
			awaitLiving(t, run, 1+escaped)
			if !locked(t, lock) {
				t.Error("the lock is free while the command runs")
			}
			s.signal(t, syscall.SIGKILL)
			if left := awaitGone(run, soon); len(left) > 0 {
				t.Errorf("they outlive the supervisor: %v", left)
			}
			awaitUnlocked(t, lock) // its holder ends a moment after it is out of sight
		}
	})
}

// Holds: promise 3.
func TestSupervisorStopped(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run, lock := newRun(t), filepath.Join(t.TempDir(), "lock")
		s := inSupervisor(t, part{Args: shell(run, escapee(run)+deaf), RunID: run, Lock: lock, HoldLocks: true, Ungrouped: ungrouped})
		lines := bufio.NewReader(s.out)
		awaitUp(t, lines)
		d := s.extend(t, time.Second, 3*time.Second)
		s.signal(t, syscall.SIGSTOP)
		if line, err := lines.ReadString('\n'); line != "term\n" {
			t.Fatalf("%q, %v; want SIGTERM", line, err)
		}
		if early := d.Term - clock.System.Boot(); early > 0 {
			t.Errorf("told to terminate %s early", early)
		}
		if left := awaitGone(run, soon); len(left) > 0 {
			t.Errorf("alive after the deadline: %v", left)
		}
		if early := d.Kill - clock.System.Boot(); early > 0 {
			t.Errorf("gone %s early", early)
		}
		awaitUnlocked(t, lock)
	})
}

// Holds: promise 3.
func TestGuardianKilled(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		p := start(t, Spec{Args: shell(run, escapee(run)+deaf), RunID: run, ungrouped: ungrouped})
		awaitLiving(t, run, 1+escaped)
		if err := syscall.Kill(p.guardian.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		x := within(t, "exit", soon, p.Exited())
		if x.Err == nil || x.Status != StatusFault {
			t.Errorf("%+v, want a fault", x)
		}
		// What is known of the reason is said: how it ended, and what its connection answered.
		if !errors.Is(x.Err, errGuardianGone) || !errors.Is(x.Err, io.EOF) || !strings.Contains(x.Err.Error(), "signal: killed") {
			t.Errorf("does not say why: %v", x.Err)
		}
		within(t, "empty", soon, p.Empty())
		if left := living(run); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if err := p.Extend(Deadline{}); !errors.Is(err, errGuardianGone) {
			t.Errorf("Extend says %v", err)
		}
	})
}

func TestGuardianIgnoresSignals(t *testing.T) {
	t.Parallel()
	run := newRun(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := start(t, Spec{Args: shell(run, "read x; exit 6"), RunID: run, Stdin: r})
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
		if err := syscall.Kill(p.guardian.pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond) // by then a guardian that heeds one has ended
	w.Close()
	if x := within(t, "exit", soon, p.Exited()); x.Status != 6 {
		t.Errorf("%+v, want status 6", x)
	}
}

// Holds: promise 3.
func TestDeadlineEndsTheCommand(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run, d := newRun(t), in(2*time.Second, 0) // to be heard of before it has passed
		p := start(t, Spec{Args: shell(run, "sleep 300"), RunID: run, Deadline: d, ungrouped: ungrouped})
		x := within(t, "exit", soon, p.Exited())
		if want := (Exit{Status: 143, Signal: syscall.SIGTERM, ByDeadline: true}); x != want {
			t.Errorf("%+v, want %+v", x, want)
		}
		if early := d.Term - clock.System.Boot(); early > 0 {
			t.Errorf("ended %s early", early)
		}
	})
}

func TestPassedDeadlineStartsNothing(t *testing.T) {
	t.Parallel()
	run, file := newRun(t), filepath.Join(t.TempDir(), "made")
	p, err := Start(Spec{Args: []string{"touch", file}, RunID: run, Deadline: Deadline{Kill: clock.System.Boot() - 1}})
	var start *StartError
	if !errors.As(err, &start) || start.Status != StatusFault || p != nil {
		t.Errorf("started, or %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Error("the command was executed past its deadline")
	}
}

func TestExtendMovesTheDeadline(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		const step = 2 * time.Second
		d := in(step, 2*step)
		p := start(t, Spec{Args: shell(run, "sleep 300"), RunID: run, Deadline: d, ungrouped: ungrouped})
		for first := d.Term; d.Term < first+step; {
			time.Sleep(step / 4)
			renewed := in(step, 2*step)
			if err := p.Extend(renewed); err != nil {
				t.Fatal(err)
			}
			if clock.System.Boot() >= d.Term {
				t.Skip("the machine is slow: a deadline passed before its renewal")
			}
			d = renewed
		}
		if x := within(t, "exit", soon, p.Exited()); !x.ByDeadline {
			t.Errorf("%+v, want it by deadline", x)
		}
		if early := d.Term - clock.System.Boot(); early > 0 {
			t.Errorf("ended %s before the deadline of the last renewal", early)
		}
	})
}

func TestRenewalAfterTermDoesNotPostponeTheKill(t *testing.T) {
	t.Parallel()
	run := newRun(t)
	r, w, _ := os.Pipe()
	defer r.Close()
	p := start(t, Spec{Args: shell(run, deaf), RunID: run, Stdout: w})
	w.Close()
	lines := bufio.NewReader(r)
	awaitUp(t, lines)
	d := in(1, 2*time.Second)
	if err := p.Extend(d); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); line != "term\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := p.Extend(in(time.Hour, time.Hour)); err != nil {
		t.Fatal(err)
	}
	within(t, "empty", soon, p.Empty())
	if early := d.Kill - clock.System.Boot(); early > 0 {
		t.Errorf("killed %s early", early)
	}
}

// Holds: promise 14.
func TestStopKillsAfterGrace(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		r, w, _ := os.Pipe()
		defer r.Close()
		p := start(t, Spec{Args: shell(run, escapee(run)+deaf), RunID: run, Stdout: w, ungrouped: ungrouped})
		w.Close()
		awaitLiving(t, run, 1+escaped)
		lines := bufio.NewReader(r)
		if line, _ := lines.ReadString('\n'); line != "up\n" {
			t.Fatalf("%q", line)
		}
		began := time.Now()
		p.Stop(400 * time.Millisecond)
		if line, _ := lines.ReadString('\n'); line != "term\n" {
			t.Errorf("%q instead of SIGTERM", line)
		}
		x := within(t, "exit", soon, p.Exited())
		if x.Signal != syscall.SIGKILL && !errors.Is(x.Err, errGuardianGone) || x.ByDeadline { // gone: a slow machine's last resort
			t.Errorf("%+v, want killed, not by deadline", x)
		}
		within(t, "empty", soon, p.Empty())
		if at := time.Since(began); at < 400*time.Millisecond {
			t.Errorf("gone after %s, before its 400 ms", at)
		}
	})
}

// To many programs a second SIGTERM means to give up at once: a command gets one, although a loss by silence is seen
// by its guardian and by its supervisor.
// Holds: promise 14.
func TestEverybodyIsToldOnce(t *testing.T) {
	ways := map[string][2]func(*Process, time.Duration){}
	deadline := func(p *Process, kill time.Duration) {
		_ = p.Extend(Deadline{Term: 1, Kill: clock.System.Boot() + kill})
	}
	for name, first := range map[string]func(*Process, time.Duration){"deadline": deadline, "stop": (*Process).Stop} {
		ways[name+", deadline"] = [2]func(*Process, time.Duration){first, deadline}
		ways[name+", stop"] = [2]func(*Process, time.Duration){first, (*Process).Stop}
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := newRun(t)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			p := start(t, Spec{Args: []string{os.Args[0], "count", "first", run}, RunID: run, Stdout: w})
			w.Close()
			lines, seen := bufio.NewScanner(r), map[string]int{}
			await := func(line string) {
				for seen["first "+line] == 0 || seen["second "+line] == 0 {
					if !lines.Scan() {
						t.Fatalf("it ended after %v", seen)
					}
					seen[lines.Text()]++
				}
			}
			await("up")
			way[0](p, time.Hour)
			await("term")
			way[1](p, time.Second/2) // what is told again until then is counted
			for lines.Scan() {
				seen[lines.Text()]++
			}
			if seen["first term"] != 1 || seen["second term"] != 1 {
				t.Errorf("%v", seen)
			}
		})
	}
}

// What the command starts once it was told to terminate is told as well, when its main process has ended.
// Holds: L7.
func TestWhatBeginsAfterTheTermIsTold(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run, dir := newRun(t), t.TempDir()
		late := writeProgram(t, dir+"/late", "#!/bin/sh\ntrap 'echo late; exit 0' TERM\n: > $1\nwhile :; do sleep 0.02; done\n", 0o755)
		script := fmt.Sprintf("trap '%s %s/up %s & while [ ! -e %[2]s/up ]; do sleep 0.01; done; exit 0' TERM; echo up; while :; do sleep 0.02; done", late, dir, run)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		p := start(t, Spec{Args: shell(run, script), RunID: run, Stdout: w, Leftovers: Kill, LeftoverGrace: time.Hour, ungrouped: ungrouped})
		w.Close()
		lines := bufio.NewReader(r)
		awaitUp(t, lines)
		p.Stop(time.Hour)
		within(t, "empty", soon, p.Empty())
		if line, err := lines.ReadString('\n'); line != "late\n" {
			t.Errorf("%q, %v", line, err)
		}
	})
}

func TestStopWakesTheStoppedAndReachesWhoDetached(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		p := start(t, Spec{Args: shell(run, escapee(run)+"kill -STOP $$"), RunID: run, ungrouped: ungrouped})
		// Once the shell has stopped itself, whoever detached the last one has ended: nobody forks any more, and so
		// nobody is born after the signal.
		awaitStopped(t, run)
		awaitLiving(t, run, 1+escaped)
		p.Stop(time.Hour)
		if x := within(t, "exit", soon, p.Exited()); x.Signal != syscall.SIGTERM {
			t.Errorf("%+v, want SIGTERM", x)
		}
		within(t, "empty", soon, p.Empty())
	})
}

// Holds: promise 3.
func TestKillCatchesARunaway(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		p := start(t, Spec{Args: []string{os.Args[0], "hop", run}, RunID: run, ungrouped: ungrouped})
		within(t, "exit", soon, p.Exited())
		time.Sleep(50 * time.Millisecond) // some generations
		select {
		case <-p.Empty():
			t.Fatal("it ended by itself")
		default:
		}
		p.Kill()
		within(t, "empty", soon, p.Empty())
	})
}
