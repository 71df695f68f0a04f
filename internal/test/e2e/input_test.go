//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Bad input: one error that names the place and the cure, a status of its own, and nothing started.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	touch := []string{"--", "touch", w.path("ran")}
	run := func(flags ...string) []string { return append(append([]string{"run"}, flags...), touch...) }
	bad := w.write("bad.yaml", "version: 1\napp: app\njobs:\n  - name: a\n    schedule: \"* * * * *\"\n    command: [touch, ran]\n    polcy: {}\n")
	for _, c := range []struct {
		args   []string
		status int
		says   []string
	}{
		// keys
		{run("--key", strings.Repeat("k", 513)), 125, []string{"--key", "513 bytes", "512"}},
		{run("--key", "a\nb"), 125, []string{"--key", "control character at byte 1"}},
		{run("--key", "a\xffb"), 125, []string{"--key", "UTF-8"}},
		{[]string{"lease", "show", strings.Repeat("k", 513)}, 2, []string{"513 bytes", "512"}},
		{[]string{"lease", "break", "a\x01"}, 2, []string{"control character"}},
		// durations
		{run("--key", "k", "--wait", "soon"), 125, []string{"--wait", "soon"}},
		{run("--key", "k", "--timeout", "5"), 125, []string{"--timeout", `"5"`}},
		{run("--key", "k", "--once-per", "-5m"), 125, []string{"--once-per", "-5m"}},
		{[]string{"serve", bad, "--drain", "x"}, 2, []string{"--drain"}},
		// expressions and zones
		{run("--key", "k", "--once-per", "61 * * * *"), 125, []string{"--once-per", "61"}},
		{run("--key", "k", "--once-per", "* * * *"), 125, []string{"--once-per", "* * * *"}},
		{run("--key", "k", "--once-per", "0 0 31 2 *"), 125, []string{"--once-per", "0 0 31 2 *"}},
		{run("--key", "k", "--once-per", "* * * * *", "--tz", "Mars/Base"), 125, []string{"--tz", "Mars/Base"}},
		{[]string{"next", "61 * * * *"}, 2, []string{"61"}},
		{[]string{"next", "0 0 31 2 *"}, 2, []string{"0 0 31 2 *"}},
		{[]string{"next", "* * * * *", "--tz", "Mars/Base"}, 2, []string{"--tz", "Mars/Base"}},
		{[]string{"next", "* * * * *", "--after", "noon"}, 2, []string{"--after", "noon", "2026-"}},
		// stores
		{run("--key", "k", "--store", "oracle://h/"), 125, []string{"--store", "scheme", "postgres"}},
		{run("--key", "k", "--store", "redis://h/?ttl=tomorrow"), 125, []string{"--store", "ttl", "tomorrow"}},
		{run("--key", "k", "--store", "redis://h:port/"), 125, []string{"--store", "port"}},
		{[]string{"history", "--store", "oracle://h/"}, 2, []string{"--store", "scheme", "postgres"}},
		// manifests
		{[]string{"serve", bad}, 2, []string{"jobs/0/polcy", "policy"}},
		{[]string{"validate", bad}, 2, []string{"jobs/0/polcy", "policy"}},
		{[]string{"next", bad}, 2, []string{"jobs/0/polcy", "policy"}},
		// policies, and what does not go together
		{run("--key", "k", "--policy", "often"), 125, []string{"--policy", "often", "Forbid"}},
		{run("--key", "k", "--on-crash", "rerun"), 125, []string{"--on-crash", "--once-per"}},
		{run("--key", "k", "--policy", "wait", "--wait", "1s"), 125, []string{"--wait", "forbid"}},
		{run("--key", "k", "--scope", "global"), 125, []string{"--scope global", "--store"}},
		{run("--key", "k", "--contended-exit", "300"), 125, []string{"--contended-exit", "0-255"}},
		{[]string{"history", "-o", "xml"}, 2, []string{"-o", "xml", "json"}},
		{[]string{"history", "-n", "0"}, 2, []string{"-n", "10000"}},
		{[]string{"lease", "break"}, 2, []string{"one key"}},
		{[]string{"frobnicate"}, 2, []string{"frobnicate"}},
	} {
		p := w.dibs(c.args...)
		if p.exits(c.status, patience).says(c.says...); strings.Count(strings.TrimSpace(p.stderr()), "dibs: ") != 1 {
			t.Errorf("want one error: %s", p)
		}
	}
	if _, err := os.Stat(w.path("ran")); err == nil {
		t.Error("something was started")
	}
}

// Promise 7: no store, no start, whatever is asked.
// Holds: promise 7.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	m := w.manifest("job", "@every 1s", "{}", "job", work{})
	for _, address := range []string{"redis://127.0.0.1:1/0", "postgres://postgres@127.0.0.1:1/test", "mysql://root@127.0.0.1:1/test"} {
		for _, args := range [][]string{
			append([]string{"run", "--key", "k", "--json", "3", "--"}, w.work("job", work{})...),
			append([]string{"run", "--key", "k", "--once-per", dueNow(), "--json", "3", "--"}, w.work("job", work{})...),
			{"serve", m, "--default-scope", "global"},
			{"history"}, {"lease", "list"}, {"lease", "break", "k"}, {"init"},
		} {
			p := w.in(t, "DIBS_STORE="+address).dibs(args...)
			p.exits(69, patience).says("127.0.0.1:1")
		}
	}
	if n := len(heard(t, w.dir)); n > 0 {
		t.Errorf("started without a store:\n%s", w.log())
	}
}

// Rule L13: keys are bytes. What a database may fold together stays apart, on every store.
// Holds: L13.
func TestKeysAreBytes(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		keys := []string{"key", "KEY", "key ", "k\u00e9y", "ke\u0301y", "straße", strings.Repeat("k", 512)}
		if long {
			keys = append(keys, "Key", " key", "key/", "kay", "strasse", "ключ", "key\u200b", "%6bey", strings.Repeat("k", 511))
		}
		var holders []*process
		for i, key := range keys {
			// A directory of its own: these do overlap each other.
			name := fmt.Sprint(i)
			if err := os.Mkdir(w.path(name), 0o755); err != nil {
				t.Fatal(err)
			}
			some := work{Dir: w.path(name), Name: name, Until: w.path("go")}
			holders = append(holders, w.run(key, nil, some.args()))
		}
		for i, key := range keys {
			eventually(t, patience, func() bool { return len(heard(t, w.path(fmt.Sprint(i)))) > 0 || !holders[i].running() },
				func() string { return fmt.Sprintf("%q held beside the others: %s", key, holders[i]) })
			if !holders[i].running() {
				t.Fatalf("%q: %s", key, holders[i])
			}
		}
		var contenders []*process
		for _, key := range keys {
			contenders = append(contenders, w.run(key, nil, []string{"true"}))
		}
		for i, key := range keys {
			contenders[i].exits(75, patience)
			if r := contenders[i].result(); r.Key != key || r.HeldBy == nil || r.HeldBy.PID != holders[i].Process.Pid {
				t.Errorf("%q is held by pid %d, but: %s", key, holders[i].Process.Pid, contenders[i])
			}
		}
		w.create("go")
		for i, key := range keys {
			holders[i].exits(0, patience)
			if all := w.history(key); len(all) != 1 || all[0].Job != key || all[0].Runs[0].RunID != holders[i].result().RunID {
				t.Errorf("history of %q has %+v", key, all)
			}
		}
	})
}
