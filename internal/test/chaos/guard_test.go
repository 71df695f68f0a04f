//go:build linux

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The guard would say so: each thing that may not happen is found in a story that has it, and nothing in the story
// without.
func TestTheGuardSeesWhatIsWrong(t *testing.T) {
	tick := time.Now().UTC().Truncate(5 * time.Second).Add(-10 * time.Second)
	at := boot(tick)
	ran := func(key, run string, token int64, from, until time.Duration, ended bool) *life {
		l := &life{facts: facts{Key: key, Host: "h1", Run: run, Tick: stamp(tick), Token: tick.UnixMicro() + token}, id: run, begin: at + from, last: at + until, ended: ended}
		for b := l.begin; b <= l.last; b += beatEvery {
			l.beats = append(l.beats, b)
		}
		return l
	}
	const s = time.Second
	succeeded := func(key, run string) entry {
		e := entry{Job: key, Tick: &tick, Outcome: "succeeded"}
		e.Runs = append(e.Runs, recordedRun{RunID: run, Host: "h1", Outcome: "succeeded", Started: tick, Ended: tick.Add(2 * s)})
		return e
	}
	first := ran("chaos/long", "a", 1, 0, 2*s, true)
	overlapping := func(r *round) {
		r.seen.lives["b"] = ran("chaos/allow", "b", 2, s, 3*s, true)
		r.seen.lives["b"].Key, r.seen.lives["b"].Tick = "chaos/long", ""
		r.history["chaos/long"][0].Runs = append(r.history["chaos/long"][0].Runs, recordedRun{RunID: "b", Outcome: "succeeded"})
	}
	for name, c := range map[string]struct {
		change func(r *round)
		want   string // "" is no problem
	}{
		"nothing":    {func(*round) {}, ""},
		"an overlap": {func(r *round) { r.seen.lives["b"] = ran("chaos/long", "b", 2, s, 3*s, true) }, "both lived for 1s"},
		"a late waker": {func(r *round) {
			r.seen.lives["a"].last, r.seen.lives["b"] = at+9*s, ran("chaos/long", "b", 2, 3*s, 4*s, true)
		}, "none while that lived"},
		"a small token": {func(r *round) { r.seen.lives["b"] = ran("chaos/long", "b", 1, 3*s, 4*s, true) }, " of run b after "},
		"a token that stepped back with the clock, its record lost": {func(r *round) {
			r.seen.lives["a"].Token += time.Hour.Microseconds()
			r.steps, r.lost = []clockStep{{at - 30*s, time.Hour}, {at + s, -time.Hour}}, []lostSpan{{at, at + 2*s}}
			r.seen.lives["b"] = ran("chaos/long", "b", 1, 3*s, 4*s, true)
			r.seen.lives["b"].Tick = ""
			r.history["chaos/long"][0].Runs = append(r.history["chaos/long"][0].Runs, recordedRun{RunID: "b", Outcome: "succeeded"})
		}, ""},
		"a token that stepped back with the clock": {func(r *round) {
			r.seen.lives["a"].Token += time.Hour.Microseconds()
			r.steps = []clockStep{{at - 30*s, time.Hour}, {at + s, -time.Hour}}
			r.seen.lives["b"] = ran("chaos/long", "b", 1, 3*s, 4*s, true)
		}, " of run b after "},
		"a tick twice": {func(r *round) { r.seen.lives["b"] = ran("chaos/long", "b", 2, 3*s, 4*s, true) }, "begun 2 times"},
		"no outcome":   {func(r *round) { r.history["chaos/long"] = nil }, "no outcome"},
		"two outcomes": {func(r *round) {
			r.history["chaos/long"] = append(r.history["chaos/long"], entry{Job: "chaos/long", Tick: &tick, Outcome: "missed"})
		}, "2 outcomes"},
		"a claim that stays": {func(r *round) {
			r.history["chaos/long"] = []entry{{Job: "chaos/long", Tick: &tick, Outcome: "claimed"}}
			delete(r.seen.lives, "a")
		}, "it is claimed still"},
		"an untrue outcome": {func(r *round) { r.history["chaos/long"][0].Outcome = "missed" }, "is recorded as missed"},
		"an unseen end":     {func(r *round) { r.seen.lives["a"].ended = false }, "its end was not seen"},
		"an unseen run":     {func(r *round) { delete(r.seen.lives, "a"); r.history["chaos/long"][0].Runs[0].Outcome = "lost" }, "nothing of it was seen"},
		"an unseen run of a slow clock": {func(r *round) {
			delete(r.seen.lives, "a")
			r.history["chaos/long"][0].Runs[0].Outcome = "crashed"
			r.steps = []clockStep{{at - 30*s, -20 * s}}
			r.faults = []*fault{{kind: kind{uses: "kill@"}, host: "h1", from: at + 21*s, until: at + 21*s}}
		}, ""},
		"an unseen run of a fast clock that was corrected before the run was over": {func(r *round) {
			delete(r.seen.lives, "a")
			run, began := &r.history["chaos/long"][0].Runs[0], at-time.Hour
			run.Outcome, run.Ended = "crashed", tick.Add(10*s-time.Hour)
			r.steps = []clockStep{{began - 30*s, time.Hour}, {began + 5*s, -time.Hour}}
			r.faults = []*fault{{kind: kind{uses: "kill@"}, host: "h1", from: began + 3*s, until: began + 3*s}}
		}, ""},
		"an unseen run that was killed": {func(r *round) {
			delete(r.seen.lives, "a")
			r.history["chaos/long"][0].Runs[0].Outcome = "crashed"
			r.faults = []*fault{{plan: plan{harm: harm{unguarded: []string{"a"}}}, from: at + 30*s, until: at + 31*s}}
		}, ""},
		"a lost task": {func(r *round) { delete(r.tasks, 7) }, "task 7 was acknowledged"},
		"an unread log that holds a key": {func(r *round) {
			r.faults = []*fault{{kind: kind{uses: "logs@"}, host: "h1", from: at - 30*s, until: at + s}}
			r.seen.lives["a"].Token -= (20 * s).Microseconds()
		}, "though neither store nor processes were harmed"},
		"a cut that holds a key": {func(r *round) {
			r.faults = []*fault{{kind: kind{uses: "wire@"}, host: "h1", from: at - 10*s, until: at - 5*s}}
			r.seen.lives["a"].Token -= (20 * s).Microseconds()
		}, ""},
		"a silent worker": {func(r *round) { r.write("init.log", "1 work 5 gone-in-silence\n") }, "work ended with status 0"},
		"within L12": {func(r *round) {
			r.steps = []clockStep{{at + s/2, time.Hour}}
			r.seen.lives["b"] = ran("chaos/long", "b", 2, s, 3*s, true)
			r.seen.lives["b"].Tick = ""
			r.history["chaos/long"][0].Runs = append(r.history["chaos/long"][0].Runs, recordedRun{RunID: "b", Outcome: "succeeded"})
		}, ""},
		"left alone": {func(r *round) {
			r.faults = []*fault{{plan: plan{harm: harm{unguarded: []string{"a"}, unwarded: []string{"a"}}, forever: true}, from: at, until: at}}
			overlapping(r)
		}, ""},
		"left alone in a group": {func(r *round) {
			r.faults = []*fault{{plan: plan{harm: harm{unguarded: []string{"a"}, unwarded: []string{"a"}}, forever: true}, from: at, until: at}}
			r.hosts[0].grouped = true
			overlapping(r)
		}, "both lived for 1s"},
		"all were stopped": {func(r *round) {
			all := harm{orphans: []string{"a"}, unguarded: []string{"a"}, unwarded: []string{"a"}}
			r.faults = []*fault{{plan: plan{harm: all}, from: at, until: at + 2*s}}
			overlapping(r)
		}, "both lived for 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mine := *first
			r := &round{t: t, dir: dir, ttl: 15 * s, counts: map[string]int{}, tasks: map[int64]string{7: "available"}}
			r.hosts = []*host{{name: "h1", dir: dir}}
			r.seen = &observer{lives: map[string]*life{"a": &mine}}
			r.history = map[string][]entry{"chaos/long": {succeeded("chaos/long", "a")}}
			r.write("enqueue.out", "{\n \"outcome\": \"enqueued\",\n \"id\": 7\n}\n{\n \"outc")
			c.change(r)
			r.accountOverlaps()
			r.accountTwice("chaos/long", false)
			r.accountOutcomes("chaos/long")
			r.accountTick("chaos/long", tick)
			r.accountGrants()
			r.accountTasks()
			r.accountServices()
			found := strings.Join(r.problems, "\n")
			if c.want == "" && found != "" || !strings.Contains(found, c.want) {
				t.Errorf("want %q, found %q", c.want, found)
			}
		})
	}
}

func (r *round) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// What the works write is read as it grows, and half a line is left for later.
func TestTheObserverReadsWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "works")
	o := newObserver([]*host{{name: "h1", dir: dir}})
	if err := o.look(); err != nil || len(o.lives) != 0 {
		t.Fatal(err, o.lives)
	}
	w, err := newWitness(path, "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.begin(facts{Key: "k", Token: 5}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a beat each, at least, however slow the machine is
		w.beatFor(60 * time.Millisecond)
	}
	if _, err := w.file.WriteString("E x 9"); err != nil { // cut off
		t.Fatal(err)
	}
	if err := o.look(); err != nil {
		t.Fatal(err)
	}
	l := o.lives["x"]
	if l == nil || l.Key != "k" || l.Token != 5 || len(l.beats) < 2 || l.ended || l.last <= l.begin {
		t.Fatalf("%+v", l)
	}
	if _, err := w.file.WriteString("99999999999999999 \n"); err != nil {
		t.Fatal(err)
	}
	if err := o.look(); err != nil || !l.ended || o.unread != 0 {
		t.Fatalf("%v %+v", err, l)
	}
}
