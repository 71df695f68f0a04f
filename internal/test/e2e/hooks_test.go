//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hooked is a manifest of one job with hooks, all of which is given as JSON.
func (w *world) hooked(name, schedule, policy string, command []string, hooks ...string) string {
	w.t.Helper()
	argv, err := json.Marshal(command)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.write("jobs.json", fmt.Sprintf(`{"version": 1, "app": "app", "jobs": [{"name": %q, "schedule": %q, "policy": %s, "command": %s,
		"auth": {"secret_refs": ["env:HOOK_SECRET"]}, "hooks": [%s]}]}`, name, schedule, policy, argv, strings.Join(hooks, ", ")))
}

// facts are those of a hook's webhook.
type facts struct {
	Event, Job, Outcome, Reason, Output string
	Tick, Through                       time.Time
	Count                               int
	RunID                               string `json:"run_id"`
	HeldBy                              string `json:"held_by"`
	Token                               int64
}

// told are the facts of the requests to a path, and checks that they are signed.
func (a *application) told(t *testing.T, path, secret string) (all []facts) {
	t.Helper()
	for _, r := range a.requests() {
		if r.target != path {
			continue
		}
		verify(t, r, secret)
		var f facts
		if err := json.Unmarshal([]byte(r.body), &f); err != nil {
			t.Fatalf("%v in %s", err, r.body)
		}
		all = append(all, f)
	}
	return all
}

// pings counts the requests to an address of a check.
func (a *application) pings(target string) (n int) {
	for _, r := range a.requests() {
		if r.target == target {
			n++
		}
	}
	return n
}

// Rule T13: three servers, and each event of a tick is told once, by a ping, a signed webhook and a
// command. Hooks that fail and hang beside them change nothing.
// Holds: promise 24, T13.
func TestHooks(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		const secret = "correct horse"
		done := make(chan struct{})
		defer close(done)
		hanging := newApplication(t, func(int, http.ResponseWriter) { <-done })
		app := newApplication(t, func(int, http.ResponseWriter) {})
		m := w.in(t, "HOOK_SECRET="+secret).hooked("job", "@every 2s", `{"starting_deadline_seconds": 3, "stop_grace_seconds": 1}`,
			[]string{"sh", "-c", `echo "at $DIBS_TICK"; test -e "$0"`, w.path("repaired")},
			fmt.Sprintf(`{"on": ["start", "success", "failure", "recovery"], "ping": "%s/ping/{app}-{job}", "timeout_seconds": 60}`, app.URL),
			fmt.Sprintf(`{"on": ["success", "failure"], "request": {"url": "%s/web"}, "timeout_seconds": 60}`, app.URL),
			fmt.Sprintf(`{"on": ["failure", "success"], "timeout_seconds": 60, "command": {"shell": "echo $DIBS_HOOK $DIBS_HOOK_JOB $DIBS_HOOK_RUN_ID $DIBS_HOOK_OUTCOME secret=$HOOK_SECRET store=$DIBS_STORE >> %s"}}`, w.path("told")),
			fmt.Sprintf(`{"on": ["start", "failure"], "ping": "%s/hang", "timeout_seconds": 1}`, hanging.URL),
			`{"on": ["start", "success"], "command": ["sleep", "300"], "timeout_seconds": 1}`)
		sub := w.in(t, "HOOK_SECRET="+secret)
		servers := []*process{sub.serve(m), sub.serve(m), sub.serve(m)}
		ended := func(outcome string) (n int) {
			for _, f := range app.told(t, "/web", secret) {
				if f.Outcome == outcome {
					n++
				}
			}
			return n
		}
		eventually(t, patience, func() bool { return ended("failed") >= 3 }, servers[0].String)
		w.create("repaired")
		eventually(t, patience, func() bool { return ended("succeeded") >= 3 }, servers[0].String)
		stop(servers...)

		webhooks := app.told(t, "/web", secret)
		told, err := os.ReadFile(w.path("told"))
		if err != nil {
			t.Fatal(err)
		}
		runs, recovered := 0, ""
		entries := w.history("app/job")
		slices.Reverse(entries)
		for _, e := range entries {
			if len(e.Runs) == 0 {
				// On a slow machine a run may outlast the next tick, begin too late, or be stopped before it begins.
				if e.Outcome != "skipped" && e.Outcome != "missed" && e.Outcome != "claimed" {
					t.Errorf("history has %+v", e)
				}
				continue
			}
			runs++
			r := e.Runs[0]
			end := map[string]string{"succeeded": "", "failed": "/fail"}[e.Outcome]
			if e.Outcome == "succeeded" && recovered == "" {
				recovered = r.RunID
			}
			if n := app.pings("/ping/app-job/start?rid=" + r.RunID); n != 1 {
				t.Errorf("the start of %+v was told %d times", e, n)
			}
			if n := app.pings("/ping/app-job" + end + "?rid=" + r.RunID); n != 1 {
				t.Errorf("the end of %+v was told %d times", e, n)
			}
			i := slices.IndexFunc(webhooks, func(f facts) bool { return f.RunID == r.RunID })
			if i < 0 || webhooks[i].Outcome != e.Outcome || webhooks[i].Job != "app/job" || webhooks[i].Token != r.Token || !webhooks[i].Tick.Equal(*e.Tick) || webhooks[i].Output != "at "+e.Tick.Format(time.RFC3339)+"\n" {
				t.Errorf("of %+v the webhooks were told %+v", e, webhooks)
			}
			event := map[string]string{"succeeded": "success", "failed": "failure"}[e.Outcome]
			if n := strings.Count(string(told), fmt.Sprintf("%s app/job %s %s secret= store=\n", event, r.RunID, e.Outcome)); n != 1 {
				t.Errorf("of %+v the command was told %d times:\n%s", e, n, told)
			}
		}
		if len(webhooks) != runs || strings.Count(string(told), "\n") != runs {
			t.Errorf("%d runs, %d webhooks, and the command was told\n%s", runs, len(webhooks), told)
		}
		recoveries := 0
		for _, r := range app.requests() {
			if strings.HasPrefix(r.target, "/ping/app-job/log") {
				if recoveries++; r.target != "/ping/app-job/log?rid="+recovered || r.header.Get("Dibs-Hook") != "recovery" {
					t.Errorf("told %s; the first success was %s", r.target, recovered)
				}
			}
		}
		if recoveries != 1 {
			t.Errorf("%d recoveries were told", recoveries)
		}
		var hung, slept bool
		for _, e := range w.events("hook-failed") {
			hung = hung || strings.Contains(e.Reason, "hook 4 (ping http://127.0.0.1:") && strings.Contains(e.Reason, "no answer within 1s") && !strings.Contains(e.Reason, "/hang")
			slept = slept || strings.Contains(e.Reason, "hook 5 (command sleep)") && strings.Contains(e.Reason, "was killed")
		}
		if !hung || !slept {
			t.Errorf("events: %+v", w.events("hook-failed"))
		}
	})
}

// A server is killed in the middle of a run: another one concludes that, and tells of it once.
// Holds: promise 24.
func TestHooksOfAServerKilled(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		app := newApplication(t, func(int, http.ResponseWriter) {})
		w.env = append(w.env, "HOOK_SECRET=s")
		m := w.hooked("job", "@every 6s", `{"stop_grace_seconds": 1, "starting_deadline_seconds": 6}`, w.work("job", work{Until: w.path("go")}),
			fmt.Sprintf(`{"on": ["start", "success", "failure", "recovery", "skip"], "ping": "%s/ping", "timeout_seconds": 60}`, app.URL),
			fmt.Sprintf(`{"on": ["failure"], "request": {"url": "%s/web"}, "timeout_seconds": 60}`, app.URL))
		servers := []*process{w.serve(m), w.serve(m), w.serve(m)}
		w.hears(patience, 1, "start", "job")
		holder := w.holder("app/job").Holder
		i := slices.IndexFunc(servers, func(p *process) bool { return p.Process.Pid == holder.PID })
		if i < 0 {
			t.Fatalf("held by pid %d, which is none of the servers", holder.PID)
		}
		eventually(t, patience, func() bool { return app.pings("/ping/start?rid="+holder.RunID) == 1 }, servers[i].String)
		servers[i].signal(syscall.SIGKILL)
		servers = slices.Delete(servers, i, i+1)
		crashed := "/ping/fail?rid=" + holder.RunID
		eventually(t, patience, func() bool { return app.pings(crashed) > 0 }, servers[0].String)
		w.create("go")
		eventually(t, patience, func() bool {
			return slices.ContainsFunc(app.requests(), func(r request) bool { return r.header.Get("Dibs-Hook") == "recovery" })
		}, servers[0].String)
		stop(servers...)
		if n := app.pings(crashed); n != 1 {
			t.Errorf("the crash was told %d times", n)
		}
		if all := app.told(t, "/web", "s"); len(all) != 1 || all[0].Outcome != "crashed" || all[0].RunID != holder.RunID || !strings.Contains(all[0].Reason, "lost its lease and did not report") {
			t.Errorf("told %+v", all)
		}
		for _, e := range w.history("app/job") {
			if len(e.Runs) > 0 && e.Runs[0].RunID == holder.RunID && (e.Outcome != "crashed" || !e.Inferred) {
				t.Errorf("history has %+v", e)
			}
		}
	})
}

// A manifest that is not loaded changes nothing about hooks either.
func TestHooksOfAManifestThatIsNotLoaded(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	app := newApplication(t, func(int, http.ResponseWriter) {})
	manifest := func(ping, more string) string {
		return w.write("jobs.json", fmt.Sprintf(`{"version": 1, "app": "app", "jobs": [{"name": "a", "schedule": "@every 1s", "policy": {"concurrency_scope": "host"},
			"command": ["true"], "hooks": [{"on": ["success"], "ping": "%s/%s"}]}%s]}`, app.URL, ping, more))
	}
	told := func(path string) (n int) {
		for _, r := range app.requests() {
			if strings.HasPrefix(r.target, path) {
				n++
			}
		}
		return n
	}
	p := w.serve(manifest("old", ""))
	eventually(t, patience, func() bool { return told("/old") > 0 }, p.String)
	manifest("new", `, {"name": "b", "schedule": "@yearly", "request": {"url": "http://127.0.0.1:1/"}, "auth": {"secret_refs": ["env:NOBODY_SETS_THIS"]}}`)
	p.logs("event=reload-failed", "NOBODY_SETS_THIS")
	n := told("/old")
	eventually(t, patience, func() bool { return told("/old") > n+2 }, p.String)
	manifest("new", "")
	p.logs("event=reloaded", "the file changed")
	eventually(t, patience, func() bool { return told("/new") > 0 }, p.String)
	stop(p)
}

// A fire that waits for its hooks only is told to end: it does, with the outcome of its run, and takes
// what the hook started with it, wherever that has gone.
func TestASingleFireIsToldToEndWhileItsHooksTell(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		left := w.path("left")
		m := w.hooked("job", "@every 1h", "{}", []string{"true"},
			fmt.Sprintf(`{"on": ["success"], "timeout_seconds": 600, "command": {"shell": "setsid sleep 600 & echo $! > %[1]s.new && mv %[1]s.new %[1]s; sleep 600"}}`, left))
		w.env = append(w.env, "HOOK_SECRET=s")
		p := w.dibs(append(w.triggering(m), "--now")...)
		pid := 0
		eventually(t, patience, func() bool {
			b, err := os.ReadFile(left)
			if err != nil {
				return false
			}
			pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
			return err == nil
		}, p.String)
		p.signal(syscall.SIGTERM)
		p.exits(0, patience)
		w.gone(time.Now(), patience, []int{pid})
	})
}

// A tick that is skipped, late or missed is reported as that, once, and as no failure.
// Holds: promise 11.
func TestHooksOfWhatDidNotRun(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		const secret = "s"
		app := newApplication(t, func(int, http.ResponseWriter) {})
		w.env = append(w.env, "HOOK_SECRET="+secret)
		m := w.hooked("job", "@every 2s", `{"starting_deadline_seconds": 2, "stop_grace_seconds": 1}`, w.work("job", work{Until: w.path("go")}),
			fmt.Sprintf(`{"on": ["skip", "failure", "miss", "too_long"], "too_long_seconds": 1, "request": {"url": "%s/web"}, "timeout_seconds": 60}`, app.URL))
		of := func(event string) (some []facts) {
			for _, f := range app.told(t, "/web", secret) {
				if f.Event == event {
					some = append(some, f)
				}
			}
			return some
		}
		servers := []*process{w.serve(m), w.serve(m)}
		first := w.hears(patience, 1, "start", "job")[0].Env["DIBS_RUN_ID"]
		eventually(t, patience, func() bool { return len(of("skip")) >= 3 && len(of("too_long")) > 0 }, servers[0].String)
		if n := len(which(heard(t, w.dir), "end", "job")); n > 0 {
			t.Errorf("the work has ended before it could take too long")
		}
		w.create("go")
		w.hears(patience, 2, "end", "job")
		stop(servers...)
		time.Sleep(8 * time.Second) // ticks that nobody is there for
		again := w.serve(m)
		told := func() (n int) {
			for _, f := range of("miss") {
				if f.Outcome == "missed" { // a slow store can be unavailable for one, which another server settles
					n += max(f.Count, 1)
				}
			}
			return n
		}
		eventually(t, patience, func() bool { return told() >= 3 }, again.String)
		stop(again)
		skipped, missed := map[string]int{}, 0
		for _, e := range w.history("app/job") {
			switch e.Outcome {
			case "skipped":
				skipped[e.Tick.Format(time.RFC3339)] = 0
			case "missed":
				if !e.Unsettled {
					missed += max(e.Count, 1)
				}
			}
		}
		for _, f := range of("skip") {
			at := f.Tick.Format(time.RFC3339)
			if _, ok := skipped[at]; !ok || f.Reason != "overlap" || f.HeldBy == "" {
				t.Errorf("told %+v", f)
			}
			skipped[at]++
		}
		for at, n := range skipped {
			if n != 1 {
				t.Errorf("the skip of %s was told %d times", at, n)
			}
		}
		if told() != missed || missed < 3 {
			t.Errorf("%d ticks were missed, told %+v", missed, of("miss"))
		}
		late := map[string]int{} // on a slow machine others take long as well
		for _, f := range of("too_long") {
			if late[f.RunID]++; late[f.RunID] > 1 || f.Outcome != "" {
				t.Errorf("told %+v", f)
			}
		}
		if late[first] != 1 {
			t.Errorf("told that %v took long, and not %s", late, first)
		}
		if len(of("failure")) > 0 {
			t.Errorf("told %+v", of("failure"))
		}
	})
}

// The command of a hook dies with the dibs that told it, whatever it started.
// Holds: promise 24.
func TestTheHooksOfTheKilledDieWithIt(t *testing.T) {
	t.Parallel()
	for _, cgroup := range []string{"on", "off"} {
		w := fileWorld(t)
		w.env = append(w.env, "HOOK_SECRET=s", "DIBS_CGROUP="+cgroup)
		hook, err := json.Marshal(w.work("hook", work{For: 5 * time.Minute, Family: true, Deaf: true}))
		if err != nil {
			t.Fatal(err)
		}
		p := w.serve(w.hooked("job", "@every 2s", `{}`, []string{"true"}, fmt.Sprintf(`{"on": ["success"], "timeout_seconds": 600, "command": %s}`, hook)))
		pids := w.worksWithFamily("hook")
		killed := time.Now()
		p.signal(syscall.SIGKILL)
		t.Logf("cgroup %s: gone %s after the kill", cgroup, w.gone(killed, patience, pids).Sub(killed))
	}
}

// A hook that hangs does not make an end longer than the drain and its few seconds.
func TestAHangingHookAtTheEnd(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.env = append(w.env, "HOOK_SECRET=s")
	p := w.serve(w.hooked("job", "@every 2s", `{}`, []string{"sleep", "300"},
		`{"on": ["failure"], "timeout_seconds": 600, "command": {"shell": "sleep 600"}}`), "--drain", "3s")
	p.logs("event=run-started")
	begun := time.Now()
	stop(p)
	if took := time.Since(begun); took < 6500*time.Millisecond { // it was not waited for as long as the hook may take
		t.Errorf("it ended after %s, with a drain of 3s: %s", took, p)
	}
	// On a slow machine the run is long enough to keep the tick after it from running.
	entries := slices.DeleteFunc(w.history("app/job"), func(e entry) bool { return len(e.Runs) == 0 })
	if strings.Count(p.stderr(), "event=hook-failed") != 1 || len(entries) != 1 || entries[0].Outcome != "canceled" {
		t.Errorf("%+v\n%s", w.history("app/job"), p)
	}
}

// A drain waits for what hooks are still to tell.
func TestHooksAreDrained(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.env = append(w.env, "HOOK_SECRET=s")
	p := w.serve(w.hooked("job", "@every 4s", `{}`, []string{"true"},
		fmt.Sprintf(`{"on": ["success"], "timeout_seconds": 60, "command": {"shell": "sleep 1; echo $DIBS_HOOK_RUN_ID >> %s"}}`, w.path("told"))))
	p.logs("event=run-ended")
	stop(p)
	told, err := os.ReadFile(w.path("told"))
	if err != nil {
		t.Fatalf("%v; %s", err, p)
	}
	ran := 0
	for _, e := range w.history("app/job") {
		if len(e.Runs) == 0 {
			continue // a tick that a slow machine skips, misses, or was stopped before
		}
		if ran++; e.Outcome != "succeeded" || strings.Count(string(told), e.Runs[0].RunID) != 1 {
			t.Errorf("of %+v was told\n%s", e, told)
		}
	}
	if ran == 0 {
		t.Errorf("nothing ran: %s", p)
	}
}
