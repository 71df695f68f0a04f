//go:build linux

package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// look writes the environments that a command finds: its own, and those of all dibs processes above it.
const look = `p=$PPID
{
	echo "== own"; env
	while name=$(tr '\0' '\n' < /proc/$p/cmdline | head -n 1) && name=${name##*/} && [ "${name#dibs}" != "$name" ]; do
		echo "== $name"; tr '\0' '\n' < /proc/$p/environ
		p=$(awk '/^PPid:/ {print $2}' /proc/$p/status)
	done
} > seen.new && mv seen.new seen`

// A command of dibs's own user finds neither the store's address nor another job's secret: not in its own
// environment, nor in that of its guardian, its warden, or dibs.
// Holds: promise 28.
func TestWhatACommandFindsInEnvironments(t *testing.T) {
	t.Parallel()
	t.Run("own", func(t *testing.T) { findsNoSecrets(t, nil) })
	t.Run("nobody", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("not covered: only root can run dibs as another user")
		}
		findsNoSecrets(t, &syscall.Credential{Uid: 65534, Gid: 65534})
	})
}

// findsNoSecrets has dibs run by a user, nil for this one.
func findsNoSecrets(t *testing.T, user *syscall.Credential) {
	for _, kind := range []string{"run", "serve", "trigger", "work"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := fileWorld(t)
			w.as(user)
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
			eventually(t, patience, func() bool { seen, _ = os.ReadFile(w.path("seen")); return len(seen) > 0 }, p.String)
			_ = p.Process.Signal(syscall.SIGTERM)
			p.wait(patience)
			for _, whose := range []string{"own", "dibs-guardian", "dibs-warden", "dibs"} {
				_, rest, _ := strings.Cut(string(seen), "== "+whose+"\n")
				if env, _, _ := strings.Cut(rest, "== "); !strings.Contains(env, "SHOWN=yes\n") {
					t.Fatalf("it did not see the environment %q:\n%s", whose, seen)
				}
			}
			for _, secret := range []string{w.url, "hunter2"} {
				if strings.Contains(string(seen), secret) {
					t.Errorf("it finds %s:\n%s", secret, seen)
				}
			}
		})
	}
}
