//go:build linux

package command

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
)

// said is what a target's command printed, by lines.
func said(t *testing.T, target Target, id string) []string {
	t.Helper()
	var out bytes.Buffer
	res := target.Attempt(t.Context(), call(t, id, memory.New(memory.Options{}), &out))
	if res.Recorded != nil {
		res.Recorded()
	}
	if res.Outcome != run.Succeeded {
		t.Fatalf("%+v; it printed %q", res, out.String())
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

// A command as another user has that user's ids, groups and home, a umask and a niceness of its
// own, and is killed all the same; its guardian stays what it is.
func TestACommandRunsAsWhomItIsToldTo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not covered: only root can run a command as another user")
	}
	t.Parallel()
	nobody, err := LookupUser("nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	umask, id := 0o27, newRun(t)
	before, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	target := Target{User: nobody, Umask: &umask, Nice: 7, ExtraEnv: []string{"A=1"}, Dir: "/",
		Args: shell(id, `id -u; id -g; id -G; umask; nice; echo $HOME $USER $LOGNAME $A`)}
	got := said(t, target, id)
	want := []string{"65534", "65534", "65534", "0027", "7", nobody.Home + " nobody nobody 1"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("it saw %q, want %q", got, want)
	}
	if mine, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0); mine != before {
		t.Errorf("this process's priority is %d now, and was %d", mine, before)
	}

	id = newRun(t)
	target = Target{User: nobody, Dir: "/", Args: shell(id, `trap '' TERM; echo up; while :; do sleep 0.02; done`)}
	if got, _ := attempt(t, target, id, run.ErrShutdown, 100*time.Millisecond); got != run.Canceled {
		t.Errorf("a deaf command of another user ended as %s", got)
	}
}

func TestLookupUser(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, group string
		uid, gid    uint32
		wrong       string
	}{
		{"root", "", 0, 0, ""}, {"0", "", 0, 0, ""}, {"nobody", "root", 65534, 0, ""}, {"nobody", "0", 65534, 0, ""},
		{"no-such-user", "", 0, 0, `user "no-such-user"`}, {"root", "no-such-group", 0, 0, `group "no-such-group"`},
	} {
		u, err := LookupUser(c.name, c.group)
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q, %q: %v", c.name, c.group, err)
			}
		case err != nil || u.UID != c.uid || u.GID != c.gid:
			t.Errorf("%q, %q: %+v, %v", c.name, c.group, u, err)
		case c.group != "" && len(u.Groups) != 0:
			t.Errorf("%q, %q: it keeps the groups %v", c.name, c.group, u.Groups)
		}
	}
}

// Of two values of a variable the later one counts, in whatever language the command is written.
func TestAVariableHasOneValue(t *testing.T) {
	id := newRun(t)
	t.Setenv("COLOUR", "red")
	var got []string
	for _, line := range said(t, Target{ExtraEnv: []string{"COLOUR=blue"}, Args: []string{"env"}}, id) {
		if strings.HasPrefix(line, "COLOUR=") {
			got = append(got, line)
		}
	}
	if len(got) != 1 || got[0] != "COLOUR=blue" {
		t.Errorf("it saw %q", got)
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	bad := 0o1777
	for _, s := range []Spec{{Umask: &bad}, {Nice: 20}, {Nice: -21}} {
		s.Args, s.RunID = []string{"true"}, newRun(t)
		if _, err := Start(s); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
