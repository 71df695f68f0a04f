//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A job's condition runs as its command does: as the same user, in the same place, with the same environment.
func TestAConditionRunsAsItsJob(t *testing.T) {
	t.Parallel()
	notCovered(t, os.Geteuid() != 0, "a condition's user", "only root can run a command as another user")
	w := fileWorld(t)
	w.env = append(w.env, "KEY=s3cret")
	p := w.serve(w.write("m.yaml", `
version: 1
app: app
jobs:
- {name: job, schedule: "@every 1s", command: ["true"], user: nobody, dir: /, umask: "027", env: {A: one}, env_from: {B: "env:KEY"},
   when: {shell: 'echo $(id -un) $(umask) $(pwd) $A $B $KEY; exit 1'}}
`))
	p.logs("event=when", `output="nobody 0027 / one s3cret"`)
	stop(p)
}

// A condition that does not end is killed with all that it started when its server dies.
// Holds: promise 14.
func TestTheConditionsOfTheKilledDieWithIt(t *testing.T) {
	t.Parallel()
	for _, cgroup := range []string{"on", "off"} {
		w := fileWorld(t)
		w.env = append(w.env, "DIBS_CGROUP="+cgroup)
		when, err := json.Marshal(w.work("when", work{For: 5 * time.Minute, Family: true, Deaf: true}))
		if err != nil {
			t.Fatal(err)
		}
		p := w.serve(w.write("m.json", fmt.Sprintf(`{"version": 1, "app": "app", "jobs": [{"name": "job", "schedule": "@every 2s", "command": ["true"], "when": %s}]}`, when)))
		pids := w.worksWithFamily("when")
		killed := time.Now()
		p.signal(syscall.SIGKILL)
		t.Logf("cgroup %s: gone %s after the kill", cgroup, w.gone(killed, patience, pids).Sub(killed))
	}
}

// A condition may print what it likes: the server does not grow.
// Holds: promise 14.
func TestAConditionThatFillsItsOutput(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	p := w.serve(w.write("m.yaml", `
version: 1
app: app
jobs:
- {name: job, schedule: "@every 2s", command: ["true"], when: {shell: "head -c 400000000 /dev/zero; exit 1"}}
`))
	p.logs("event=when")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var peak int
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &peak)
	}
	if peak == 0 || peak > 300<<10 {
		t.Errorf("at its most the server had %d kB", peak)
	}
	p.signal(syscall.SIGKILL)
}
