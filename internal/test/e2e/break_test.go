//go:build linux

package e2e

import (
	"os"
	"os/user"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Rule L5: a broken lease is free only once its holder has stopped, and the record says who broke it
// and why.
// Holds: promises 5, 24, L5.
func TestBreak(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		holder := w.run("k", nil, w.work("first", work{For: 5 * time.Minute, Family: true, Deaf: true}))
		pids := w.worksWithFamily("first")
		waiter := w.run("k", []string{"--wait", "5m"}, w.work("second", work{}))
		w.waits(waiter)
		w.must("lease", "break", "k", "--reason", "it hangs")
		broken := time.Now()
		gone := w.gone(broken, w.ttl, pids)
		holder.exits(79, patience)
		waiter.exits(0, patience)
		got := w.hears(time.Second, 1, "start", "second")[0].At
		t.Logf("command gone %s after the break, the waiting one started after %s (ttl %s)", gone.Sub(broken), got.Sub(broken), w.ttl)
		w.noOverlap()
		r := holder.result()
		reason := w.recorded("k", r.RunID, "lost")
		for _, text := range []string{"broken by " + me(t), "it hangs"} {
			if !strings.Contains(r.Reason, text) || !strings.Contains(reason, text) {
				t.Errorf("no %q in the reasons %q, %q", text, r.Reason, reason)
			}
		}
		holder.says("broken by " + me(t))
		if e := w.events("lease-broken"); len(e) != 1 || e[0].RunID != r.RunID || !strings.Contains(e[0].Reason, me(t)) {
			t.Errorf("events: %+v", e)
		}
	})
}

// The unsafe break asks for a reason and is recorded as what it is.
// Holds: promise 5.
func TestBreakNow(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		holder := w.run("k", nil, w.work("first", work{For: 5 * time.Minute}))
		w.hears(patience, 1, "start", "first")
		w.dibs("lease", "break", "k", "--now").exits(2, patience).says("--reason")
		if v := w.holder("k"); v.Holder.PID != holder.Process.Pid {
			t.Errorf("a refused break changed the holder: %+v", v)
		}
		out := w.must("lease", "break", "k", "--now", "--reason", "its host burns\xff") // a byte that PostgreSQL takes for no text
		if !strings.Contains(out, "may still be running") {
			t.Errorf("it does not warn: %s", out)
		}
		holder.exits(79, patience)
		w.recorded("k", holder.result().RunID, "lost")
		e := w.events("lease-broken-unsafe")
		if len(e) != 1 || !strings.Contains(e[0].Reason, "its host burns") || !strings.Contains(e[0].Reason, me(t)) {
			t.Errorf("events: %+v", e)
		}
		w.dibs("lease", "break", "k", "--reason", "again").exits(1, patience).says("it is not held")
	})
}

func me(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username + "@" + host
}

// A dry run says who would be stopped, when the key would be free and what would run again, and changes nothing.
func TestBreakDryRun(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		holder := w.run("k", nil, w.work("first", work{For: 5 * time.Minute}))
		w.hears(patience, 1, "start", "first")
		scope := "global"
		if w.name == "file" {
			scope = "host"
		}
		serve := w.dibs("serve", "--default-scope", scope, w.jobs(job{"again", "@every 2s", `{"on_crash": "rerun"}`, w.work("again", work{For: 5 * time.Minute})},
			job{"once", "@every 2s", "{}", w.work("once", work{For: 5 * time.Minute})}))
		w.hears(patience, 1, "start", "again")
		w.hears(patience, 1, "start", "once")
		for key, says := range map[string]string{"k": "The run has no tick", "app/again": "run once more (on_crash: rerun)", "app/once": "not run again (on_crash: skip)"} {
			for flag, texts := range map[string][]string{
				"--dry-run": {says, "Within 2 s", "would be free then: in ", w.holder(key).Holder.RunID},
				"--now":     {says, "would be free at once"},
			} {
				out := w.must("lease", "break", key, "--dry-run", flag)
				for _, text := range texts {
					if !strings.Contains(out, text) {
						t.Errorf("%s %s: no %q in\n%s", key, flag, text, out)
					}
				}
			}
			var v struct {
				State   string
				FreeIn  float64 `json:"free_in_seconds"`
				Job     string
				OnCrash string `json:"on_crash"`
			}
			w.decode(&v, "lease", "break", key, "--dry-run", "-o", "json")
			if v.State != "held" || v.FreeIn <= 0 || v.FreeIn > w.ttl.Seconds() || (v.Job == "") != (key == "k") || (v.OnCrash == "") != (key == "k") {
				t.Errorf("%s: %+v", key, v)
			}
		}
		if !holder.running() || len(w.events("lease-broken")) > 0 {
			t.Errorf("a dry run broke it: %s", holder)
		}
		w.dibs("lease", "break", "nobody", "--dry-run").exits(1, patience).says("not held")
		holder.signal(syscall.SIGTERM)
		serve.signal(syscall.SIGTERM)
		serve.wait(patience)
	})
}
