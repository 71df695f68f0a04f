//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unread is the writing end of a pipe that is full, and that nobody reads.
func unread(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	for err == nil {
		_ = w.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		_, err = w.Write(make([]byte, 4096))
	}
	return w
}

// deafly has what a command prints go to pipes that nobody reads.
func (w *world) deafly(cmd *exec.Cmd) *process {
	w.t.Helper()
	cmd.Stdout, cmd.Stderr = unread(w.t), unread(w.t)
	return w.start(cmd)
}

// Promise 27: a server whose output nobody reads goes on with its jobs, holds none of their leases, and ends when it
// is told to.
// Holds: promise 27.
func TestAServerThatNobodyReads(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		var jobs []job
		for _, name := range []string{"a", "b", "c"} {
			jobs = append(jobs, job{name, "@every 1s", `{}`, []string{"sh", "-c", "yes | head -c 200000"}})
		}
		p := w.deafly(w.command(dibsBinary, "serve", w.jobs(jobs...), "--default-scope", w.scope(), "-v"))
		eventually(t, patience, func() bool {
			done := map[string]int{}
			for _, e := range w.history() {
				if e.Outcome == "succeeded" {
					done[e.Job]++
				}
			}
			return done["app/a"] >= 3 && done["app/b"] >= 3 && done["app/c"] >= 3
		}, func() string { return w.must("history") })
		p.signal(syscall.SIGTERM)
		p.exits(0, patience)
		if out := w.must("lease", "list"); strings.Contains(out, "app/") {
			t.Errorf("still held:\n%s", out)
		}
	})
}

// The same of one fire, of a worker, and of a run, whose result somebody wanted and does not read.
// Holds: promise 27.
func TestOneThingThatNobodyReads(t *testing.T) {
	t.Parallel()
	noisy := []string{"sh", "-c", "yes | head -c 200000; echo an error >&2; exit 3"}
	t.Run("trigger", func(t *testing.T) {
		t.Parallel()
		w := fileWorld(t)
		m := w.jobs(job{"a", "@every 1h", `{}`, noisy})
		w.deafly(w.command(dibsBinary, "trigger", "app.a", "--now", "--manifest", m, "--default-scope", "host")).exits(2, patience)
	})
	t.Run("work", func(t *testing.T) {
		t.Parallel()
		w := fileWorld(t)
		for range 3 {
			w.must("task", "enqueue", "k", "--args", "{}")
		}
		p := w.deafly(w.command(dibsBinary, "work", "default", "-v", "--", "sh", "-c", "yes | head -c 200000"))
		eventually(t, patience, func() bool {
			return strings.Count(w.must("task", "list", "--state", "succeeded"), "succeeded") >= 3
		}, func() string { return w.must("task", "list") })
		p.signal(syscall.SIGTERM)
		p.exits(0, patience)
	})
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		w := fileWorld(t)
		cmd := w.command(dibsBinary, "run", "--key", "k", "--scope", "host", "--json", "3", "--", "sh", "-c", "exit 3")
		cmd.ExtraFiles = []*os.File{unread(t)}
		p := w.deafly(cmd)
		eventually(t, patience, func() bool {
			runs := w.history("k")
			return len(runs) == 1 && runs[0].Outcome == "failed"
		}, func() string { return w.must("history") })
		eventually(t, patience, func() bool { return !strings.Contains(w.must("lease", "list"), "held") },
			func() string { return w.must("lease", "list") })
		p.signal(syscall.SIGTERM) // it still waits for a reader of its result, and holds nothing
		if got := p.wait(patience); got != 3 {
			t.Errorf("exit status %d", got)
		}
	})
}
