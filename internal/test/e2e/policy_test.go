//go:build linux

package e2e

import (
	"os"
	"testing"
	"time"
)

// Promise 12: what a newcomer does about a holder.

func TestRunAllow(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		flags := []string{"--policy", "allow"}
		first := w.run("k", flags, w.work("first", work{Until: w.path("go")}))
		w.hears(patience, 1, "start", "first")
		w.run("k", flags, []string{"true"}).exits(0, patience)
		if !first.running() {
			t.Errorf("the first one has ended: %s", first)
		}
		w.create("go")
		first.exits(0, patience)
	})
}

// One waits, and runs once the other ends, without the lapse of a lease; there is no second place.
func TestRunWaitPolicy(t *testing.T) {
	onEveryStore(t, longTTL, func(t *testing.T, w *world) {
		flags := []string{"--policy", "wait"}
		first := w.run("k", flags, w.work("first", work{Until: w.path("go")}))
		w.hears(patience, 1, "start", "first")
		second := w.run("k", flags, w.work("second", work{}))
		w.queued("k")
		third := w.run("k", flags, w.work("third", work{})).exits(75, patience).says("another run is already waiting")
		if r := third.result(); r.Outcome != "contended" || r.Reason != "queue_full" {
			t.Errorf("%s", third)
		}
		w.create("go")
		first.exits(0, patience)
		second.exits(0, patience)
		w.hears(time.Second, 1, "start", "second")
		if n := len(which(heard(t, w.dir), "start", "third")); n > 0 {
			t.Errorf("the third was started:\n%s", w.log())
		}
		w.noOverlap()
	})
}

// queued waits until somebody waits for a key.
func (w *world) queued(key string) {
	w.t.Helper()
	eventually(w.t, patience, func() bool {
		var all []struct {
			Key     string
			Waiters int
		}
		w.decode(&all, "lease", "list", "-o", "json")
		for _, v := range all {
			if v.Key == key && v.Waiters == 1 {
				return true
			}
		}
		return false
	}, func() string { return "somebody waits for " + key })
}

// Promise 13: the newcomer starts only after the one it replaces is gone.
// Holds: promise 13.
func TestRunReplace(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		flags := []string{"--policy", "replace", "--stop-grace", "1s"}
		first := w.run("k", flags, w.work("first", work{For: 5 * time.Minute, Family: true, Deaf: true}))
		w.worksWithFamily("first")
		w.replaces(first, w.run("k", flags, w.work("second", work{})))

		// Who did not say that it may be replaced is not.
		holder := w.run("k", nil, w.work("third", work{Until: w.path("go")}))
		w.hears(patience, 1, "start", "third")
		w.run("k", flags, w.work("fourth", work{})).exits(75, patience).says("held by")
		if !holder.running() || len(which(heard(t, w.dir), "start", "fourth")) > 0 {
			t.Errorf("replaced all the same: %s\n%s", holder, w.log())
		}
		w.create("go")
		holder.exits(0, patience)
	})
}

// replaces checks that a newcomer has replaced a holder, and both their ends.
func (w *world) replaces(holder, newcomer *process) {
	w.t.Helper()
	newcomer.exits(0, patience)
	holder.wait(patience)
	w.noOverlap()
	if r := holder.result(); r.Outcome != "replaced" || r.ExitStatus == 0 {
		w.t.Errorf("%s", holder)
	}
	w.recorded("k", holder.result().RunID, "replaced")
	w.recorded("k", newcomer.result().RunID, "succeeded")
}

// The newest request stands, and who asked before is told.
func TestRunReplaceSuperseded(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		// The first one takes until the third has come.
		flags := []string{"--policy", "replace", "--stop-grace", "5m"}
		first := w.run("k", flags, w.work("first", work{Until: w.path("go"), Deaf: true, Status: 3}))
		w.hears(patience, 1, "start", "first")
		second := w.run("k", flags, w.work("second", work{}))
		w.hears(patience, 1, "terminated", "first") // it was asked, and takes its time
		third := w.run("k", flags, w.work("third", work{}))
		second.exits(75, patience).says("a newer run replaced it")
		if r := second.result(); r.Reason != "superseded" {
			t.Errorf("%s", second)
		}
		w.create("go")
		w.replaces(first, third)
		if n := len(which(heard(t, w.dir), "start", "second")); n > 0 {
			t.Errorf("the displaced one was started:\n%s", w.log())
		}
	})
}

// Across hosts: neither can see the other's processes, and they share no directory, only the store.
func TestRunReplaceAcrossHosts(t *testing.T) {
	notCovered(t, os.Geteuid() != 0, "another pid namespace", "root is needed to make one")
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, s.name, s.shared(t), usualTTL)
			flags := []string{"--policy", "replace", "--stop-grace", "1s"}
			there := w.in(t, "DIBS_DIR="+w.path("other-host"))
			first := there.elsewhere("k", flags, w.work("first", work{For: 5 * time.Minute, Family: true, Deaf: true}))
			w.hears(patience, family-1, "born", "first")
			w.replaces(first, w.run("k", flags, w.work("second", work{})))
		})
	}
}
