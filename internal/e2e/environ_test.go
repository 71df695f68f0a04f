//go:build linux

package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command of dibs's own user finds neither the store's address nor another job's secret: not in its own
// environment, nor in its guardian's, nor in that of dibs.
func TestWhatACommandFindsInEnvironments(t *testing.T) {
	t.Parallel()
	const look = `d=$(awk '/^PPid:/ {print $2}' /proc/$PPID/status)
		{ env; tr '\0' '\n' < /proc/$PPID/environ; tr '\0' '\n' < /proc/$d/environ; } > seen.new && mv seen.new seen`
	for _, kind := range []string{"run", "serve", "trigger", "work"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := fileWorld(t)
			w.env = []string{"OTHERS=hunter2", "SHOWN=yes"}
			m := w.write("jobs.json", `{"version": 1, "app": "app", "jobs": [
				{"name": "a", "schedule": "@every 1s", "command": ["sh", "look"]},
				{"name": "b", "schedule": "@every 24h", "command": ["true"], "env_from": {"TOKEN": "env:OTHERS"}}]}`)
			w.write("look", look)
			var p *process
			switch kind {
			case "run":
				w.env = w.env[1:] // there is no manifest that says what is a secret
				p = w.dibs("run", "--key", "k", "--scope", "host", "--", "sh", "look")
			case "serve":
				p = w.dibs("serve", m, "--default-scope", "host")
			case "trigger":
				p = w.dibs("trigger", "app.a", "--now", "--manifest", m, "--default-scope", "host")
			case "work":
				w.env = w.env[1:]
				w.must("task", "enqueue", "k", "--args", "{}")
				p = w.dibs("work", "default", "--", "sh", "look")
			}
			var seen []byte
			eventually(t, 60*time.Second, func() bool { seen, _ = os.ReadFile(w.path("seen")); return len(seen) > 0 }, p.String)
			_ = p.Process.Signal(syscall.SIGTERM)
			p.wait(60 * time.Second)
			if n := strings.Count(string(seen), "SHOWN=yes"); n != 3 {
				t.Fatalf("it saw %d environments:\n%s", n, seen)
			}
			for _, secret := range []string{w.url, "hunter2"} {
				if strings.Contains(string(seen), secret) {
					t.Errorf("it finds %s:\n%s", secret, seen)
				}
			}
		})
	}
}
