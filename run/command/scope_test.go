//go:build linux

package command

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/guardian/cgroup"
)

// madeScopes are control groups that the test makes, in the place of a service manager.
type madeScopes struct {
	parent string
	err    error // what Start says, after it did its work
}

func (m *madeScopes) Dir(name, runID string) string {
	return filepath.Join(m.parent, "dibs-"+filepath.Base(name)+"-"+runID+".scope")
}

func (m *madeScopes) Start(name, runID string, pids ...int) error {
	dir := m.Dir(name, runID)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, pid := range pids {
		if err := cgroup.Move(dir, pid); err != nil {
			return err
		}
	}
	return m.err
}

// useScopes has commands begin in scopes until the test ends: by then the scopes are empty. Such a test is not
// parallel, since all commands of this process begin there.
func useScopes(t *testing.T) *madeScopes {
	t.Helper()
	if !cgroup.Usable(cgroup.Parent()) {
		t.Skip("not covered: no control group can be made here")
	}
	m := &madeScopes{parent: t.TempDir()}
	m.parent = filepath.Join(cgroup.Parent(), "dibs-test-"+filepath.Base(filepath.Dir(m.parent)))
	if err := os.Mkdir(m.parent, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cgroup.Remove(m.parent); err != nil {
			t.Errorf("the scopes are not empty: %v", err)
		}
	})
	if err := UseScopes(m); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = UseScopes(nil) })
	return m
}

// groupOfProcess is the control group of version 2 of a process, below this one's.
func groupOfProcess(t *testing.T, pid string) string {
	t.Helper()
	at := func(pid string) string {
		b, err := os.ReadFile("/proc/" + pid + "/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		_, group, _ := strings.Cut(string(b), "0::")
		group, _, _ = strings.Cut(group, "\n")
		return strings.TrimSuffix(group, "/")
	}
	return cgroup.Parent() + strings.TrimPrefix(at(pid), at("self"))
}

// Guardian and warden are in the scope before there is a command, and the command is in the group that its lease's
// record names.
func TestACommandBeginsInAScope(t *testing.T) {
	m := useScopes(t)
	for _, name := range []string{"", "shop/report"} {
		run := newRun(t)
		p := start(t, Spec{Args: shell(run, "read x < /dev/null; exec sleep 300"), RunID: run, Key: testKey, Name: name})
		group := CgroupFor(testKey, run)
		if name == "" {
			name = string(testKey)
		} else {
			group = CgroupNamed(name, testKey, run)
		}
		for who, pid := range map[string]int{"warden": p.warden.pid, "guardian": p.guardian.pid} {
			if got := groupOfProcess(t, strconv.Itoa(pid)); got != m.Dir(name, run) {
				t.Errorf("the %s is in %s, and not in %s", who, got, m.Dir(name, run))
			}
		}
		if got := groupOfProcess(t, strconv.Itoa(p.Pid())); got != group || filepath.Dir(group) != m.Dir(name, run) {
			t.Errorf("the command is in %s, and its record names %s", got, group)
		}
		p.Kill()
		within(t, "killed", soon, p.Reaped())
		if _, err := os.Stat(group); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the run's group in the scope is left: %v", err)
		}
	}
}

// A scope that is not had keeps no command from running, where it would run without scopes; nor does it say anything
// into the command's output.
// Holds: promise 15.
func TestACommandWithoutItsScopeRuns(t *testing.T) {
	m := useScopes(t)
	m.err = errors.New("not in time, and moved all the same")
	run := newRun(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := start(t, Spec{Args: shell(run, "read x < /dev/null; exec sleep 300"), RunID: run, Key: testKey, Stdout: w, Stderr: w})
	w.Close()
	want := cgroup.For(bound(testKey, run))
	if got := groupOfProcess(t, strconv.Itoa(p.Pid())); got != want {
		t.Errorf("the command is in %s, and not in %s", got, want)
	}
	if got := groupOfProcess(t, strconv.Itoa(p.guardian.pid)); got != cgroup.Parent() {
		t.Errorf("the guardian is in %s", got)
	}
	p.Kill()
	within(t, "killed", soon, p.Reaped())
	printed := make([]byte, 1000)
	if n, _ := r.Read(printed); n > 0 {
		t.Errorf("the output has %q", printed[:n])
	}
}

// What was renewed while a scope was asked for counts when the command begins.
func TestARenewalBeforeTheCommandBeginsCounts(t *testing.T) {
	t.Parallel()
	run := newRun(t)
	p := start(t, Spec{Args: shell(run, "exit 0"), RunID: run, Deadline: Deadline{Term: 1, Kill: 2}, Renewed: func() Deadline { return Deadline{} }})
	if got := within(t, "the end", soon, p.Exited()); got != (Exit{}) {
		t.Errorf("%+v", got)
	}
}

// A trial that fails changes nothing.
func TestScopesThatDoNotWorkAreNotUsed(t *testing.T) {
	m := useScopes(t)
	_ = UseScopes(nil)
	m.err = errors.New("no")
	if err := UseScopes(m); !errors.Is(err, m.err) {
		t.Error(err)
	}
	if got, want := CgroupFor(testKey, "x"), cgroup.For(bound(testKey, "x")); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A group in a scope may be absent because there was no scope: that proves less than where dibs makes the group
// itself.
func TestAnAbsentScopeProvesLess(t *testing.T) {
	t.Parallel()
	for group, want := range map[string]bool{
		"/sys/fs/cgroup/system.slice/dibs-shop.x-1.scope/dibs-1-a": true,
		"/sys/fs/cgroup/system.slice/dibs.service/dibs-1-a":        false,
		"/sys/fs/cgroup/user.slice/session-3.scope/dibs-1-a":       false,
		"": false,
	} {
		if promised(group) != want {
			t.Errorf("%q: %t", group, !want)
		}
	}
}
