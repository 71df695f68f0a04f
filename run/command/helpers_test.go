//go:build linux

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/internal/guardian/proc"
	"github.com/dibs-run/dibs/internal/test/room"
	"github.com/dibs-run/dibs/lease"
)

// bothWays runs a test with a control group and without one, beside other tests. The test passes ungrouped on.
func bothWays(t *testing.T, test func(t *testing.T, ungrouped bool)) {
	t.Parallel()
	bothWaysAlone(t, func(t *testing.T, ungrouped bool) {
		t.Parallel()
		test(t, ungrouped)
	})
}

// bothWaysAlone is like bothWays, while no other test of the package runs.
func bothWaysAlone(t *testing.T, test func(t *testing.T, ungrouped bool)) {
	t.Run("cgroup", func(t *testing.T) {
		if CgroupFor(testKey, "x") == "" {
			t.Skip("no control group can be made here")
		}
		test(t, false)
	})
	t.Run("fallback", func(t *testing.T) { test(t, true) })
}

// testKey is that of the lease in these tests.
const testKey lease.Key = "k"

// newRun is a run id that no other process's arguments contain. When the test ends, nothing of
// the run may be left.
func newRun(t *testing.T) string {
	t.Helper()
	room.For(t)
	id := fmt.Sprintf("run%016x", rand.Uint64())
	t.Cleanup(func() {
		if left := awaitGone(id, soon); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		if parent := cgroup.Parent(); parent != "" {
			if _, err := os.Stat(filepath.Join(parent, cgroup.Name(bound(testKey, id)))); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the run's control group is left behind: %v", err)
			}
		}
	})
	return id
}

// living lists the processes of a run, dead ones that nobody reaped included: those with its id in
// their arguments or environment, the guardian too.
func living(run string) []string {
	all, _ := proc.All()
	var found []string
	for _, s := range all {
		args := strings.Join(proc.Args(s.PID), " ")
		supervisor := strings.Contains(args, " supervise ")
		if !supervisor && s.PID != os.Getpid() && (strings.Contains(args, run) || ofRun(s.PID, run) == yes) {
			found = append(found, fmt.Sprintf("%d %c %s", s.PID, s.State, args))
		}
	}
	return found
}

// awaitGone waits until nothing of the run lives, and returns what does after the bound.
func awaitGone(run string, bound time.Duration) []string {
	for end := time.Now().Add(bound); ; time.Sleep(5 * time.Millisecond) {
		if left := living(run); len(left) == 0 || time.Now().After(end) {
			return left
		}
	}
}

// awaitLiving waits until n processes of the run live, besides warden and guardian, or one in their place.
func awaitLiving(t *testing.T, run string, n int) {
	t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(5 * time.Millisecond) {
		left := living(run)
		if len(left) >= n+2 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("of %d processes there are only %v", n, left)
		}
	}
}

// awaitStopped waits until a process of the run has been stopped.
func awaitStopped(t *testing.T, run string) {
	t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(5 * time.Millisecond) {
		left := living(run)
		if slices.ContainsFunc(left, func(p string) bool { return strings.Contains(p, " T ") }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("none of %v is stopped", left)
		}
	}
}

// escapee is a shell script that leaves behind a child, and a grandchild that nothing but its
// parents' deaths connects with it, and then goes on.
func escapee(run string) string {
	return fmt.Sprintf("sleep 300 & '%s' detach sh -c 'sleep 301; : %s'; ", os.Args[0], run)
}

// escaped is how many processes escapee leaves.
const escaped = 3

// bareEscapee leaves behind a child in a session of its own, of whose environment nothing is left.
func bareEscapee(run string) string {
	return fmt.Sprintf("env -i '%s' detach /bin/sh -c 'while :; do /bin/sleep 0.3; done; : %s'; ", os.Args[0], run)
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// awaitState waits until a process is in a state, as /proc/PID/stat has it.
func awaitState(t *testing.T, pid int, state byte) {
	t.Helper()
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		s, err := proc.Read(pid)
		if err == nil && s.State == state {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("process %d is not in state %c: %+v, %v", pid, state, s, err)
		}
	}
}

// keepStopped stops the processes, and stops them again whenever they are continued, until they have
// ended.
func keepStopped(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		before, err := proc.Read(pid)
		if err != nil {
			t.Fatal(err)
		}
		signal(t, pid, syscall.SIGSTOP)
		awaitState(t, pid, 'T')
		go func() {
			for t.Context().Err() == nil {
				if s, err := proc.Read(pid); err != nil || s.Start != before.Start || !s.Alive() {
					return
				}
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				time.Sleep(100 * time.Microsecond)
			}
		}()
	}
}

type started struct {
	PID, Warden, Guardian int
	Holder                lease.Holder // the record that the supervisor would write
}

// A supervisor is another process that supervises a part.
type supervisor struct {
	*exec.Cmd
	started
	out   io.Reader // what the command prints
	told  *json.Encoder
	heard *json.Decoder
}

// inSupervisor has a process of its own supervise the part.
func inSupervisor(t *testing.T, p part) *supervisor {
	t.Helper()
	spec, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &supervisor{Cmd: exec.Command(os.Args[0], "supervise", string(spec)), heard: json.NewDecoder(r)}
	s.ExtraFiles, s.Stderr = []*os.File{w}, os.Stderr
	if p.Ungrouped {
		s.Env = append(os.Environ(), "DIBS_CGROUP=off")
	}
	told, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.told = json.NewEncoder(told)
	if s.out, err = s.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		_ = s.Process.Kill()
		_ = s.Wait()
		r.Close()
	})
	if err := s.heard.Decode(&s.started); err != nil {
		t.Fatalf("the supervisor said nothing: %v", err)
	}
	if p.Ungrouped && s.Holder.Cgroup != "" {
		t.Fatalf("in spite of DIBS_CGROUP=off the run has the control group %s", s.Holder.Cgroup)
	}
	return s
}

// extend has the supervisor extend its command's deadline, and returns it.
func (s *supervisor) extend(t *testing.T, term, kill time.Duration) Deadline {
	t.Helper()
	d := in(term, kill)
	if err := s.told.Encode(d); err != nil {
		t.Fatal(err)
	}
	var done string
	if err := s.heard.Decode(&done); err != nil || done != "extended" {
		t.Fatalf("%q, %v", done, err)
	}
	return d
}

func (s *supervisor) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := s.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// locked says whether somebody holds the lock.
func locked(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err != nil
}

// start starts a spec that must start, and kills it when the test ends.
func start(t *testing.T, s Spec) *Process {
	t.Helper()
	p, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(); p.Release(); <-p.Reaped() })
	if s.ungrouped && p.cgroup != "" {
		t.Fatalf("it has the control group %s", p.cgroup)
	}
	return p
}

// in is the deadline after these times from now; zero is none.
func in(term, kill time.Duration) (d Deadline) {
	now := clock.System.Boot()
	if term > 0 {
		d.Term = now + term
	}
	if kill > 0 {
		d.Kill = now + kill
	}
	return d
}

func shell(run, script string) []string { return []string{"sh", "-c", script, run} }

// within receives, or fails the test after the bound.
func within[T any](t *testing.T, what string, bound time.Duration, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(bound):
		t.Fatalf("%s: nothing after %s", what, bound)
	}
	return v
}

// soon is the patience for what is to happen at once: nothing else that would end a command comes before that.
const soon = time.Minute

// release closes a file of which no descriptor may live on.
func release(f *os.File) {
	f.Close()
	awaitForks()
}

// awaitForks waits for children that other tests fork meanwhile: until they execute their programs, they have all
// descriptors of this process.
func awaitForks() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
}

// writeProgram writes a file that is to be executed, which the kernel refuses while somebody has it open for writing.
func writeProgram(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	awaitForks()
	return path
}
