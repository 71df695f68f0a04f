//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Rule H3: a command of dibs's, of whatever kind and user, enqueues in the store of the dibs that runs it,
// although it is not told the address. (It answered "enqueued", and put the task into the host's own
// directory.)
// Holds: H3.
func TestACommandEnqueuesWhereItBelongs(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		child := func(kind string) []string {
			return []string{dibsBinary, "task", "enqueue", kind, "--queue", "children"}
		}
		want := []string{"of-run", "of-work", "of-job", "of-when", "of-hook"}
		jobs := []any{map[string]any{"name": "own", "schedule": "@every 2s", "command": child("of-job"), "when": child("of-when"),
			"hooks": []any{map[string]any{"on": []string{"success"}, "command": child("of-hook")}}}}
		if os.Geteuid() == 0 {
			want = append(want, "of-nobody")
			jobs = append(jobs, map[string]any{"name": "other", "schedule": "@every 2s", "command": child("of-nobody"), "dir": "/", "user": "65534"})
		}
		text, err := json.Marshal(map[string]any{"version": 1, "app": "app", "jobs": jobs})
		if err != nil {
			t.Fatal(err)
		}
		server := w.serve(w.write("jobs.json", string(text)))
		w.run("k", nil, child("of-run")).exits(0, patience)
		w.must("task", "enqueue", "parent", "--queue", "parents")
		worker := w.start(w.command(dibsBinary, append([]string{"work", "parents", "--"}, child("of-work")...)...))
		missing := func() []string {
			all := w.tasks("--queue", "children", "-n", "1000")
			return slices.DeleteFunc(slices.Clone(want), func(kind string) bool {
				return slices.ContainsFunc(all, func(k taskView) bool { return k.Kind == kind })
			})
		}
		eventually(t, patience, func() bool { return len(missing()) == 0 },
			func() string { return fmt.Sprintf("no task of %v\n%s\n%s", missing(), server, worker) })
		for _, p := range []*process{server, worker} {
			p.signal(syscall.SIGTERM)
			p.exits(0, patience)
		}
	})
}

// What cannot reach its own store, and would find another one, says so. A store that is named counts.
func TestACommandFindsNoOtherStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "redis", servers[0].shared(t), usualTTL)
	withheld := "hides its store's address, because it may contain a password"
	for _, c := range []struct {
		command string
		status  int
		says    string
	}{
		{"run --key inner -- true", 125, withheld},
		{"history", 125, withheld},
		{"job list", 125, withheld},
		{"lease list", 125, withheld},
		{"run --scope host --key inner -- echo on this host", 0, ""},
		{"run --store $DIR --key inner -- echo named", 0, ""},
	} {
		script := strings.ReplaceAll(dibsBinary+" "+c.command, "$DIR", w.path("another"))
		p := w.run("outer", nil, []string{"/bin/sh", "-c", script})
		if got := p.wait(patience); (got == 0) != (c.status == 0) || !strings.Contains(p.stderr(), c.says) {
			t.Errorf("%s: status %d, want %d\n%s", c.command, got, c.status, p)
		}
	}
	// Once its dibs is gone, so is the way.
	left := w.path("left")
	p := w.run("gone", []string{"--leftovers", "leave"}, []string{"/bin/sh", "-c",
		// It is told when its dibs is gone, or ends with this test.
		`setsid sh -c 'while ! test -e "$2"; do test -d "${2%/*}" || exit; sleep 0.1; done; "$0" task enqueue late >$1 2>&1; echo "status $?" >>$1' ` +
			dibsBinary + " " + left + " " + w.path("gone") + ` </dev/null >/dev/null 2>&1 &`})
	p.exits(0, patience)
	w.create("gone")
	eventually(t, patience, func() bool { return strings.Contains(w.read("left"), "status") }, func() string { return p.String() })
	if text := w.read("left"); !strings.Contains(text, "status 69") || !strings.Contains(text, "cannot be reached") {
		t.Errorf("after the end of its dibs it says %s", text)
	}
	if n := len(w.tasks("--kind", "late")); n > 0 {
		t.Errorf("%d tasks", n)
	}
}

// The address's password is nowhere in what a command is told.
func TestACommandIsToldNoPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "redis", servers[0].shared(t), usualTTL)
	p := w.run("k", nil, []string{"/bin/sh", "-c", "tr '\\0' '\\n' < /proc/self/environ; tr '\\0' '\\n' < /proc/$PPID/environ"})
	p.exits(0, patience)
	if out := p.stdout(); strings.Contains(out, w.url) || !strings.Contains(out, "DIBS_STORE_VIA=@dibs-") {
		t.Errorf("it is told %s", out)
	}
}
