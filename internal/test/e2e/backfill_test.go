//go:build linux

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// filling is `dibs job backfill` of the world's job.
func (w *world) filling(manifest string, from time.Time, flags ...string) []string {
	scope := "global"
	if w.name == "file" {
		scope = "host"
	}
	return append([]string{"job", "backfill", "app/job", "--manifest", manifest, "--default-scope", scope, "--from", from.Format(time.RFC3339)}, flags...)
}

// startsPerTick counts the runs by what they were told their tick is.
func (w *world) startsPerTick(name string) map[string]int {
	w.t.Helper()
	n := map[string]int{}
	for _, s := range which(heard(w.t, w.dir), "start", name) {
		n[s.Env["DIBS_TICK"]]++
	}
	return n
}

// Rule T12: two servers' operators fill one range at the same time, beside two servers that go on, and one of the
// operators is interrupted: each tick is run once, and the next command runs what is left.
// Holds: T12.
func TestBackfill(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		m := w.manifest("job", "@every 3s", `{"starting_deadline_seconds": 2}`, "job", work{For: 20 * time.Millisecond})
		servers := []*process{w.serve(m), w.serve(m)}
		w.hears(patience, 1, "start", "job")
		to := time.Now().UTC().Truncate(3 * time.Second)
		from := to.Add(-60 * time.Second)
		args := w.filling(m, from, "--to", to.Format(time.RFC3339))

		if out := w.must(append(args, "--dry-run")...); !strings.Contains(out, "to run, from "+from.Format(time.RFC3339)) {
			t.Errorf("the preview says\n%s", out)
		}
		both := []*process{w.dibs(args...), w.dibs(args...)}
		w.hears(patience, 8, "start", "job")
		both[0].signal(syscall.SIGINT)
		switch status := both[0].wait(patience); status {
		case 0: // it was done already
		case 1:
			both[0].says("interrupt; the same command continues from here")
		default:
			t.Errorf("exit status %d:\n%s", status, both[0])
		}
		both[1].exits(0, patience)
		w.dibs(args...).exits(0, patience)
		stop(servers...)

		n := w.startsPerTick("job")
		ended := map[string]entry{}
		for _, e := range w.history("app/job") {
			if e.Tick != nil {
				ended[e.Tick.Format(time.RFC3339)] = e
			}
		}
		for at := from; at.Before(to); at = at.Add(3 * time.Second) {
			stamp := at.Format(time.RFC3339)
			if e := ended[stamp]; n[stamp] != 1 || e.Outcome != "succeeded" || len(e.Runs) != 1 {
				t.Errorf("tick %s was run %d times, and history has %+v", stamp, n[stamp], e)
			}
		}
		w.noOverlap()
	})
}

// Forced, what has run is run once more beside its outcome; a run by hand uses up no tick.
// Holds: T12.
func TestForcedBackfillAndManualRun(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		m := w.manifest("job", "@every 2s", `{"starting_deadline_seconds": 1}`, "job", work{})
		server := w.serve(m)
		// Two ticks in a row that have run: a slow machine misses some.
		var first string
		var from time.Time
		eventually(t, patience, func() bool {
			n := w.startsPerTick("job")
			for first = range n {
				var err error
				if from, err = time.Parse(time.RFC3339, first); err != nil {
					t.Fatal(err)
				}
				if n[from.Add(2*time.Second).Format(time.RFC3339)] > 0 {
					return true
				}
			}
			return false
		}, server.String)
		stop(server)
		before := w.startsPerTick("job")
		args := w.filling(m, from, "--to", from.Add(3*time.Second).Format(time.RFC3339), "--force", "--reason", "a test")
		w.must(args...)
		after := w.startsPerTick("job")
		for _, at := range []time.Time{from, from.Add(2 * time.Second)} {
			if stamp := at.Format(time.RFC3339); before[stamp] != 1 || after[stamp] != 2 {
				t.Errorf("tick %s was run %d times, then %d", stamp, before[stamp], after[stamp])
			}
		}
		ticks := len(after)
		trigger := []string{"job", "trigger", "app/job"}
		w.must(append(append(trigger, args[3:7]...), "--reason", "by hand")...)
		if n := w.startsPerTick("job"); n[""] != 1 || len(n) != ticks+1 {
			t.Errorf("a run by hand was told the ticks %v", n)
		}
		told := w.must("history", "app/job")
		for _, want := range []string{"again " + first, "back-filled by ", ": a test", "manual ", "triggered by ", ": by hand"} {
			if !strings.Contains(told, want) {
				t.Errorf("history does not say %q:\n%s", want, told)
			}
		}
		for _, e := range w.history("app/job") {
			if e.Tick != nil && len(e.Runs) > 1 {
				t.Errorf("a tick got the runs of a back-fill: %+v", e)
			}
		}
	})
}

// One that is killed leaves a tick that ends as crashed, and the next goes on after it.
// Holds: T12.
func TestABackfillIsKilled(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		// The server's own next tick is half an hour away.
		minute := time.Now().UTC().Add(30 * time.Minute).Truncate(time.Minute)
		m := w.manifest("job", fmt.Sprintf("%d * * * *", minute.Minute()), "", "job", work{Until: w.path("go")})
		server := w.serve(m)
		eventually(t, patience, func() bool { return strings.Contains(w.must("job", "list"), "app/job") }, server.String)
		args := w.filling(m, minute.Add(-3*time.Hour), "--to", minute.Format(time.RFC3339))
		p := w.dibs(args...)
		s := w.hears(patience, 1, "start", "job")[0]
		p.signal(syscall.SIGKILL)
		w.gone(time.Now(), patience, []int{s.PID})
		w.create("go")
		crashed := ""
		eventually(t, patience, func() bool {
			for _, e := range w.history("app/job") {
				if e.Tick != nil && e.Tick.Format(time.RFC3339) == s.Env["DIBS_TICK"] {
					crashed = e.Outcome
				}
			}
			return crashed == "crashed"
		}, func() string { return fmt.Sprintf("crashed; it is %q", crashed) })
		if out := w.must(args...); !strings.Contains(out, "2 run, from ") || !strings.Contains(out, "1  left: it has run") {
			t.Errorf("the next one says\n%s", out)
		}
		for stamp, n := range w.startsPerTick("job") {
			if n != 1 {
				t.Errorf("tick %s was run %d times", stamp, n)
			}
		}
		stop(server)
		w.noOverlap()
	})
}
