//go:build linux

package command

import (
	"bufio"
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/guardian/proc"
	"github.com/dibs-run/dibs/lease"
)

// holderOf is the record that the supervisor would have written.
func holderOf(s *supervisor, run string) lease.Holder {
	h := s.Self
	h.RunID, h.Cgroup = run, CgroupFor(testKey, run)
	return h
}

// Holds: promise 6.
func TestWorkIsGoneOnlyWhenEverybodyIs(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		run := newRun(t)
		s := inSupervisor(t, part{Args: shell(run, escapee(run)+deaf), RunID: run})
		awaitLiving(t, run, 1+escaped)
		h := holderOf(s, run)
		if WorkGone(testKey, h) {
			t.Error("gone while it runs")
		}
		s.signal(t, syscall.SIGSTOP)
		if WorkGone(testKey, h) {
			t.Error("gone while its supervisor is stopped")
		}
		s.signal(t, syscall.SIGKILL)
		for !WorkGone(testKey, h) {
			time.Sleep(time.Millisecond)
		}
		if left := living(run); len(left) > 0 {
			t.Errorf("said to be gone: %v", left)
		}
	})
}

// Holds: promise 6.
func TestOrphansAreKilled(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		h, run := orphans(t, func(h lease.Holder) {
			if gone, err := KillOrphaned(ctx, testKey, h, held); gone || err != nil {
				t.Errorf("a live supervisor's work: gone %v, %v", gone, err)
			}
		})
		if WorkGone(testKey, h) {
			t.Error("gone while orphans live")
		}
		if gone, err := KillOrphaned(ctx, testKey, h, held); !gone || err != nil {
			t.Errorf("orphans: gone %v, %v", gone, err)
		}
		if left := living(run); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if !WorkGone(testKey, h) {
			t.Error("not gone after the orphans were killed")
		}
	})
}

// orphans makes work that has lost its supervisor, its guardian and its warden. before is called while all
// of it lives.
func orphans(t *testing.T, before func(lease.Holder)) (h lease.Holder, run string) {
	t.Helper()
	run = newRun(t)
	s := inSupervisor(t, part{Args: shell(run, escapee(run)+deaf), RunID: run})
	awaitLiving(t, run, 1+escaped)
	h = holderOf(s, run)
	before(h)
	// Stopped guards cannot act on each other's deaths; the supervisor's continues the warden.
	stop := func(pid int) {
		signal(t, pid, syscall.SIGSTOP)
		awaitState(t, pid, 'T')
	}
	kill := func(pid int) {
		signal(t, pid, syscall.SIGKILL)
		awaitDeath(t, pid)
	}
	stop(s.Guardian)
	kill(s.Process.Pid)
	stop(s.Warden)
	kill(s.Guardian)
	kill(s.Warden)
	if left := living(run); len(left) < escaped-1 {
		t.Fatalf("of %d orphans there are only %v", escaped-1, left)
	}
	return h, run
}

// awaitDeath waits until a process that was killed is dead, which takes a busy machine a while.
func awaitDeath(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		s, err := proc.Read(pid)
		if err != nil || !s.Alive() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d lives on after SIGKILL", pid)
		}
	}
}

// The guardian of a dead supervisor kills by itself. One that is stopped, again and again, must not hold
// up a contender.
func TestAStoppedGuardianOfADeadSupervisorIsEnded(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		run := newRun(t)
		s := inSupervisor(t, part{Args: shell(run, escapee(run)+bareEscapee(run)+deaf), RunID: run})
		awaitUp(t, bufio.NewReader(s.out))
		h := holderOf(s, run)
		keepStopped(t, s.Warden, s.Guardian)
		s.signal(t, syscall.SIGKILL)
		_ = s.Wait()
		if gone, err := KillOrphaned(t.Context(), testKey, h, func() bool { return false }); gone || err != nil {
			t.Errorf("a released lease's work: gone %v, %v", gone, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*soon)
		defer cancel()
		for gone := false; !gone; {
			var err error
			if gone, err = KillOrphaned(ctx, testKey, h, held); err != nil || ctx.Err() != nil {
				t.Fatalf("gone %v, %v; there are %v", gone, err, living(run))
			}
		}
		if left := living(run); len(left) > 0 {
			t.Errorf("said to be gone: %v", left)
		}
	})
}

// A record that names a dead process as the supervisor of a living one's run kills nothing.
func TestARunWithASupervisorIsLeftAlone(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		run := newRun(t)
		s := inSupervisor(t, part{Args: shell(run, deaf), RunID: run})
		awaitLiving(t, run, 1)
		h := holderOf(s, run)
		h.Start-- // its number was another process's before
		if gone, err := KillOrphaned(t.Context(), testKey, h, held); gone || err != nil {
			t.Errorf("gone %v, %v", gone, err)
		}
		time.Sleep(guardTime)
		awaitLiving(t, run, 1)
	})
}

// What survives every SIGKILL is stuck in the kernel; nobody waits for it.
func TestKillingOrphansIsBounded(t *testing.T) {
	rounds, began := 0, time.Now()
	gone, err := untilGone(t.Context(), func() (done, gone bool) { rounds++; return false, false })
	if gone || err != nil || rounds < 2 {
		t.Errorf("gone %v, %v after %d rounds", gone, err, rounds)
	}
	if at := time.Since(began); at < killTime {
		t.Errorf("gave up after %s, want %s", at, killTime)
	}
}

// Holds: promise 6.
func TestNothingIsProvenOfAnotherPlace(t *testing.T) {
	gone := Self()
	gone.RunID, gone.Start = "some-run", gone.Start-1 // this number was another process's before
	if !WorkGone(testKey, gone) {
		t.Fatal("the work of a process that has ended is not gone")
	}
	for what, change := range map[string]func(*lease.Holder){
		"another boot":      func(h *lease.Holder) { h.BootID = "other" },
		"another namespace": func(h *lease.Holder) { h.PIDNS = "1" },
		"no boot":           func(h *lease.Holder) { h.BootID = "" },
		"no start":          func(h *lease.Holder) { h.Start = 0 },
		"no run":            func(h *lease.Holder) { h.RunID = "" },
		"this very process": func(h *lease.Holder) { h.Start++ },
	} {
		h := gone
		change(&h)
		if WorkGone(testKey, h) {
			t.Errorf("%s: gone", what)
		}
	}
}

func TestWorkWithinARunBelongsToIt(t *testing.T) {
	run := newRun(t)
	t.Setenv("DIBS_CGROUP", "off")
	p := start(t, Spec{Args: shell(run, "sleep 300"), RunID: run, Env: []string{"PATH=/usr/bin:/bin", EnvRunID + "=outer" + run}})
	h := Self()
	h.RunID, h.Start = "outer"+run, h.Start-1
	if WorkGone(testKey, h) {
		t.Error("gone while a run within it lives")
	}
	p.Kill()
	<-p.Reaped()
	if !WorkGone(testKey, h) {
		t.Error("not gone")
	}
}

// Of machines that were cloned while they ran, the boot id, the pid namespace and the pids are the same: what is gone
// here may well live there.
func TestACloneOfThisHostIsAnother(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	h := Self()
	h.PID, h.Start, h.RunID = gone.Process.Pid, h.Start+1, "run-of-a-clone"
	if !WorkGone(testKey, h) {
		t.Fatal("the work of a holder that is gone here, is not")
	}
	h.Host += "-clone"
	if WorkGone(testKey, h) {
		t.Error("the work of a clone's holder is taken for gone")
	}
}

func TestEarlierBoot(t *testing.T) {
	self := lease.Holder{Host: "a", HostID: "id", BootID: "now"}
	for h, want := range map[lease.Holder]bool{
		{Host: "a", HostID: "id", BootID: "before"}: true,
		{Host: "a", HostID: "id", BootID: "now"}:    false,
		{Host: "b", HostID: "id", BootID: "before"}: false,
		{Host: "a", HostID: "", BootID: "before"}:   false,
		{Host: "a", HostID: "id", BootID: ""}:       false,
	} {
		if got := EarlierBoot(self, h); got != want {
			t.Errorf("%+v: %v", h, got)
		}
	}
}

// held is a hold that is still on record.
func held() bool { return true }

// What a run left behind on purpose, and released its lease, is nobody's to kill.
func TestLeftoversOfAReleasedLeaseLive(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		h, run := orphans(t, func(lease.Holder) {})
		ctx := t.Context()
		if gone, err := KillOrphaned(ctx, testKey, h, func() bool { return false }); gone || err != nil {
			t.Errorf("gone %v, %v", gone, err)
		}
		if len(living(run)) == 0 {
			t.Error("they were killed")
		}
		if gone, err := KillOrphaned(ctx, testKey, h, held); !gone || err != nil {
			t.Errorf("once it is held: gone %v, %v", gone, err)
		}
	})
}
