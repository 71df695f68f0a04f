//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/uncovered"
)

// A copy of dibs that is setuid or setgid would read files and start commands for everybody with another user's
// rights: it refuses to run, also as one of the processes that it knows by their zeroth argument, which the caller
// chooses.
func TestASetuidCopyIsRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		uncovered.Skip(t, "a setuid copy", "it needs root")
	}
	w := fileWorld(t)
	for what, mode := range map[string]string{"setuid": "4755", "setgid": "2755"} {
		copied := filepath.Join(filepath.Dir(dibsBinary), what) // where other users may run it
		// Not by this process: a program that it still has open for writing, or a child that it just forks, does not
		// run.
		if out, err := exec.Command("install", "-m", mode, dibsBinary, copied).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, args := range [][]string{
			{copied, "version"},
			{"dibs-usher", "9", "0", "/bin/sh", "sh", "-p", "-c", "exit 3"},
			{"dibs-guardian", "run", "-", "", "/bin/sh", "sh"},
			{"dibs-warden", "run", "-", "", "0", "/bin/sh", "sh"},
		} {
			cmd := w.command(copied)
			cmd.Args = args
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			w.start(cmd).exits(125, patience).says("setuid or setgid")
		}
	}
}

// The variable ZONEINFO, which a user or a service may have, changes no zone.
func TestZoneinfoChangesNoZone(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	if err := os.MkdirAll(filepath.Join(w.path("zones"), "Europe"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.write("zones/Europe/Berlin", zoneFile(90*time.Minute))
	w.env = append(w.env, "ZONEINFO="+w.path("zones"))
	if told := w.must("next", "0 7 1 1 *", "--tz", "Europe/Berlin", "-n", "1", "-o", "json"); !strings.Contains(told, "T06:00:00Z") && !strings.Contains(told, "T07:00:00+01:00") {
		t.Errorf("at seven in Berlin: %s", told)
	}
}
