//go:build linux

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A drain: no new ticks, what runs may end, and is told to once the drain is over.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	t.Run("the work ends in time", func(t *testing.T) {
		t.Parallel()
		w := fileWorld(t)
		p := w.serve(w.manifest("job", "@every 1s", `{"concurrency": "Allow"}`, "job", work{Until: w.path("go")}), "--drain", "1m")
		w.hears(patience, 2, "start", "job")
		p.signal(syscall.SIGTERM)
		eventually(t, patience, func() bool { return strings.Contains(p.stderr(), "draining") }, p.String)
		draining := time.Now()      // the start of an earlier tick may still be under way
		time.Sleep(3 * time.Second) // three more ticks
		w.create("go")
		p.exits(0, patience)
		if some := w.ticksAfter("job", draining); len(some) > 0 {
			t.Errorf("draining since %s, it started the ticks %v", draining, some)
		}
		for _, e := range w.history("app/job") {
			if len(e.Runs) > 0 && e.Outcome != "succeeded" {
				t.Errorf("history has %+v", e)
			}
		}
	})
	for name, deaf := range map[string]bool{"the work is told to end": false, "the work is killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fileWorld(t)
			p := w.serve(w.manifest("job", "@every 2s", `{"stop_grace_seconds": 5}`, "job", work{For: 5 * time.Minute, Deaf: deaf}), "--drain", "1s")
			s := w.hears(patience, 1, "start", "job")[0]
			told := time.Now()
			p.signal(syscall.SIGTERM)
			p.exits(0, patience)
			heardTerm := w.hears(time.Second, 1, "terminated", "job")[0].At
			if after := heardTerm.Sub(told); after < time.Second {
				t.Errorf("told to end after %s; the drain is 1s", after)
			}
			if alive(s.PID) {
				t.Error("the work outlived its server")
			}
			e := w.tickOf("app/job", s)
			if e.Outcome != "canceled" || e.Reason != "shutdown" || len(e.Runs) != 1 || e.Runs[0].Outcome != "canceled" {
				t.Errorf("history has %+v", e)
			}
		})
	}
	t.Run("a second signal ends the drain", func(t *testing.T) {
		t.Parallel()
		w := fileWorld(t)
		p := w.serve(w.manifest("job", "@every 2s", "{}", "job", work{For: 5 * time.Minute}), "--drain", "5m")
		w.hears(patience, 1, "start", "job")
		p.signal(syscall.SIGTERM)
		eventually(t, patience, func() bool { return strings.Contains(p.stderr(), "draining") }, p.String)
		p.signal(syscall.SIGTERM)
		p.exits(0, patience)
	})
}

// ticksAfter are those after an instant that a work was started for.
func (w *world) ticksAfter(name string, from time.Time) (some []string) {
	w.t.Helper()
	for _, s := range which(heard(w.t, w.dir), "start", name) {
		at, err := time.Parse(time.RFC3339, s.Env["DIBS_TICK"])
		if err != nil {
			w.t.Fatal(err)
		}
		if at.After(from) {
			some = append(some, s.Env["DIBS_TICK"])
		}
	}
	return some
}

// tickOf is history's entry of the tick under which a work started.
func (w *world) tickOf(key string, s said) (found entry) {
	w.t.Helper()
	for _, e := range w.history(key) {
		if e.Tick != nil && e.Tick.Format(time.RFC3339) == s.Env["DIBS_TICK"] {
			return e
		}
	}
	w.t.Fatalf("history has no tick %s of %s", s.Env["DIBS_TICK"], key)
	return found
}

// A manifest that changes is served without losing a tick; one with an error changes nothing.
func TestServeReloads(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	// However slow the machine is: no tick is too late, none finds the one before it at work.
	const policy = `{"starting_deadline_seconds": 120, "concurrency": "Allow"}`
	a := job{"a", "@every 2s", policy, w.work("a", work{})}
	b := job{"b", "@every 2s", policy, w.work("b", work{})}
	p := w.serve(w.jobs(a))
	w.hears(patience, 1, "start", "a")
	p.signal(syscall.SIGHUP)
	p.logs("event=reloaded", "SIGHUP")
	w.jobs(a, b)
	p.logs("event=reloaded", "the file changed", "jobs=2")
	w.hears(patience, 1, "start", "b")
	w.write("jobs.json", `{"version": 1, "app": "app", "jobs": [{"name": "a", "schedule": "61 * * * *", "command": ["true"]}]}`)
	p.logs("event=reload-failed", "jobs/0/schedule")
	n := len(which(heard(t, w.dir), "start", "b"))
	w.hears(patience, n+2, "start", "b") // the old one is served on
	w.jobs(a)
	p.logs("event=reloaded", "the file changed", "jobs=1")
	n = len(which(heard(t, w.dir), "start", "a"))
	w.hears(patience, n+2, "start", "a")
	// One that a busy store did not let begin is tried again, and may come after others.
	eventually(t, patience, func() bool { return w.ticksInARow("a", 2*time.Second) },
		func() string {
			return fmt.Sprintf("each tick once:\n%s\nhistory has %+v\n%s", w.log(), w.history("app/a"), p)
		})
	stop(p)
}

// logs waits until a line of the log has all of the texts.
func (p *process) logs(texts ...string) {
	p.t.Helper()
	eventually(p.t, patience, func() bool {
		for line := range strings.Lines(p.stderr()) {
			if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
				return true
			}
		}
		return false
	}, func() string { return fmt.Sprintf("%q said by %s", texts, p) })
}

// ticksInARow says whether each tick from the first to the last has started once, of a job whose runs may well
// overlap.
func (w *world) ticksInARow(name string, every time.Duration) bool {
	w.t.Helper()
	var ticks []time.Time
	for _, s := range which(heard(w.t, w.dir), "start", name) {
		at, err := time.Parse(time.RFC3339, s.Env["DIBS_TICK"])
		if err != nil {
			w.t.Fatal(err)
		}
		ticks = append(ticks, at)
	}
	slices.SortFunc(ticks, time.Time.Compare)
	for i := range ticks[1:] {
		if !ticks[i+1].Equal(ticks[i].Add(every)) {
			return false
		}
	}
	return true
}

// Promise 10: a tick that finds the job at work is skipped, and says by whom it is held.
// Holds: promise 10.
func TestServeSkipsOverlap(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		m := w.manifest("job", "@every 2s", "{}", "job", work{Until: w.path("go")})
		servers := []*process{w.serve(m), w.serve(m)}
		first := w.hears(patience, 1, "start", "job")[0]
		holder := w.holder("app/job").Holder
		var skipped []entry
		eventually(t, patience, func() bool {
			skipped = nil
			for _, e := range w.history("app/job") {
				if e.Outcome == "skipped" {
					skipped = append(skipped, e)
				}
			}
			return len(skipped) >= 2
		}, func() string { return fmt.Sprintf("two ticks skipped: %+v", w.history("app/job")) })
		for _, e := range skipped {
			if e.Reason != "overlap" || len(e.Runs) != 0 {
				t.Errorf("history has %+v", e)
			}
		}
		events := w.events("tick-skipped") // the first at once, those that are like it counted later
		if len(events) == 0 || !strings.Contains(events[0].Reason, fmt.Sprintf("held by %s pid %d", holder.Host, holder.PID)) {
			t.Errorf("no event names the holder %+v: %+v", holder, events)
		}
		w.create("go")
		w.hears(patience, 2, "start", "job")
		stop(servers...)
		if e := w.tickOf("app/job", first); e.Outcome != "succeeded" {
			t.Errorf("history has %+v", e)
		}
		w.noOverlap()
	})
}

// Concurrency Replace and Wait under a server.
func TestServePolicies(t *testing.T) {
	t.Parallel()
	t.Run("Replace", func(t *testing.T) {
		t.Parallel()
		w := fileWorld(t)
		p := w.serve(w.manifest("job", "@every 3s", `{"concurrency": "Replace", "stop_grace_seconds": 1}`, "job", work{For: 5 * time.Minute, Family: true}))
		started := w.hears(patience, 2, "start", "job")
		w.noOverlap()
		var e entry
		eventually(t, patience, func() bool { e = w.tickOf("app/job", started[0]); return e.Outcome == "replaced" },
			func() string { return fmt.Sprintf("the first is told as replaced: %+v", e) })
		p.signal(syscall.SIGKILL)
	})
	t.Run("Wait", func(t *testing.T) {
		t.Parallel()
		w := fileWorld(t)
		p := w.serve(w.manifest("job", "@every 2s", `{"concurrency": "Wait"}`, "job", work{Until: w.path("go")}))
		w.hears(patience, 1, "start", "job")
		full := func() bool {
			for _, e := range w.history("app/job") {
				if e.Outcome == "skipped" && e.Reason == "queue_full" {
					return true
				}
			}
			return false
		}
		eventually(t, patience, full, func() string { return fmt.Sprintf("a tick finds the place taken: %+v", w.history("app/job")) })
		opened := time.Now()
		w.create("go")
		second := w.hears(patience, 2, "start", "job")[1]
		if at, err := time.Parse(time.RFC3339, second.Env["DIBS_TICK"]); err != nil || at.After(opened) {
			t.Errorf("what ran then is the tick %s, not the one that waited when the other ended at %s", at, opened)
		}
		stop(p)
		w.noOverlap()
	})
}

// Nothing is served from a manifest with an error, nor where every server would run what one should.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	for name, c := range map[string]struct {
		text string
		says []string
	}{
		"no JSON":       {`{"version": 1,`, []string{"jobs.json"}},
		"unknown field": {`{"version": 1, "app": "app", "jobs": [{"name": "a", "shedule": "* * * * *", "command": ["touch", "ran"]}]}`, []string{"jobs/0/shedule"}},
		"expression":    {`{"version": 1, "app": "app", "jobs": [{"name": "a", "schedule": "* * 32 * *", "command": ["touch", "ran"]}]}`, []string{"jobs/0/schedule", "32"}},
		"zone":          {`{"version": 1, "app": "app", "jobs": [{"name": "a", "schedule": "* * * * *", "timezone": "Mars/Base", "command": ["touch", "ran"]}]}`, []string{"jobs/0/timezone", "Mars/Base"}},
		"global":        {`{"version": 1, "app": "app", "jobs": [{"name": "a", "schedule": "* * * * *", "command": ["touch", "ran"], "policy": {"concurrency_scope": "global"}}]}`, []string{"app/a", "global", "--store"}},
		"secret":        {`{"version": 1, "app": "app", "jobs": [{"name": "a", "schedule": "* * * * *", "request": {"url": "http://127.0.0.1:1/"}, "auth": {"secret_refs": ["env:NOT_THERE"]}}]}`, []string{"app/a", "env:NOT_THERE"}},
	} {
		w.dibs("serve", w.write("jobs.json", c.text)).exits(2, patience).says(c.says...)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	if _, err := os.Stat(w.path("ran")); err == nil {
		t.Error("something was started")
	}
	w.dibs("serve", w.path("absent.json")).exits(2, patience).says("absent.json")
	w.dibs("serve").exits(2, patience).says("one manifest")
}
