//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func shell(script string) []string { return []string{"sh", "-c", script} }

// The statuses of `dibs run` that are its own, and those that are the command's.
func TestRunStatuses(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	plain := w.write("plain.txt", "no program\n")
	for _, c := range []struct {
		status  int
		outcome string
		flags   []string
		command []string
	}{
		{0, "succeeded", nil, []string{"true"}},
		{7, "failed", nil, shell("exit 7")},
		{79, "failed", nil, shell("exit 79")}, // the command's own, told apart by the outcome
		{137, "failed", nil, shell("kill -KILL $$")},
		{143, "failed", nil, shell("kill -TERM $$")},
		{124, "timed_out", []string{"--timeout", "200ms", "--stop-grace", "100ms"}, w.work("late", work{For: time.Minute, Family: true, Deaf: true})},
		{126, "failed", nil, []string{plain}},
		{127, "unavailable", nil, []string{"no-such-command"}},
	} {
		p := w.run("k", c.flags, c.command).exits(c.status, patience)
		if r := p.result(); r.Outcome != c.outcome || r.ExitStatus != c.status || r.Key != "k" || r.RunID == "" || r.Token == 0 || r.Started.IsZero() || r.Ended.Before(r.Started) {
			t.Errorf("%v: %s", c.command, p)
		}
		w.recorded("k", p.result().RunID, c.outcome)
	}
	for _, flags := range [][]string{{"--policy", "sometimes"}, {"--timeout", "-1s"}, {"--no-such-flag"}} {
		w.run("k", flags, []string{"touch", "ran"}).exits(125, patience).says(flags[0])
	}
	if _, err := os.Stat(w.path("ran")); err == nil {
		t.Error("something was started")
	}
}

// The result as JSON in a file; descriptor 3 is what all other tests use.
func TestRunResultInFile(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.dibs("run", "--key", "k", "--json", w.path("result.json"), "--", "sh", "-c", "exit 3").exits(3, patience)
	b, err := os.ReadFile(w.path("result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(b, &r); err != nil || r.Outcome != "failed" || r.ExitStatus != 3 {
		t.Errorf("%v: %s", err, b)
	}
}

// Contention: its status, which can be remapped, its words, which can be silenced, and waiting for the
// end of it.
func TestRunContended(t *testing.T) {
	onEveryStore(t, longTTL, func(t *testing.T, w *world) {
		holder := w.run("k", nil, w.work("first", work{Until: w.path("go")}))
		w.hears(patience, 1, "start", "first")
		second := w.work("second", work{})
		name := fmt.Sprintf("pid %d", holder.Process.Pid)
		wants := func(p *process, status int) {
			t.Helper()
			p.exits(status, patience)
			r := p.result()
			if r.Outcome != "contended" || r.HeldBy == nil || r.HeldBy.PID != holder.Process.Pid || r.ExitStatus != status {
				t.Errorf("does not name the holder %s: %s", name, p)
			}
		}
		p := w.run("k", nil, second)
		wants(p, 75)
		p.says(name, "not started")
		wants(w.run("k", []string{"--contended-exit", "0"}, second), 0)
		p = w.run("k", []string{"-q"}, second)
		wants(p, 75)
		if p.stderr() != "" {
			t.Errorf("not quiet: %s", p)
		}
		began := time.Now()
		wants(w.run("k", []string{"--wait", "1s"}, second), 75)
		if took := time.Since(began); took < time.Second {
			t.Errorf("waited for %s, want 1s", took)
		}
		waiter := w.run("k", []string{"--wait", "5m"}, second)
		w.waits(waiter)
		w.create("go")
		holder.exits(0, patience)
		waiter.exits(0, patience) // it need not wait for the lease to lapse
		if n := len(which(heard(t, w.dir), "start", "second")); n != 1 {
			t.Errorf("started %d times, want once, after the wait:\n%s", n, w.log())
		}
		w.noOverlap()
	})
}

// Signals go to the command; one that comes before the command runs ends the wait.
func TestRunSignals(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	holder := w.run("k", nil, w.work("first", work{For: 5 * time.Minute}))
	w.hears(patience, 1, "start", "first")
	for sig, status := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		p := w.run("k", []string{"--wait", "5m"}, w.work("never", work{}))
		w.opens(p)
		w.waits(p)
		p.signal(sig)
		p.exits(status, patience)
		if r := p.result(); r.Outcome != "canceled" || r.ExitStatus != status {
			t.Errorf("%s", p)
		}
	}
	if w.holder("k").Holder.PID != holder.Process.Pid || len(which(heard(t, w.dir), "start", "never")) > 0 {
		t.Errorf("the ended wait had an effect:\n%s", w.log())
	}
	for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2} {
		holder.signal(sig)
		w.hears(patience, 1, sig.String(), "first")
	}
	holder.signal(syscall.SIGTERM)
	holder.exits(143, patience)
	w.hears(time.Second, 1, "terminated", "first")
	w.recorded("k", holder.result().RunID, "canceled")
	p := w.run("k", nil, w.work("second", work{For: 5 * time.Minute}))
	w.hears(patience, 1, "start", "second")
	p.signal(syscall.SIGINT)
	p.exits(130, patience)
	// One that takes TERM as a hint and ends well has succeeded.
	p = w.run("k", nil, shell(`trap 'exit 0' TERM; echo $$ > up; while :; do sleep 0.02; done`))
	eventually(t, patience, func() bool { _, err := os.Stat(w.path("up")); return err == nil }, p.String)
	p.signal(syscall.SIGTERM)
	p.exits(0, patience)
}

// Rule L7: the lease lasts as long as what the command left behind, unless that is to be killed or
// left alone.
// Holds: L7.
func TestRunLeftovers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags  []string
		linger time.Duration // how long the family would live: beyond the patience of the test, where it is not waited for
		left   bool          // the family lives on
	}{
		"wait":  {[]string{"--leftovers", "wait"}, 5 * time.Second, false},
		"kill":  {[]string{"--leftovers", "kill", "--stop-grace", "500ms"}, 2 * patience, false},
		"leave": {[]string{"--leftovers", "leave"}, 2 * patience, true},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
				p := w.run("k", c.flags, w.work("first", work{Family: true, Until: w.path("go"), Linger: c.linger, Status: 3}))
				pids := w.worksWithFamily("first")
				w.create("go")
				ended := w.hears(patience, 1, "end", "first")[0].At
				p.exits(3, patience)
				lives := alive(pids[0]) || alive(pids[1])
				family := p.endedAt.Sub(which(heard(t, w.dir), "born", "first")[0].At)
				waited, grace := family >= c.linger, p.endedAt.Sub(ended) > 500*time.Millisecond
				if waited != (name == "wait") || lives != c.left || name == "kill" && !grace {
					t.Errorf("ended %s after its command and %s after the family began; the family lives: %t\n%s", p.endedAt.Sub(ended), family, lives, w.log())
				}
				// The key is free now, whatever lives on.
				w.run("k", nil, []string{"true"}).exits(0, patience)
				w.recorded("k", p.result().RunID, "failed")
				killFamily(t, w, "first")
			})
		})
	}
}

// Rule T10: a start that belongs to no tick, and one that comes too soon after the last.
// Holds: T10.
func TestRunOncePer(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		command := w.work("job", work{})
		// The last tick was half an hour ago, the next one is in half an hour.
		now := time.Now().UTC()
		expr := fmt.Sprintf("%d * * * *", (now.Minute()+30)%60)
		p := w.run("hourly", []string{"--once-per", expr}, command).exits(75, patience)
		if r := p.result(); r.Outcome != "not_due" || r.ExitStatus != 75 {
			t.Errorf("%s", p)
		}
		near := now.Truncate(time.Hour).Add(time.Duration((now.Minute()+30)%60) * time.Minute)
		other := near.Add(time.Hour)
		if near.After(now) {
			other = near.Add(-time.Hour)
		}
		p.says("not due", near.Format(time.RFC3339), other.Format(time.RFC3339))
		if n := len(heard(t, w.dir)); n > 0 {
			t.Errorf("started:\n%s", w.log())
		}

		w.run("h", []string{"--once-per", "1h"}, shell("exit 1")).exits(1, patience) // whatever its outcome
		if p := w.run("h", []string{"--once-per", "1h"}, command).exits(75, patience); p.result().Outcome != "not_due" {
			t.Errorf("%s", p)
		}
		began := time.Now()
		w.run("d", []string{"--once-per", "4s"}, shell("exit 1")).exits(1, patience)
		eventually(t, patience, func() bool { return w.run("d", []string{"--once-per", "4s"}, command).wait(patience) == 0 },
			func() string { return "due again:\n" + w.log() })
		if took := time.Since(began); took < 4*time.Second {
			t.Errorf("due again after %s, want 4s after the start", took)
		}

		// Three at once within the distance: one of them.
		var all []*process
		for range 3 {
			all = append(all, w.run("three", []string{"--once-per", "1h"}, w.work("three", work{})))
		}
		ran := 0
		for _, p := range all {
			if p.wait(patience) == 0 {
				ran++
			} else {
				p.exits(75, time.Second)
			}
		}
		if n := len(which(heard(t, w.dir), "start", "three")); n != 1 || ran != 1 {
			t.Errorf("%d ran, the observer saw %d", ran, n)
		}

		expr = dueNow()
		w.run("minutely", []string{"--once-per", expr}, command).exits(0, patience)
		w.run("minutely", []string{"--once-per", strings.TrimSuffix(expr, "*") + "0-7"}, command).exits(125, patience).says("another schedule", expr)
		w.noOverlap()
	})
}

// The store's address stays with dibs itself.
// Holds: H3.
func TestPasswordStaysSecret(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-Pa55word"
	for _, s := range servers {
		if s.name != "postgres" { // the one that takes any password from this machine
			continue
		}
		w := newWorld(t, s.name, strings.Replace(s.shared(t), "postgres@", "postgres:"+secret+"@", 1), usualTTL)
		if !strings.Contains(w.url, secret) {
			t.Skipf("the server's address is not ours to put a password into: %s", w.url)
		}
		var shown []*process
		look := func(p *process, name string) {
			t.Helper()
			shown = append(shown, p)
			pids := w.worksWithFamily(name)
			for pid := pids[len(pids)-1]; pid > 1 && pid != p.Process.Pid; pid = parent(pid) {
				pids = append(pids, pid) // the guardian among them
			}
			for _, pid := range pids {
				for _, file := range []string{"cmdline", "environ"} {
					b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(string(b), secret) {
						t.Errorf("the password is in %s of pid %d below %v", file, pid, p.Args)
					}
				}
			}
		}
		run := w.run("k", []string{"--leftovers", "kill", "--stop-grace", "1s"}, w.work("run", work{Until: w.path("go"), Family: true}))
		look(run, "run")
		served := w.serve(w.manifest("job", "@every 1s", `{"leftovers": "kill", "stop_grace_seconds": 1}`, "serve", work{Until: w.path("go"), Family: true}), "-v")
		look(served, "serve")
		// From a file, whose name is what a child inherits.
		file := w.write("store", w.url+"\n")
		cmd := w.command(dibsBinary, "run", "--key", "f", "--", "sh", "-c", `echo "$DIBS_STORE_FILE"; env`)
		cmd.Env = append(slices.DeleteFunc(w.environ(), func(v string) bool { return strings.HasPrefix(v, "DIBS_STORE=") }), "DIBS_STORE_FILE="+file)
		fromFile := w.start(cmd).exits(0, patience)
		if !strings.HasPrefix(fromFile.stdout(), file+"\n") {
			t.Errorf("the file's name is not inherited: %s", fromFile)
		}
		w.create("go")
		run.exits(0, patience)
		stop(served)
		// Errors, of a server that is not there and of an address that makes no sense.
		for _, address := range []string{
			"postgres://u:" + secret + "@127.0.0.1:1/db", "redis://:" + secret + "@127.0.0.1:1/0", "mysql://u:" + secret + "@127.0.0.1:1/db",
			"postgres://u:" + secret + "@127.0.0.1:port/db", "postgres://u:" + secret + "@127.0.0.1/db?ttl=x", "oracle://u:" + secret + "@h/", "mysql://127.0.0.1:1/db?password=" + secret,
		} {
			cmd := w.command(dibsBinary, "run", "--key", "k", "--", "true")
			cmd.Env = w.environ("DIBS_STORE=" + address)
			p := w.start(cmd)
			if status := p.wait(patience); status != 69 && status != 125 {
				t.Errorf("exit status %d: %s", status, p)
			}
			shown = append(shown, p)
		}
		shown = append(shown, w.dibs("init"), w.dibs("history", "--events"), w.dibs("lease", "list", "--all", "--internal", "-o", "json"), fromFile)
		for _, p := range shown {
			p.wait(patience)
			if text := p.stdout() + p.stderr() + p.file(".json"); strings.Contains(text, secret) {
				t.Errorf("the password is shown: %s", p)
			}
		}
	}
}

// parent is the parent of a process.
func parent(pid int) (ppid int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		ppid, _ = strconv.Atoi(fields[1])
	}
	return ppid
}
