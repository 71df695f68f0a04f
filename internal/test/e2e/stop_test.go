//go:build linux

package e2e

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// Promise 3: a holder that is suspended cannot renew, and cannot stop its command: its guardian does,
// before anybody else is granted the key.
// Holds: promise 3.
func TestHolderStopped(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		holder := w.run("k", nil, w.work("first", work{For: 5 * time.Minute, Family: true, Deaf: true}))
		pids := w.worksWithFamily("first")
		waiter := w.run("k", []string{"--wait", "5m"}, w.work("second", work{}))
		w.waits(waiter)
		stopped := time.Now()
		resume := stays(t, holder.Process.Pid) // the kernel continues it when its lease is lost
		gone := w.gone(stopped, w.ttl, pids)
		waiter.exits(0, patience)
		got := w.hears(time.Second, 1, "start", "second")[0].At
		t.Logf("command gone %s after the stop, the waiting one started after %s (ttl %s)", gone.Sub(stopped), got.Sub(stopped), w.ttl)
		time.Sleep(time.Until(stopped.Add(w.ttl)))
		resume()
		holder.exits(79, patience)
		if r := holder.result(); r.Outcome != "lost" || r.ExitStatus != 79 || r.Reason == "" {
			t.Errorf("the result is %s", holder)
		}
		w.noOverlap()
		w.recorded("k", holder.result().RunID, "lost")
		w.recorded("k", waiter.result().RunID, "succeeded")
	})
}

// recorded checks a run's outcome in history, and returns its reason. What a store on a busy machine could not be told
// in time is kept on the host, and told by whoever looks.
func (w *world) recorded(key, runID, outcome string) (reason string) {
	w.t.Helper()
	var all []entry
	eventually(w.t, patience, func() bool {
		all = w.history(key)
		for _, e := range all {
			for _, r := range e.Runs {
				if r.RunID == runID && r.Outcome == outcome && !r.Inferred {
					reason = r.Reason
					return true
				}
			}
		}
		return false
	}, func() string {
		return fmt.Sprintf("history has run %s of %s as %s, not inferred: %+v", runID, key, outcome, all)
	})
	return reason
}

// Promises 3 and 7: the store falls silent while a command runs. The command is gone before the lease
// could have expired; nobody starts anything meanwhile; what happened is told once the store is back.
// Holds: promises 3, 7.
func TestStoreSilent(t *testing.T) {
	onOwnServers(t, usualTTL, func(t *testing.T, w *world, server *testserver.Server) {
		holder := w.run("k", nil, w.work("first", work{For: 5 * time.Minute, Family: true, Deaf: true}))
		pids := w.worksWithFamily("first")
		server.Stop()
		silent := time.Now() // a renewal may have been answered until here
		newcomer := w.run("other", nil, w.work("newcomer", work{}))
		serve := w.dibs("serve", "--default-scope", "global", w.manifest("other", "@every 1s", "", "newcomer", work{}))
		gone := w.gone(silent, w.ttl, pids)
		holder.exits(79, patience)
		t.Logf("command gone %s after the store fell silent, dibs ended after %s (ttl %s)", gone.Sub(silent), holder.endedAt.Sub(silent), w.ttl)
		if r := holder.result(); r.Outcome != "lost" || r.ExitStatus != 79 || r.Reason == "" {
			t.Errorf("the result is %s", holder)
		}
		newcomer.exits(69, patience).says("store")
		serve.exits(69, patience).says("store")
		if started := which(heard(t, w.dir), "start", "newcomer"); len(started) > 0 {
			t.Errorf("started without a store: %v", started)
		}
		time.Sleep(time.Until(silent.Add(w.ttl + time.Second)))
		server.Cont()
		w.run("k", []string{"--wait", "5m"}, w.work("second", work{})).exits(0, patience)
		w.recorded("k", holder.result().RunID, "lost")
		w.noOverlap()
	})
}

// An interrupt that a terminal sends to all of its foreground ends the loop of a shell around `dibs run`, as it does
// around the command alone: dibs dies of what its command died of.
func TestAnInterruptEndsAShellsLoop(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("not covered: bash is not installed")
	}
	w := fileWorld(t)
	script := `for n in 1 2 3; do "$@"; done; exit 7`
	command := w.running("k", nil, w.work("job", work{Until: w.path("go")}))
	command.Args = append([]string{bash, "-c", script, "bash"}, command.Args...)
	command.Path, command.SysProcAttr.Setpgid = bash, true
	loop := w.start(command)
	w.hears(patience, 1, "start", "job")
	if err := syscall.Kill(-loop.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	w.hears(patience, 1, "interrupt", "job")
	w.create("go")
	loop.exits(130, patience)
	if n := len(which(heard(t, w.dir), "start", "job")); n != 1 {
		t.Errorf("the command was started %d times", n)
	}
}
