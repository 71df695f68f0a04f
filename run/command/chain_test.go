//go:build linux

package command

import (
	"bufio"
	"errors"
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
	bothWays(t, func(t *testing.T) {
		for _, hold := range []bool{false, true} {
			run, lock := newRun(t), filepath.Join(t.TempDir(), "lock")
			s := inSupervisor(t, part{Args: shell(run, escapee(run)+deaf), RunID: run, Lock: lock, HoldLocks: hold})
			awaitLiving(t, run, 1+escaped)
			if !locked(t, lock) {
				t.Error("the lock is free while the command runs")
			}
			s.signal(t, syscall.SIGKILL)
			if left := awaitGone(run, time.Second); len(left) > 0 {
				t.Errorf("alive a second after the supervisor's death: %v", left)
			}
			awaitUnlocked(t, lock) // its holder ends a moment after it is out of sight
		}
	})
}

// Holds: promise 3.
func TestSupervisorStopped(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		run, lock := newRun(t), filepath.Join(t.TempDir(), "lock")
		const term, kill, slack = time.Second, 1500 * time.Millisecond, 10 * time.Second
		began := time.Now()
		s := inSupervisor(t, part{Args: shell(run, escapee(run)+deaf), RunID: run, Lock: lock, HoldLocks: true, Term: term, Kill: kill})
		s.signal(t, syscall.SIGSTOP)
		lines := bufio.NewReader(s.out)
		for _, want := range []string{"up", "term"} {
			if line, err := lines.ReadString('\n'); strings.TrimSpace(line) != want {
				t.Fatalf("%q, %v; want %q", line, err, want)
			}
		}
		if at := time.Since(began); at < term || at > term+slack {
			t.Errorf("told to terminate after %s, want %s", at, term)
		}
		awaitGone(run, soon)
		if at := time.Since(began); at < kill || at > kill+slack {
			t.Errorf("gone after %s, want %s", at, kill)
		}
		awaitUnlocked(t, lock)
	})
}

// Holds: promise 3.
func TestGuardianKilled(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		run := newRun(t)
		p := start(t, Spec{Args: shell(run, escapee(run)+deaf), RunID: run})
		awaitLiving(t, run, 1+escaped)
		if err := syscall.Kill(p.guardian.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		x := within(t, "exit", time.Second, p.Exited())
		if x.Err == nil || x.Status != StatusFault {
			t.Errorf("%+v, want a fault", x)
		}
		// What is known of the reason is said: how it ended, and what its connection answered.
		if !errors.Is(x.Err, errGuardianGone) || !errors.Is(x.Err, io.EOF) || !strings.Contains(x.Err.Error(), "signal: killed") {
			t.Errorf("does not say why: %v", x.Err)
		}
		within(t, "empty", time.Second, p.Empty())
		if left := living(run); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if err := p.Extend(Deadline{}); !errors.Is(err, errGuardianGone) {
			t.Errorf("Extend says %v", err)
		}
	})
}

func TestGuardianIgnoresSignals(t *testing.T) {
	run := newRun(t)
	p := start(t, Spec{Args: shell(run, "sleep 0.3; exit 6"), RunID: run})
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
		if err := syscall.Kill(p.guardian.pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	if x := within(t, "exit", soon, p.Exited()); x.Status != 6 {
		t.Errorf("%+v, want status 6", x)
	}
}

// Holds: promise 3.
func TestDeadlineEndsTheCommand(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		run, now := newRun(t), clock.System.Boot()
		p := start(t, Spec{Args: shell(run, "sleep 300"), RunID: run, Deadline: Deadline{Term: now + 200*time.Millisecond}})
		x := within(t, "exit", time.Second, p.Exited())
		if want := (Exit{Status: 143, Signal: syscall.SIGTERM, ByDeadline: true}); x != want {
			t.Errorf("%+v, want %+v", x, want)
		}
	})
}

func TestPassedDeadlineStartsNothing(t *testing.T) {
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
	bothWays(t, func(t *testing.T) {
		run := newRun(t)
		in := func(d time.Duration) Deadline {
			return Deadline{Term: clock.System.Boot() + d, Kill: clock.System.Boot() + 2*d}
		}
		const step = 2 * time.Second
		p := start(t, Spec{Args: shell(run, "sleep 300"), RunID: run, Deadline: in(step)})
		for range 8 { // in all, twice the first deadline
			time.Sleep(step / 4)
			if err := p.Extend(in(step)); err != nil {
				t.Fatal(err)
			}
		}
		last := time.Now()
		select {
		case x := <-p.Exited():
			t.Fatalf("ended in spite of renewals: %+v", x)
		default:
		}
		if x := within(t, "exit", soon, p.Exited()); !x.ByDeadline {
			t.Errorf("%+v, want it by deadline", x)
		}
		if at := time.Since(last); at < step-50*time.Millisecond {
			t.Errorf("ended %s after the last renewal, before its deadline of %s", at, step)
		}
	})
}

func TestRenewalAfterTermDoesNotPostponeTheKill(t *testing.T) {
	run, now := newRun(t), clock.System.Boot()
	r, w, _ := os.Pipe()
	defer r.Close()
	kill := now + time.Second
	p := start(t, Spec{Args: shell(run, deaf), RunID: run, Stdout: w, Deadline: Deadline{Term: now + 300*time.Millisecond, Kill: kill}})
	w.Close()
	if _, err := io.ReadFull(r, make([]byte, len("up\nterm\n"))); err != nil {
		t.Fatal(err)
	}
	if err := p.Extend(Deadline{Term: now + time.Hour, Kill: now + time.Hour}); err != nil {
		t.Fatal(err)
	}
	within(t, "empty", soon, p.Empty())
	if at := clock.System.Boot(); at < kill {
		t.Errorf("killed %s early", kill-at)
	}
}

// Holds: promise 14.
func TestStopKillsAfterGrace(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		run := newRun(t)
		r, w, _ := os.Pipe()
		defer r.Close()
		p := start(t, Spec{Args: shell(run, escapee(run)+deaf), RunID: run, Stdout: w})
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
		if x.Signal != syscall.SIGKILL || x.ByDeadline {
			t.Errorf("%+v, want killed, not by deadline", x)
		}
		within(t, "empty", soon, p.Empty())
		if at := time.Since(began); at < 400*time.Millisecond {
			t.Errorf("gone after %s, before its 400 ms", at)
		}
	})
}

func TestStopWakesTheStoppedAndReachesWhoDetached(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		run := newRun(t)
		p := start(t, Spec{Args: shell(run, escapee(run)+"kill -STOP $$"), RunID: run})
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
	bothWays(t, func(t *testing.T) {
		run := newRun(t)
		p := start(t, Spec{Args: []string{os.Args[0], "hop", run}, RunID: run})
		within(t, "exit", soon, p.Exited())
		time.Sleep(50 * time.Millisecond) // some generations
		select {
		case <-p.Empty():
			t.Fatal("it ended by itself")
		default:
		}
		p.Kill()
		within(t, "empty", time.Second, p.Empty())
	})
}
