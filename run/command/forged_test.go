//go:build linux

package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/internal/guardian/proc"
	"github.com/dibs-run/dibs/lease"
)

// forged is a record of a holder that is dead, as whoever may write records can make one.
func forged(run, group string) lease.Holder {
	h := Self()
	h.RunID, h.Start, h.Cgroup = run, h.Start-1, group
	return h
}

// victim is a process that has nothing to do with any lease.
func victim(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "300")
	c.Env = env
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

func alivePID(pid int) bool {
	s, err := proc.Read(pid)
	return err == nil && s.Alive()
}

// A directory of the writer's own making, which looks like a control group, has nobody killed, and
// nothing written where a link in it leads.
func TestARecordsGroupIsBelievedOnlyIfItIsOne(t *testing.T) {
	t.Parallel()
	pid, file := victim(t).Process.Pid, filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	evil := filepath.Join(t.TempDir(), cgroup.Name(bound(testKey, "evil")))
	if err := os.Mkdir(evil, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"cgroup.events": "populated 1\n", "cgroup.procs": fmt.Sprint(pid)} {
		if err := os.WriteFile(filepath.Join(evil, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(file, filepath.Join(evil, "cgroup.kill")); err != nil {
		t.Fatal(err)
	}
	paths := []string{evil}
	if parent := cgroup.Parent(); parent != "" {
		paths = append(paths, parent+"/.."+evil, parent+"/../../../../../.."+evil)
	}
	for _, path := range paths {
		if _, err := KillOrphaned(t.Context(), testKey, forged("evil", path), held); err != nil {
			t.Error(err)
		}
		if !alivePID(pid) {
			t.Fatalf("%s: a process that it names was killed", path)
		}
		if b, err := os.ReadFile(file); string(b) != "content" {
			t.Errorf("%s: the file behind its cgroup.kill is %q, %v", path, b, err)
		}
	}
	if _, err := os.Stat(evil); err != nil {
		t.Errorf("the directory was removed: %v", err)
	}
}

// A forged record of one key, which names the run or the group of another, harms no other key: its work is left alone.
// Holds: promise 6.
func TestARecordOfOneKeyHarmsNoOther(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		h, run := orphans(t, ungrouped, func(lease.Holder) {})
		// The main process dies with its guardian, a moment later.
		for end := time.Now().Add(soon); len(living(run)) > escaped && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		before := len(living(run))
		for _, group := range []string{h.Cgroup, CgroupFor("other", run), ""} {
			claim := forged(run, group)
			if gone, err := KillOrphaned(t.Context(), "other", claim, held); gone || err != nil {
				t.Errorf("group %q: gone %v, %v", group, gone, err)
			}
			if now := len(living(run)); now != before {
				t.Fatalf("group %q: of %d processes %d are left", group, before, now)
			}
		}
		killOrphaned(t, h)
	})
}

// A control group of the right name that somebody else made is not killed, although it is one.
func TestAGroupOfAnotherUserIsNotKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not covered: only root can give a control group to another user")
	}
	t.Parallel()
	run := newRun(t)
	path := CgroupFor(testKey, run)
	if path == "" {
		t.Skip("no control group can be made here")
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	c := victim(t)
	t.Cleanup(func() { _ = cgroup.Kill(path); _ = c.Wait(); _ = cgroup.Remove(path) })
	if err := cgroup.Move(path, c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if gone, err := KillOrphaned(t.Context(), testKey, forged(run, path), held); gone || err != nil || !alivePID(c.Process.Pid) {
		t.Errorf("gone %v, %v; the process lives: %v", gone, err, alivePID(c.Process.Pid))
	}
}

// The run's id alone, which everybody can read and set, makes nobody an orphan to be killed.
// Holds: promise 6.
func TestARunIDIsNoProof(t *testing.T) {
	t.Parallel()
	run := fmt.Sprintf("run%d", time.Now().UnixNano())
	c := victim(t, EnvRunID+"="+run, EnvRunParents+"="+run, EnvRunProofs+"="+bound("other", run))
	if gone, err := KillOrphaned(t.Context(), testKey, forged(run, ""), held); gone || err != nil {
		t.Errorf("gone %v, %v", gone, err)
	}
	if !alivePID(c.Process.Pid) {
		t.Error("it was killed")
	}
}

// A number that another process has meanwhile is not killed.
func TestOnlyTheProcessThatWasSeenIsKilled(t *testing.T) {
	t.Parallel()
	s, err := proc.Read(victim(t).Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	later := s
	later.Start++
	kill(later)
	time.Sleep(20 * time.Millisecond)
	if !alivePID(s.PID) {
		t.Fatal("another process of its number was meant")
	}
	kill(s)
	awaitDeath(t, s.PID)
}

// A command of another user gets no descriptor of the lock: with one it could free it, or keep it for
// whomever it passes it to. Its guardian holds the lock.
func TestACommandOfAnotherUserHasNoLock(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not covered: only root can run a command as another user")
	}
	t.Parallel()
	nobody, err := LookupUser("nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		as   *User
		want string // the descriptors; ls has opened one for itself
	}{{nil, "0 1 2 3 4"}, {nobody, "0 1 2 3"}} {
		path := filepath.Join(t.TempDir(), "lock")
		lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		got := printed(t, Spec{Args: []string{"ls", "/proc/self/fd"}, Dir: "/", RunID: newRun(t), User: c.as, Locks: []*os.File{lock}})
		release(lock)
		if got := strings.Join(strings.Fields(got), " "); got != c.want {
			t.Errorf("as %+v it has the descriptors %s, want %s", c.as, got, c.want)
		}
		if !locked(t, path) { // printed has the guardian stay, and hold it
			t.Errorf("as %+v: the lock is free", c.as)
		}
	}
}
