//go:build linux

package command

import (
	"bufio"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/guardian/proc"
	"github.com/dibs-run/dibs/lease"
)

// Holds: promise 6.
func TestWorkIsGoneOnlyWhenEverybodyIs(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		s := inSupervisor(t, part{Args: shell(run, escapee(run)+deaf), RunID: run, Ungrouped: ungrouped})
		awaitLiving(t, run, 1+escaped)
		h := s.Holder
		if WorkGone(testKey, h) {
			t.Error("gone while it runs")
		}
		s.signal(t, syscall.SIGSTOP)
		if WorkGone(testKey, h) {
			t.Error("gone while its supervisor is stopped")
		}
		s.signal(t, syscall.SIGKILL)
		awaitProof(t, h)
		if left := living(run); len(left) > 0 {
			t.Errorf("said to be gone: %v", left)
		}
	})
}

// Holds: promise 6.
func TestOrphansAreKilled(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		h, run := orphans(t, ungrouped, func(h lease.Holder) {
			if gone, err := KillOrphaned(t.Context(), testKey, h, held); gone || err != nil {
				t.Errorf("a live supervisor's work: gone %v, %v", gone, err)
			}
		})
		if WorkGone(testKey, h) {
			t.Error("gone while orphans live")
		}
		killOrphaned(t, h)
		if left := living(run); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		awaitProof(t, h)
	})
}

// killOrphaned kills the orphans of h's run. On a busy machine it may take several calls: SIGKILL takes a while there,
// and where any process is just being executed, there is no proof.
func killOrphaned(t *testing.T, h lease.Holder) {
	t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		switch gone, err := KillOrphaned(t.Context(), testKey, h, held); {
		case err != nil, !gone && time.Now().After(end):
			t.Fatalf("gone %v, %v; there are %v", gone, err, living(h.RunID))
		case gone:
			return
		}
	}
}

// awaitProof waits until the work of h is provably gone: there is no proof while any process is just being executed.
func awaitProof(t *testing.T, h lease.Holder) {
	t.Helper()
	for end := time.Now().Add(soon); !WorkGone(testKey, h); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no proof that the work is gone; there are %v", living(h.RunID))
		}
	}
}

// orphans makes work that has lost its supervisor, its guardian and its warden. before is called while all
// of it lives.
func orphans(t *testing.T, ungrouped bool, before func(lease.Holder)) (h lease.Holder, run string) {
	t.Helper()
	run = newRun(t)
	s := inSupervisor(t, part{Args: shell(run, escapee(run)+deaf), RunID: run, Ungrouped: ungrouped})
	awaitLiving(t, run, 1+escaped)
	h = s.Holder
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
	for end := time.Now().Add(soon); len(living(run)) < escaped-1; time.Sleep(time.Millisecond) { // one that is just being executed has no name
		if time.Now().After(end) {
			t.Fatalf("of %d orphans there are only %v", escaped-1, living(run))
		}
	}
	return h, run
}

// awaitDeath waits until a process that was killed is dead, which takes a busy machine a while.
func awaitDeath(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
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
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		s := inSupervisor(t, part{Args: shell(run, escapee(run)+bareEscapee(run)+deaf), RunID: run, Ungrouped: ungrouped})
		awaitUp(t, bufio.NewReader(s.out))
		h := s.Holder
		keepStopped(t, s.Warden, s.Guardian)
		s.signal(t, syscall.SIGKILL)
		_ = s.Wait()
		if gone, err := KillOrphaned(t.Context(), testKey, h, func() bool { return false }); gone || err != nil {
			t.Errorf("a released lease's work: gone %v, %v", gone, err)
		}
		killOrphaned(t, h)
		if left := living(run); len(left) > 0 {
			t.Errorf("said to be gone: %v", left)
		}
	})
}

// A record that names a dead process as the supervisor of a living one's run kills nothing.
func TestARunWithASupervisorIsLeftAlone(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run := newRun(t)
		s := inSupervisor(t, part{Args: shell(run, deaf), RunID: run, Ungrouped: ungrouped})
		awaitLiving(t, run, 1)
		h := s.Holder
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
	t.Parallel()
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
	t.Parallel()
	gone := Self()
	gone.RunID, gone.Start = "some-run", gone.Start-1 // this number was another process's before
	awaitProof(t, gone)
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
	t.Parallel()
	run := newRun(t)
	p := start(t, Spec{Args: shell(run, "sleep 300"), RunID: run, ungrouped: true, Env: []string{"PATH=/usr/bin:/bin", EnvRunID + "=outer" + run}})
	h := Self()
	h.RunID, h.Start = "outer"+run, h.Start-1
	if WorkGone(testKey, h) {
		t.Error("gone while a run within it lives")
	}
	p.Kill()
	<-p.Reaped()
	awaitProof(t, h)
}

// Of machines that were cloned while they ran, the boot id, the pid namespace and the pids are the same: what is gone
// here may well live there.
func TestACloneOfThisHostIsAnother(t *testing.T) {
	t.Parallel()
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	h := Self()
	h.PID, h.Start, h.RunID = gone.Process.Pid, h.Start+1, "run-of-a-clone"
	awaitProof(t, h)
	h.Host += "-clone"
	if WorkGone(testKey, h) {
		t.Error("the work of a clone's holder is taken for gone")
	}
}

func TestEarlierBoot(t *testing.T) {
	t.Parallel()
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
	bothWays(t, func(t *testing.T, ungrouped bool) {
		h, run := orphans(t, ungrouped, func(lease.Holder) {})
		if gone, err := KillOrphaned(t.Context(), testKey, h, func() bool { return false }); gone || err != nil {
			t.Errorf("gone %v, %v", gone, err)
		}
		if len(living(run)) == 0 {
			t.Error("they were killed")
		}
		killOrphaned(t, h)
	})
}

// Processes that were born in the clock tick of their supervisor (1/100 s) are its own.
func TestTheHoldersOwnClockTickCounts(t *testing.T) {
	t.Parallel()
	h, run := orphans(t, true, func(h lease.Holder) {
		all, err := proc.All()
		if err != nil {
			t.Fatal(err)
		}
		guards := func() []proc.Stat { return guardsOf(all, h) }
		for _, g := range guards() {
			h.Start = max(h.Start, g.Start)
		}
		if found := guards(); len(found) == 0 {
			t.Error("the younger of its guards is not seen")
		}
	})
	for end := time.Now().Add(soon); ; {
		all, err := proc.All()
		if err != nil {
			t.Fatal(err)
		}
		var youngest proc.Stat
		for _, s := range all {
			if s.Start >= youngest.Start && ofRun(s.PID, run) == yes {
				youngest = s
			}
		}
		young := h
		young.Start = youngest.Start
		gone := WorkGone(testKey, young)
		if s, err := proc.Read(youngest.PID); err == nil && s.Start == youngest.Start && s.Alive() { // else it is a sleep that is over
			if gone {
				t.Error("said to be gone beside the youngest of the work")
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("the youngest of the work never lives for as long as a look takes")
		}
	}
	killOrphaned(t, h)
}
