//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// triggering is `dibs trigger` as a host's scheduler would call it.
func (w *world) triggering(manifest string) []string {
	scope := "global"
	if w.name == "file" {
		scope = "host"
	}
	return []string{"trigger", "app.job", "--manifest", manifest, "--default-scope", scope}
}

// Three hosts' cron daemons fire at :00.1, :01.1 and :01.9: they mean one tick, and one of them runs it.
func TestTriggersAgreeOnOneTick(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		n := rounds(2, 10)
		for range n {
			// A tick a day, since a slow machine takes its time to start the last of them.
			at := time.Now().UTC().Truncate(time.Second).Add(2 * time.Second)
			m := w.manifest("job", fmt.Sprintf("%d %d %d * * *", at.Second(), at.Minute(), at.Hour()), `{"starting_deadline_seconds": 3600}`, "job", work{For: 20 * time.Millisecond})
			var all []*process
			for _, late := range []time.Duration{100 * time.Millisecond, 1100 * time.Millisecond, 1900 * time.Millisecond} {
				time.Sleep(time.Until(at.Add(late)))
				all = append(all, w.dibs(w.triggering(m)...))
			}
			ran := 0
			for _, p := range all {
				switch status := p.wait(patience); {
				case status == 0:
					ran++
				case status != 4 || !strings.Contains(p.stderr(), "event=lock-contended app=app job=job"):
					t.Errorf("exit status %d:\n%s", status, p)
				}
			}
			if ran != 1 || w.startsPerTick("job")[at.Format(time.RFC3339)] != 1 {
				t.Errorf("%d of three ran the tick %s:\n%s", ran, at.Format(time.RFC3339), w.log())
			}
		}
		w.noOverlap()
		all := w.history("app/job")
		if len(all) != n {
			t.Errorf("history has %+v, want %d ticks", all, n)
		}
		for _, e := range all {
			if e.Outcome != "succeeded" || len(e.Runs) != 1 {
				t.Errorf("history has %+v", e)
			}
		}
	})
}

// A host that is slow to get from cron's fork to dibs still means the tick at which cron forked.
func TestATriggerBelongsToTheTickAtWhichCronForked(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	const every = 8 * time.Second
	m := w.manifest("job", "@every 8s", `{"starting_deadline_seconds": 120}`, "job", work{})
	cron := w.path("cron") // a process is called what its file is called
	if err := os.Symlink("/bin/sh", cron); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Truncate(every).Add(every)
	time.Sleep(time.Until(at.Add(100 * time.Millisecond)))
	job := fmt.Sprintf(`sleep 8.5; %s %s; exit $?`, dibsBinary, strings.Join(w.triggering(m), " "))
	p := w.start(w.command(cron, "-c", `sh -c "$1"; exit $?`, "cron", job))
	forked := time.Now().Truncate(every) // one tick later, if the machine is that slow
	p.exits(0, patience)
	s := w.hears(time.Second, 1, "start", "job")[0]
	if got := s.Env["DIBS_TICK"]; got != at.UTC().Format(time.RFC3339) && got != forked.UTC().Format(time.RFC3339) {
		t.Errorf("started at %s for the tick %s; cron forked between %s and %s", s.At.UTC().Format(time.RFC3339Nano), got, at, forked)
	}
}

// A trigger that is told to stop stops its work, and says that it was canceled.
func TestATriggerThatIsToldToStop(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	m := w.manifest("job", "@every 1s", `{"stop_grace_seconds": 5, "starting_deadline_seconds": 60}`, "job", work{For: 5 * time.Minute})
	p := w.dibs(w.triggering(m)...)
	s := w.hears(patience, 1, "start", "job")[0]
	p.signal(syscall.SIGINT)
	p.exits(3, patience).says("app/job: canceled: shutdown")
	if alive(s.PID) {
		t.Error("its work outlived it")
	}
	if e := w.tickOf("app/job", s); e.Outcome != "canceled" {
		t.Errorf("history has %+v", e)
	}
}

// A process that stands by runs the tick of a server that was shut down, or that lost its lease.
// Holds: T3.
func TestWhatStandsByRunsAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, winner *process){
		"after a shutdown": func(w *world, winner *process) {
			winner.signal(syscall.SIGTERM)
			winner.exits(3, patience).says("canceled: shutdown")
		},
		"after a break": func(w *world, winner *process) {
			w.must("lease", "break", "app/job", "--reason", "a test")
			winner.exits(3, patience).says("lost: ")
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
				m := w.manifest("job", "@weekly", `{"starting_deadline_seconds": 604800, "catch_up_window_seconds": 604800, "on_crash": "rerun"}`,
					"job", work{Until: w.path("go")})
				both := []*process{w.dibs(w.triggering(m)...), w.dibs(w.triggering(m)...)}
				first := w.hears(patience, 1, "start", "job")[0]
				winner, loser := both[0], both[1]
				if w.holder("app/job").Holder.PID == loser.Process.Pid {
					winner, loser = loser, winner
				}
				w.waits(loser)
				end(w, winner)
				started := w.hears(patience, 2, "start", "job")
				wantRerun(t, first, started[1])
				w.create("go")
				loser.exits(0, patience)
				w.noOverlap()
				if all := w.history("app/job"); len(all) != 1 || all[0].Outcome != "succeeded" || len(all[0].Runs) != 2 {
					t.Errorf("history has %+v", all)
				}
			})
		})
	}
}

// A pause holds on every server, and what was due in it is accounted for.
func TestPause(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		// One has ticks of which the servers soon settle those in the pause, the other one that a trigger can always
		// start.
		m := w.jobs(job{"often", "@every 1s", `{"starting_deadline_seconds": 2}`, w.work("job", work{})},
			job{"job", "@every 2s", `{"starting_deadline_seconds": 3600}`, shell(`echo $DIBS_TICK >> ` + w.path("others"))})
		servers := []*process{w.serve(m), w.serve(m)}
		w.hears(patience, 2, "start", "job")
		w.must("job", "pause", "app/job", "--reason", "a test")
		w.must("job", "pause", "app/often", "--reason", "a test")
		paused := time.Now() // the start of an earlier tick may still be under way
		time.Sleep(5 * time.Second)
		if some := w.ticksAfter("job", paused); len(some) > 0 {
			t.Errorf("paused since %s, they started the ticks %v", paused, some)
		}
		w.dibs(w.triggering(m)...).exits(4, patience).says("app/job: not run: paused by ", ": a test")
		w.must("job", "resume", "app/often")
		resumed := time.Now()
		eventually(t, patience, func() bool { return len(w.ticksAfter("job", resumed)) >= 2 }, servers[0].String)
		// They are settled once none of them could start any more, at once or one by one.
		n, why := 0, ""
		eventually(t, patience, func() bool {
			n = 0
			for _, e := range w.history("app/often") {
				if e.Outcome == "paused" {
					n, why = n+max(e.Count, 1), e.Reason
				}
			}
			return n >= 3
		}, func() string { return fmt.Sprintf("3 paused ticks; there are %d", n) })
		if !strings.Contains(why, ": a test") {
			t.Errorf("they are paused, reason %q", why)
		}
		stop(servers...)
		for tick := range strings.Lines(w.read("others")) {
			if tick > paused.UTC().Format(time.RFC3339)+"\n" {
				t.Errorf("paused since %s to the end, the other job started the tick %s", paused, tick)
			}
		}
		w.noOverlap()
	})
}
