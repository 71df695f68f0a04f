//go:build linux

package command

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/internal/guardian/proc"
)

// Rule L6: a guardian that has not begun may still do so, although there is nothing in the run's control group.
// Holds: L6.
func TestAGuardianBeforeTheStartIsNoProof(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		s := Spec{RunID: newRun(t), Key: testKey, ungrouped: ungrouped}
		s.Args, s.Env = shell(s.RunID, deaf), os.Environ()
		p, err := s.guarded("/bin/sh")
		if err != nil {
			t.Fatal(err)
		}
		filled(t, p.warden.pid)
		if p.cgroup != "" {
			if err := os.Mkdir(p.cgroup, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		h := forged(s.RunID, p.cgroup)
		if WorkGone(testKey, h) {
			t.Errorf("it is said to be gone, beside %v", living(s.RunID))
		}
		p.abandon()
		if left := awaitGone(s.RunID, soon); len(left) > 0 {
			t.Fatalf("left: %v", left)
		}
		awaitProof(t, h)
		if p.cgroup != "" {
			_ = cgroup.Remove(p.cgroup)
		}
	})
}

// filled waits until the kernel has filled in a process's arguments and environment, which it does a moment after
// the exec. Until then nobody can tell what the process is. (A guard may be as far as that only while its supervisor
// lives, and starts nothing after its death; in these tests the supervisor is alive, whatever the record says.)
func filled(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); len(b) > 0 {
			return
		}
	}
	t.Fatalf("process %d has no environment", pid)
}

// Only a guard of this user's own is one: another user can give a process the same name, arguments and environment.
func TestAGuardOfAnotherUserIsNotBelieved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not covered: only root can start a process of another user's")
	}
	t.Parallel()
	proof := bound(testKey, "run")
	for user, want := range map[uint32]bool{0: true, 65534: false} {
		c := exec.Command("/bin/sleep", "300")
		c.Dir, c.Env = "/", []string{EnvRunProofs + "=" + proof}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
		filled(t, c.Process.Pid)
		if s, err := proc.Read(c.Process.Pid); err != nil || ours(s, proof) != want {
			t.Errorf("user %d: believed %v, want %v; %v", user, ours(s, proof), want, err)
		}
	}
}
