//go:build linux

package command

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// passedOn are numbers of descriptors that the guards use themselves, and one that is higher. 5 is the lowest that is
// free.
var passedOn = []int{3, 4, 6, 20}

// leaked is the number of one that the supervisor has, and its command is not to have.
const leaked = 21

// pass supervises a command that inherits the descriptors passedOn, and a lock. Its guards stay until there is no more
// input.
func pass(args []string) {
	lock, err := os.Open(args[1])
	if err != nil {
		panic(err)
	}
	p, err := Start(Spec{Args: args[2:], RunID: args[0], Key: testKey, Stdout: os.Stdout, Stderr: os.Stderr, Locks: []*os.File{lock}, HoldLocks: true,
		Descriptors: passedOn, ungrouped: os.Getenv("DIBS_CGROUP") == "off"})
	if err != nil {
		panic(err)
	}
	for _, fd := range append(passedOn, leaked) {
		_ = syscall.Close(fd)
	}
	<-p.Empty()
	_, _ = io.ReadAll(os.Stdin)
	p.Release()
	<-p.Reaped()
}

// A command inherits descriptors under their numbers, also those that its guards use. Locks get the numbers that are
// free. Once it has ended nobody has one, nor any other of the supervisor's, though its guards still live: a reader
// sees the end.
func TestACommandInheritsDescriptors(t *testing.T) {
	bothWays(t, func(t *testing.T, ungrouped bool) {
		run, lock := newRun(t), openLock(t)
		script := fmt.Sprintf("for n in %s; do echo $n >/proc/$$/fd/$n; done; readlink /proc/$$/fd/5", strings.Trim(fmt.Sprint(passedOn), "[]"))
		c := exec.Command(os.Args[0], append([]string{"pass", run, lock.Name()}, shell(run, script)...)...)
		if ungrouped {
			c.Env = append(os.Environ(), "DIBS_CGROUP=off")
		}
		readers := map[int]*os.File{}
		for _, n := range append(passedOn, leaked) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			for len(c.ExtraFiles) < n-2 {
				c.ExtraFiles = append(c.ExtraFiles, nil)
			}
			readers[n], c.ExtraFiles[n-3] = r, w
		}
		end, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		c.Stdout, c.Stderr = &out, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for _, f := range c.ExtraFiles {
			if f != nil {
				f.Close()
			}
		}
		for n, r := range readers {
			_ = r.SetReadDeadline(time.Now().Add(soon))
			want := fmt.Sprintln(n)
			if n == leaked {
				want = ""
			}
			if b, err := io.ReadAll(r); err != nil || string(b) != want {
				t.Errorf("descriptor %d got %q, %v; want %q", n, b, err, want)
			}
		}
		if left := living(run); !slices.ContainsFunc(left, func(p string) bool { return strings.Contains(p, "dibs-guardian") }) {
			t.Errorf("the guardian was to live on: %v", left)
		}
		end.Close()
		if err := c.Wait(); err != nil || out.String() != lock.Name()+"\n" {
			t.Errorf("descriptor 5 is %q, want the lock; %v", &out, err)
		}
	})
}

// Standard files are not passed on twice.
func TestOnlyDescriptorsAboveTwoArePassedOn(t *testing.T) {
	t.Parallel()
	if p, err := Start(Spec{Args: []string{"true"}, RunID: "r", Descriptors: []int{2}}); err == nil {
		p.Kill()
		t.Error("descriptor 2 is inherited as another")
	}
}
