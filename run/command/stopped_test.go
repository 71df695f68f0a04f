//go:build linux

package command

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/cgroup"
)

// What the kill chain does where some of it are stopped, and are stopped again as often as they are
// continued (promise 3).

// family starts a deaf command with escapees, and returns once all of them are there.
func family(t *testing.T, s Spec) (p *Process, id string, lines *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	id = newRun(t)
	s.Args, s.RunID, s.Stdout = shell(id, escapee(id)+bareEscapee(id)+deaf), id, w
	p = start(t, s)
	w.Close()
	lines = bufio.NewReader(r)
	awaitUp(t, lines)
	return p, id, lines
}

// awaitUp waits until a deaf command has said so, upon which what it left behind has begun.
func awaitUp(t *testing.T, lines *bufio.Reader) {
	t.Helper()
	if line, err := lines.ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
}

// stopped is a family under a guardian and a warden that stay stopped.
func stopped(t *testing.T, s Spec) (p *Process, id string, lines *bufio.Reader) {
	t.Helper()
	p, id, lines = family(t, s)
	keepStopped(t, p.warden.pid, p.guardian.pid)
	return p, id, lines
}

// goneWithin waits for Empty, upon which nothing may be left of the run.
func goneWithin(t *testing.T, p *Process, id string) Exit {
	t.Helper()
	x := within(t, "exit", soon, p.Exited())
	within(t, "empty", soon, p.Empty())
	for _, l := range living(id) {
		// Those of an ending guard may still be there.
		if !strings.Contains(l, guardian.Name) && !strings.Contains(l, guardian.Warden) {
			t.Errorf("said to be gone: %s", l)
		}
	}
	within(t, "reaped", soon, p.Reaped())
	return x
}

// Holds: promise 3.
func TestGuardianStoppedThenStop(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		p, id, _ := stopped(t, Spec{ungrouped: ungrouped})
		p.Stop(100 * time.Millisecond)
		if x := goneWithin(t, p, id); x.ByDeadline {
			t.Errorf("%+v, want it not by deadline", x)
		}
	})
}

// Holds: promise 3.
func TestGuardianStoppedThenKill(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		p, id, _ := stopped(t, Spec{ungrouped: ungrouped})
		p.Kill()
		goneWithin(t, p, id)
	})
}

// Holds: promise 3.
func TestGuardianStoppedThenDeadline(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		p, id, _ := stopped(t, Spec{Deadline: in(0, time.Hour), ungrouped: ungrouped})
		if err := p.Extend(in(0, time.Second/5)); err != nil {
			t.Fatal(err)
		}
		if x := goneWithin(t, p, id); !x.ByDeadline {
			t.Errorf("%+v, want it by deadline", x)
		}
	})
}

// A guardian that was stopped past its deadline finds the renewals of that time, and kills nothing.
func TestGuardianStoppedWhileRenewalsCome(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		id, d, renewed := newRun(t), in(3*time.Second, time.Hour), in(time.Hour, time.Hour)
		p := start(t, Spec{Args: shell(id, "read x; exit 6"), Stdin: r, RunID: id, Deadline: d, ungrouped: ungrouped})
		p.guardian.signal(syscall.SIGSTOP)
		awaitState(t, p.guardian.pid, 'T')
		// Not by Extend, which would continue it; the kernel does when the deadline comes that it knows of.
		m := guardian.Message{Kind: guardian.Extend, Term: renewed.Term, Kill: renewed.Kill}
		if _, err := p.sock.Write(m.Encode()); err != nil {
			t.Fatal(err)
		}
		if clock.System.Boot() >= d.Term {
			t.Skip("the machine is slow: the deadline passed before the renewal")
		}
		time.Sleep(d.Term + time.Second - clock.System.Boot())
		w.Close()
		if x := within(t, "exit", soon, p.Exited()); x.Status != 6 || x.ByDeadline {
			t.Errorf("%+v, want status 6", x)
		}
	})
}

// The forwarded signal reaches the command, whatever the guardian does.
// Holds: promise 3.
func TestGuardianStoppedThenSignal(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		p, id, lines := stopped(t, Spec{ungrouped: ungrouped})
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if line, err := lines.ReadString('\n'); line != "term\n" {
			t.Errorf("%q, %v", line, err)
		}
		p.Kill()
		goneWithin(t, p, id)
	})
}

// With the locks held until the outcome is recorded, a stopped guardian holds them no longer than that.
func TestGuardianStoppedBeforeRelease(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		id, lock := newRun(t), openLock(t)
		p := start(t, Spec{Args: []string{"true", id}, RunID: id, Locks: []*os.File{lock}, HoldLocks: true, ungrouped: ungrouped})
		release(lock)
		within(t, "empty", soon, p.Empty())
		keepStopped(t, p.warden.pid, p.guardian.pid)
		if !locked(t, lock.Name()) {
			t.Error("the lock is free before it was released")
		}
		p.Release()
		within(t, "reaped", soon, p.Reaped())
		if locked(t, lock.Name()) {
			t.Error("the lock is held")
		}
	})
}

// Supervisor, guardian and warden are stopped together, as `pkill -STOP` does: the kernel continues the
// guardian at the deadline.
// Holds: promise 3.
func TestAllStoppedOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		id, lock := newRun(t), filepath.Join(t.TempDir(), "lock")
		s := inSupervisor(t, part{Args: shell(id, escapee(id)+bareEscapee(id)+deaf), RunID: id, Lock: lock, HoldLocks: true, Ungrouped: ungrouped})
		awaitUp(t, bufio.NewReader(s.out))
		d := s.extend(t, 2*time.Second, 3*time.Second)
		for _, pid := range []int{s.Process.Pid, s.Warden, s.Guardian} {
			signal(t, pid, syscall.SIGSTOP)
			awaitState(t, pid, 'T')
		}
		if late := clock.System.Boot() - d.Term; late > 0 {
			t.Logf("the machine is slow: not all were stopped before the deadline, but %s later", late)
		}
		awaitWorkGone(t, id)
		if early := d.Kill - clock.System.Boot(); early > 0 {
			t.Errorf("gone %s early", early)
		}
		awaitUnlocked(t, lock)
		awaitUngrouped(t, id)
	})
}

// The same, and the guardian is stopped again whenever it is continued: the kernel kills it, with it the
// command; the supervisor, which the kernel continues after that, or the warden, kills the rest.
// Holds: promise 3.
func TestAllStoppedAndTheGuardianKeptSo(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		id, lock := newRun(t), filepath.Join(t.TempDir(), "lock")
		s := inSupervisor(t, part{Args: shell(id, escapee(id)+bareEscapee(id)+deaf), RunID: id, Lock: lock, Ungrouped: ungrouped})
		awaitUp(t, bufio.NewReader(s.out))
		s.extend(t, 2*time.Second, 3*time.Second)
		keepStopped(t, s.Guardian)
		for _, pid := range []int{s.Process.Pid, s.Warden} {
			signal(t, pid, syscall.SIGSTOP)
		}
		awaitWorkGone(t, id)
		awaitUnlocked(t, lock)
		awaitUngrouped(t, id)
	})
}

// awaitWorkGone waits until nothing of the run lives, but for those that guard it.
func awaitWorkGone(t *testing.T, id string) {
	t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(5 * time.Millisecond) {
		var left []string
		for _, l := range living(id) {
			if !strings.Contains(l, guardian.Name) && !strings.Contains(l, guardian.Warden) && !strings.Contains(l, " Z ") {
				left = append(left, l)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left: %v", left)
		}
	}
}

func awaitUnlocked(t *testing.T, lock string) {
	t.Helper()
	for end := time.Now().Add(soon); locked(t, lock); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the lock is held")
		}
	}
}

// awaitUngrouped waits until the run's control group is removed, which is the last that its supervisor does.
func awaitUngrouped(t *testing.T, id string) {
	t.Helper()
	parent := cgroup.Parent()
	if parent == "" {
		return
	}
	for end := time.Now().Add(soon); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(parent, cgroup.Name(bound(testKey, id)))); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the run's control group is left behind")
		}
	}
}

// A guard that is stopped before the command was started is continued.
func TestGuardsStoppedOnceBeforeTheStart(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		p, s := unarmed(t, ungrouped)
		p.warden.signal(syscall.SIGSTOP)
		if err := p.arm(s); err != nil {
			t.Fatal(err)
		}
		m, err := p.answer(0)
		if err != nil || m.Kind != guardian.Started {
			t.Errorf("%+v, %v", m, err)
		}
		p.abandon()
	})
}

// One that is kept stopped is ended at the deadline, with whatever it could start between two stops.
func TestGuardsKeptStoppedBeforeTheStart(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		p, s := unarmed(t, ungrouped)
		keepStopped(t, p.warden.pid)
		if err := p.arm(s); err != nil {
			t.Fatal(err)
		}
		if m, err := p.answer(clock.System.Boot() + time.Second); !errors.Is(err, syscall.ETIME) && m.Kind != guardian.Started {
			t.Errorf("%+v, %v", m, err)
		}
		p.abandon()
		if left := awaitGone(s.RunID, soon); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// unarmed starts the guards of a command that they may not start yet.
func unarmed(t *testing.T, ungrouped bool) (*Process, Spec) {
	t.Helper()
	s := Spec{RunID: newRun(t), ungrouped: ungrouped}
	s.Args, s.Env = shell(s.RunID, deaf), os.Environ()
	p, err := s.guarded("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

// Whichever guard is killed alone, nothing is said to be gone before it is: not even a child that has
// left its session and its environment, without a control group.
// Holds: promise 3.
func TestAGuardKilledAlone(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		for name, which := range map[string]func(*Process) helper{
			"guardian": func(p *Process) helper { return p.guardian },
			"warden":   func(p *Process) helper { return p.warden },
		} {
			t.Run(name, func(t *testing.T) {
				p, id, _ := family(t, Spec{ungrouped: ungrouped})
				which(p).signal(syscall.SIGKILL)
				goneWithin(t, p, id)
			})
		}
	})
}

// The guardian is killed while the warden is stopped.
// Holds: promise 3.
func TestGuardianKilledWithTheWardenStopped(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		p, id, _ := family(t, Spec{ungrouped: ungrouped})
		keepStopped(t, p.warden.pid)
		p.guardian.signal(syscall.SIGKILL)
		goneWithin(t, p, id)
	})
}

// A killed guardian's locks are not free before what it left is gone, although nothing of that has a part in them.
func TestTheLockOutlivesAKilledGuardian(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		id, lock := newRun(t), filepath.Join(t.TempDir(), "lock")
		s := inSupervisor(t, part{Args: shell(id, "exec 3>&-; "+bareEscapee(id)+deaf), RunID: id, Lock: lock, Ungrouped: ungrouped})
		awaitUp(t, bufio.NewReader(s.out))
		for _, pid := range []int{s.Process.Pid, s.Warden} {
			signal(t, pid, syscall.SIGSTOP)
			awaitState(t, pid, 'T')
		}
		signal(t, s.Guardian, syscall.SIGKILL)
		awaitState(t, s.Guardian, 'Z')
		if !locked(t, lock) {
			t.Errorf("it is free, beside %v", living(id))
		}
		signal(t, s.Warden, syscall.SIGCONT)
		signal(t, s.Process.Pid, syscall.SIGCONT)
		awaitWorkGone(t, id)
		awaitUnlocked(t, lock)
	})
}

// The warden survives what kills supervisor and guardian together, and ends what they leave.
// Holds: promise 3.
func TestSupervisorAndGuardianKilledTogether(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		id := newRun(t)
		s := inSupervisor(t, part{Args: shell(id, escapee(id)+bareEscapee(id)+deaf), RunID: id, Ungrouped: ungrouped})
		awaitUp(t, bufio.NewReader(s.out))
		signal(t, s.Guardian, syscall.SIGSTOP) // lest it acts
		signal(t, s.Process.Pid, syscall.SIGKILL)
		signal(t, s.Guardian, syscall.SIGKILL)
		if left := awaitGone(id, soon); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
