//go:build linux

package e2e

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A reload that fails changes nothing that could be seen of the old manifest: neither its jobs nor its hooks, nor
// which variables commands, conditions and hooks find.
func TestAReloadThatFailsChangesNothing(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.env = append(w.env, "OTHER=visible")
	told := w.path("told")
	manifest := func(when, more string) string {
		return w.write("m.yaml", fmt.Sprintf(`
version: 1
app: app
jobs:
- {name: job, schedule: "@every 1s", command: {shell: 'echo "%[1]s command $OTHER" >> %[2]s'}, when: {shell: 'echo "%[1]s when $OTHER" >> %[2]s'},
   hooks: [{on: [success], command: {shell: 'echo "%[1]s hook $OTHER" >> %[2]s'}}]}
%[3]s`, when, told, more))
	}
	lines := func() []string {
		b, _ := os.ReadFile(told)
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	p := w.serve(manifest("old", ""))
	p.logs("event=serving")
	// The new one names OTHER as a secret of another job, and then a file that is not there.
	manifest("new", `- {name: other, schedule: "@yearly", command: ["true"], env_from: {A: "env:OTHER"}}
- {name: bad, schedule: "@yearly", request: {url: "http://127.0.0.1:1/"}, auth: {secret_refs: ["file:/nonexistent/secret"]}}
`)
	p.logs("event=reload-failed", "/nonexistent/secret")
	before := len(lines())
	want := []string{"old command visible", "old when visible", "old hook visible"}
	eventually(t, patience, func() bool {
		since := lines()[before:]
		return len(since) > 9 && !slices.ContainsFunc(want, func(line string) bool { return !slices.Contains(since, line) })
	}, func() string { return fmt.Sprintf("%q said after the reload: %q\n%s", want, lines()[before:], p) })
	for _, line := range lines() {
		if !slices.Contains(want, line) {
			t.Errorf("%q was said", line)
		}
	}

	// The next one that is right is served, all of it.
	manifest("new", `- {name: other, schedule: "@yearly", command: ["true"], env_from: {A: "env:OTHER"}}
`)
	p.logs("event=reloaded")
	eventually(t, patience, func() bool {
		all := lines()
		return slices.Contains(all, "new command ") && slices.Contains(all, "new when ") && slices.Contains(all, "new hook ")
	}, p.String)
	stop(p)
}

// A secret that is a pipe, a device or too large fails the reload at once; the server goes on, reloads again and
// ends when it is told to.
func TestAPipeIsNoSecret(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	manifest := func(secret string) string {
		return w.write("m.yaml", `
version: 1
app: app
jobs:
- {name: job, schedule: "@daily", request: {url: "http://127.0.0.1:1/"}, auth: {secret_refs: ["file:`+secret+`"]}}
`)
	}
	if err := syscall.Mkfifo(w.path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.serve(manifest(w.write("secret", "s")))
	p.logs("event=serving")
	for _, bad := range []string{w.path("pipe"), "/dev/zero", w.dir, w.write("large", strings.Repeat("x", 65537))} {
		manifest(bad)
		p.logs("event=reload-failed", bad)
	}
	manifest(w.path("secret"))
	p.logs("event=reloaded")
	stop(p)

	// Nor does it keep a start waiting, nor is it a manifest.
	w.serve(manifest(w.path("pipe"))).exits(2, patience).says("it is not a regular file (a pipe)")
	w.serve(w.path("pipe")).exits(2, patience).says("it is not a regular file (a pipe)")
}

// A second signal ends a process, whatever it waits for: here a log that nobody reads, and a manifest that nobody
// writes.
// Holds: promise 27.
func TestASecondSignalEndsWhatWaits(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	r, full, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	const size, setSize = 4096, 1031 // F_SETPIPE_SZ
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, full.Fd(), setSize, size); errno != 0 {
		t.Fatal(errno)
	}
	if _, err := full.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	m := w.write("m.yaml", "version: 1\napp: app\njobs:\n- {name: job, schedule: '@every 1s', command: [touch, "+w.path("ran")+"]}\n")
	cmd := w.serving(dibsBinary, m)
	cmd.Stderr = full
	if err := launch(cmd); err != nil {
		t.Fatal(err)
	}
	full.Close()
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	defer func() { r.Close(); _ = cmd.Process.Kill(); <-ended }()
	eventually(t, patience, func() bool { _, err := os.Stat(w.path("ran")); return err == nil }, func() string { return "it serves" })
	told(t, cmd.Process, ended)

	// Standard input that never ends.
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd = w.serving(dibsBinary, "-")
	cmd.Stdin = in
	p := w.start(cmd)
	if _, err := io.WriteString(out, "version: 1\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, func() bool {
		unread, err := unix.IoctlGetInt(int(in.Fd()), unix.TIOCINQ)
		return err == nil && unread == 0
	}, p.String)
	told(t, p.Process, p.ended)
}

// told sends two signals to a process, which must end. They differ: two of a kind may arrive as one.
func told(t *testing.T, p *os.Process, ended <-chan struct{}) {
	t.Helper()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		_ = p.Signal(sig) // it may have ended
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Errorf("still running after two signals")
	}
}
