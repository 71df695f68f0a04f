//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serve starts a server of a manifest.
func (w *world) serve(manifest string, flags ...string) *process {
	w.t.Helper()
	return w.start(w.serving(dibsBinary, manifest, flags...))
}

func (w *world) serving(binary, manifest string, flags ...string) *exec.Cmd {
	scope := "global"
	if w.name == "file" {
		scope = "host"
	}
	return w.command(binary, append([]string{"serve", manifest, "--default-scope", scope}, flags...)...)
}

// shifted starts a server whose wall clock is off.
func (w *world) shifted(by string, manifest string) *process {
	w.t.Helper()
	cmd := w.serving(shiftedBinary, manifest)
	cmd.Env = append(cmd.Env, "DIBS_TEST_WALL_OFFSET="+by)
	return w.start(cmd)
}

// stop drains servers.
func stop(all ...*process) {
	for _, p := range all {
		p.t.Helper()
		p.signal(syscall.SIGTERM)
	}
	for _, p := range all {
		p.exits(0, patience)
	}
}

// Promise 8: one run per tick, whenever the servers boot and whatever their clocks say.
// Holds: promise 8.
func TestServersWithSkewedBootsAndClocks(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		const every = 3 * time.Second
		// Not as long as a clock is off, and longer than a slow machine takes.
		m := w.manifest("job", "@every 3s", `{"starting_deadline_seconds": 60}`, "job", work{For: 20 * time.Millisecond})
		servers := []*process{w.serve(m)}
		w.hears(patience, 1, "start", "job") // a tick is past: the others boot after it
		servers = append(servers, w.shifted("90s", m), w.shifted("-90s", m))
		for _, p := range servers {
			p.logs("event=serving")
		}
		n := len(which(heard(t, w.dir), "start", "job")) + rounds(5, 20)
		w.hears(time.Duration(n)*every+patience, n, "start", "job")
		stop(servers...)
		w.eachTickOnce("app/job", "job", every)
		for _, p := range servers {
			t.Log(lastLine(p.stderr()))
			if t.Failed() {
				t.Log(p)
			}
		}
	})
}

// The same on the minute: one server boots before a tick, the other after it.
func TestServersWithBootsSkewedAcrossAMinute(t *testing.T) {
	if !long {
		t.Skip("it takes two minutes: DIBS_TEST_LONG=1")
	}
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		m := w.manifest("job", "* * * * *", "{}", "job", work{For: 100 * time.Millisecond})
		boundary := time.Now().Truncate(time.Minute).Add(time.Minute)
		time.Sleep(time.Until(boundary.Add(-2 * time.Second)))
		first := w.serve(m)
		time.Sleep(time.Until(boundary.Add(2 * time.Second)))
		second := w.shifted("90s", m)
		w.hears(patience, 2, "start", "job")
		stop(first, second)
		w.eachTickOnce("app/job", "job", time.Minute)
	})
}

// eachTickOnce checks that every tick from the first to the last ran once, and none by a clock that is off, by the
// observer and by history. A tick may have found the one before it at work: on a slow machine.
func (w *world) eachTickOnce(key, name string, every time.Duration) {
	w.t.Helper()
	var ticks []time.Time
	starts := map[int64]int{}
	for _, s := range which(heard(w.t, w.dir), "start", name) {
		at, err := time.Parse(time.RFC3339, s.Env["DIBS_TICK"])
		if err != nil {
			w.t.Fatal(err)
		}
		if late := s.At.Sub(at); late < -time.Second || late > 80*time.Second { // the clocks are off by 90 s
			w.t.Errorf("the tick %s started %s after it", at, late)
		}
		ticks = append(ticks, at)
		starts[at.Unix()]++
	}
	first, last := slices.MinFunc(ticks, time.Time.Compare), slices.MaxFunc(ticks, time.Time.Compare)
	told := map[int64]entry{}
	for _, e := range w.history(key) {
		if e.Tick != nil {
			told[e.Tick.Unix()] = e
		}
		if len(e.Runs) > 0 && (e.Tick == nil || starts[e.Tick.Unix()] == 0) {
			w.t.Errorf("history has %+v, and the observer saw no such run", e)
		}
	}
	for at := first; !at.After(last); at = at.Add(every) {
		e, n := told[at.Unix()], starts[at.Unix()]
		ran, overlapped := n == 1 && e.Outcome == "succeeded" && len(e.Runs) == 1, n == 0 && e.Outcome == "skipped" && e.Reason == "overlap"
		if !ran && !overlapped {
			w.t.Errorf("the tick %s was started %d times, and history has %+v:\n%s", at, n, e, w.log())
		}
		delete(starts, at.Unix())
	}
	if len(starts) > 0 {
		w.t.Errorf("there are no such ticks: %v", starts)
	}
	w.noOverlap()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// Rule T3: a server is killed in the middle of a run. With on_crash rerun another one runs the tick
// again. The ticks after it go on.
// Holds: T3.
func TestServerKilled(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) { w.serverKilled("rerun") })
}

// With skip the tick has crashed, and the ticks after it go on as well.
// Holds: T3.
func TestServerKilledWithoutARerun(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) { w.serverKilled("skip") })
}

func (w *world) serverKilled(onCrash string) {
	every := "@every 2s"
	if onCrash == "rerun" {
		every = halfMinutes(time.Now().Add(3 * time.Second)) // so rarely that the next tick does not come first
	}
	m := w.manifest("job", every, fmt.Sprintf(`{"on_crash": %q, "leftovers": "kill", "stop_grace_seconds": 1}`, onCrash), "job", work{Until: w.path("go"), Family: true, Deaf: true})
	servers := []*process{w.serve(m), w.serve(m), w.serve(m)}
	pids := w.worksWithFamily("job")
	first := which(heard(w.t, w.dir), "start", "job")[0]
	holder := w.holder("app/job").Holder.PID
	i := slices.IndexFunc(servers, func(p *process) bool { return p.Process.Pid == holder })
	if i < 0 {
		w.t.Fatalf("held by pid %d, which is none of the servers", holder)
	}
	killed := time.Now()
	servers[i].signal(syscall.SIGKILL)
	gone := w.gone(killed, patience, pids)
	w.create("go")
	servers = slices.Delete(servers, i, i+1)
	next := w.hears(patience, 2, "start", "job")[1]
	w.t.Logf("command gone %s after the kill, the next run started after %s (ttl %s)", gone.Sub(killed), next.At.Sub(killed), w.ttl)

	tick := first.Env["DIBS_TICK"]
	again := func() (all []said) {
		for _, s := range which(heard(w.t, w.dir), "start", "job") {
			if s.Env["DIBS_TICK"] == tick {
				all = append(all, s)
			}
		}
		return all
	}
	want, runs := "crashed", 1
	if onCrash == "rerun" {
		want, runs = "succeeded", 2
	}
	var e entry
	eventually(w.t, patience, func() bool {
		for _, e = range w.history("app/job") {
			if e.Tick != nil && e.Tick.Format(time.RFC3339) == tick {
				return e.Outcome == want
			}
		}
		return false
	}, func() string { return fmt.Sprintf("the killed tick %s; history has %+v", want, e) })
	// The others go on, and run no tick twice.
	after := len(which(heard(w.t, w.dir), "start", "job"))
	w.hears(patience, after+1, "start", "job")
	stop(servers...)
	if len(e.Runs) != runs || e.Runs[0].Outcome != "crashed" && onCrash == "skip" {
		w.t.Errorf("history has %+v", e)
	}
	all := again()
	if len(all) != runs {
		w.t.Fatalf("the tick started %d times, want %d:\n%s", len(all), runs, w.log())
	}
	if onCrash == "rerun" {
		wantRerun(w.t, all[0], all[1])
	}
	w.noOverlap()
}

// A tick whose re-run finds the job at work again was not skipped: it ran, and crashed.
func TestCrashedTickIsNotSkipped(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		notCoveredBy(t, w.name == "file", "the directory tells at once that the run crashed: it is run again before the next tick")
		m := w.manifest("job", "@every 2s", `{"on_crash": "rerun"}`, "job", work{Until: w.path("go")})
		servers := []*process{w.serve(m), w.serve(m)}
		first := w.hears(patience, 1, "start", "job")[0]
		holder := w.holder("app/job").Holder.PID
		if holder == servers[1].Process.Pid {
			slices.Reverse(servers)
		}
		servers[0].signal(syscall.SIGKILL)
		second := w.hears(patience, 2, "start", "job")[1]
		if second.Env["DIBS_TICK"] == first.Env["DIBS_TICK"] {
			t.Fatal("the crashed tick was run again before the next one: this test needs another period")
		}
		eventually(t, patience, func() bool { return w.tickOf("app/job", first).Outcome == "crashed" },
			func() string { return fmt.Sprintf("the crashed tick is told as such: %+v", w.tickOf("app/job", first)) })
		w.create("go")
		stop(servers[1])
		w.noOverlap()
	})
}

// notCoveredBy skips what has no meaning for a store.
func notCoveredBy(t *testing.T, cannot bool, why string) {
	t.Helper()
	if cannot {
		t.Skip(why)
	}
}

// wantRerun checks what a command is told when its tick is run again (rule T3).
func wantRerun(t *testing.T, first, second said) {
	t.Helper()
	a, b := first.Env, second.Env
	if a["DIBS_IDEMPOTENCY_KEY"] == "" || a["DIBS_IDEMPOTENCY_KEY"] != b["DIBS_IDEMPOTENCY_KEY"] ||
		a["DIBS_RUN_ID"] == b["DIBS_RUN_ID"] || number(t, a["DIBS_TOKEN"]) >= number(t, b["DIBS_TOKEN"]) || a["DIBS_TICK"] != b["DIBS_TICK"] {
		t.Errorf("want the same idempotency key and tick, another run id, a larger token:\n%v\n%v", dibsOnly(a), dibsOnly(b))
	}
}

func number(t *testing.T, text string) (n int64) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return n
}

func dibsOnly(env map[string]string) map[string]string {
	some := map[string]string{}
	for name, value := range env {
		if strings.HasPrefix(name, "DIBS_") {
			some[name] = value
		}
	}
	return some
}

// Rule T3 for `dibs run --on-crash rerun`: the loser stands by, and runs the tick of a winner that died.
// Holds: T3.
func TestRunStandsByForACrash(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		flags := []string{"--once-per", dueNow(), "--on-crash", "rerun"}
		start := func() *process {
			return w.run("k", flags, w.work("job", work{Until: w.path("go"), Family: true, Deaf: true}))
		}
		both := []*process{start(), start()}
		pids := w.worksWithFamily("job")
		winner, loser := both[0], both[1]
		if holder := w.holder("k").Holder.PID; holder == loser.Process.Pid {
			winner, loser = loser, winner
		} else if holder != winner.Process.Pid {
			t.Fatalf("held by pid %d, which is neither", holder)
		}
		w.waits(loser)
		killed := time.Now()
		winner.signal(syscall.SIGKILL)
		w.gone(killed, patience, pids)
		started := w.hears(patience, 2, "start", "job")
		t.Logf("the one standing by started %s after the kill (ttl %s)", started[1].At.Sub(killed), w.ttl)
		wantRerun(t, started[0], started[1])
		w.hears(patience, 2*(family-1), "born", "job")
		w.create("go")
		w.hears(patience, 1, "end", "job")
		killFamily(t, w, "job")
		loser.exits(0, patience)
		start().exits(75, patience).says("has already ended: succeeded")
		if n := len(which(heard(t, w.dir), "start", "job")); n != 2 {
			t.Errorf("started %d times:\n%s", n, w.log())
		}
		w.noOverlap()
		all := w.history("k")
		if len(all) != 1 || all[0].Outcome != "succeeded" || len(all[0].Runs) != 2 {
			t.Errorf("history has %+v", all)
		}
	})
}

// Rule T3: a tick that was started in time and crashed is run again also when nobody could start it for the
// first time any more.
// Holds: T3.
func TestRunAgainPastTheStartingDeadline(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		// Its starting deadline is half its period: what a slow machine has for the start of both.
		tick := time.Now().Truncate(time.Second)
		flags := []string{"--once-per", halfMinutes(tick), "--on-crash", "rerun"}
		start := func() *process {
			return w.run("k", flags, w.work("job", work{Until: w.path("go"), Family: true, Deaf: true}))
		}
		both := []*process{start(), start()}
		pids := w.worksWithFamily("job")
		winner, loser := both[0], both[1]
		if w.holder("k").Holder.PID == loser.Process.Pid {
			winner, loser = loser, winner
		}
		w.waits(loser)
		time.Sleep(time.Until(tick.Add(16 * time.Second)))
		winner.signal(syscall.SIGKILL)
		w.gone(time.Now(), patience, pids)
		started := w.hears(patience, 2, "start", "job")
		wantRerun(t, started[0], started[1])
		w.hears(patience, 2*(family-1), "born", "job")
		w.create("go")
		w.hears(patience, 1, "end", "job")
		killFamily(t, w, "job")
		loser.exits(0, patience)
		w.noOverlap()
	})
}

// killFamily ends what a work left behind.
func killFamily(t *testing.T, w *world, name string) {
	t.Helper()
	for _, s := range which(heard(t, w.dir), "born", name) {
		if alive(s.PID) {
			_ = syscall.Kill(s.PID, syscall.SIGKILL)
		}
	}
}
