//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// firstLine waits until the first line of `dibs status` begins like this, and `dibs check` ends with a status.
func (w *world) firstLine(when, begins string, check int) {
	w.t.Helper()
	var screen, line string
	var got int
	eventually(w.t, patience, func() bool {
		p := w.dibs("status")
		p.wait(patience)
		screen = p.stdout()
		c := w.dibs("check")
		got, line = c.wait(patience), c.stdout()
		return strings.HasPrefix(screen, begins) && got == check
	}, func() string { return fmt.Sprintf("%s: want %q, %d: %d, %s%s", when, begins, check, got, screen, line) })
}

// hostname is this host's name, as processes report it.
func (w *world) hostname() string {
	name, err := os.Hostname()
	if err != nil {
		w.t.Fatal(err)
	}
	return name
}

// says checks that a line of `dibs status` has these words.
func (w *world) says(when string, words ...string) {
	w.t.Helper()
	screen := w.must("status")
	for _, text := range words {
		if !strings.Contains(screen, text) {
			w.t.Errorf("%s: status does not say %q: %s", when, text, screen)
		}
	}
}

// The first line of the status is the worst that there is: for each thing that can happen to a fleet, and not before.
func TestStatusOfAFleet(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		m := w.jobs(job{"rare", "0 0 1 1 *", `{}`, []string{"true"}}, job{"other", "0 0 1 1 *", `{}`, []string{"true"}})
		fast := w.shifted("30s", m)
		w.firstLine("a clock is off", fmt.Sprintf("WARNING   1 clock is off the store's: %s:%d by ", w.hostname(), fast.Process.Pid), 1)
		fast.signal(syscall.SIGTERM)
		fast.wait(patience)
		first, second := w.serve(m), w.serve(m)
		worker := w.dibs("work", "mail", "--", "sh", "-c", "sleep 300")
		const well = "OK        2 servers, 1 worker, 2 jobs: nothing is late or failing"
		w.firstLine("healthy", well, 0)

		holder := w.run("backup", nil, []string{"sleep", "300"})
		w.must("task", "enqueue", "send", "--queue", "mail")
		w.must("job", "pause", "app/rare", "--reason", "a move")
		eventually(t, patience, func() bool { return strings.Contains(w.must("status"), "mail   0        1        0       1") }, func() string { return w.must("status") })
		w.says("all at once", "RUNNING (1)\n", "backup  ", "SERVERS AND WORKERS (3)\n", "1 job paused: app/rare paused by ", ": a move")
		w.must("job", "resume", "app/rare")

		w.must("task", "enqueue", "bill", "--queue", "bills")
		w.says("nobody works", "tasks of kind bill wait in queue bills (1 of them), and no live worker handles them") // after a minute this is critical
		if p := w.dibs("check", "--queue", "bills"); p.wait(patience) > 2 || !strings.Contains(p.stdout(), "no live worker handles them") {
			t.Errorf("nobody works: %s", p.stdout())
		}
		w.must("queue", "clear", "bills", "--yes")
		holder.signal(syscall.SIGKILL)
		w.firstLine("a key's run died", "CRITICAL  backup crashed at ", 2)
		w.run("backup", nil, []string{"true"}).exits(0, patience)
		w.firstLine("it is well again", well+"; backup succeeded at ", 0)
		w.run("backup", nil, []string{"sh", "-c", "exit 3"}).exits(3, patience)
		w.firstLine("it failed", "CRITICAL  backup failed at ", 2)
		if p := w.dibs("check", "app/rare"); p.wait(patience) != 0 {
			t.Errorf("another job: %s", p.stdout())
		}
		w.run("backup", nil, []string{"true"}).exits(0, patience)

		// A process that is stopped while it writes to the directory stops all others of its host; and one whose last
		// report there is older than the start of another one counts as replaced.
		end := syscall.SIGKILL
		if w.name != "file" {
			end = syscall.SIGSTOP
			first.signal(end)
			w.firstLine("one is frozen", "WARNING   1 server or worker died, or cannot reach the store, or is stopped: ", 1)
		}
		first.signal(end)
		second.signal(syscall.SIGKILL)
		w.firstLine("all are dead", "CRITICAL  nobody serves app, with 2 jobs: its last server, ", 2)
		if p := w.dibs("check", "app/rare"); p.wait(patience) != 2 || !strings.HasPrefix(p.stdout(), "DIBS CRITICAL - nobody serves app") {
			t.Errorf("its job: %s", p.stdout())
		}
		if end == syscall.SIGSTOP {
			first.signal(syscall.SIGCONT)
			w.firstLine("one is back", "WARNING   1 server or worker died, or cannot reach the store, or is stopped: ", 1)
			w.says("one is back", fmt.Sprintf("NOTE      %s:%d was cut off from the store, or stopped, until 2", w.hostname(), first.Process.Pid))
			stop(first)
		}
		worker.signal(syscall.SIGTERM)
		worker.signal(syscall.SIGTERM)
		worker.wait(patience)
	})
}

// A store that is away is the first line while it is, and what became of it afterwards, when all is well.
func TestStatusOfAStoreThatWasAway(t *testing.T) {
	onOwnServers(t, usualTTL, func(t *testing.T, w *world, server *testserver.Server) {
		m := w.jobs(job{"rare", "0 0 1 1 *", `{}`, []string{"true"}})
		a, b := w.serve(m), w.serve(m)
		const well = "OK        2 servers, 0 workers, 1 job: nothing is late or failing"
		w.firstLine("healthy", well, 0)
		server.Stop()
		p := w.dibs("status")
		if p.wait(patience) != 69 || !strings.HasPrefix(p.stdout(), "CRITICAL  ") || !strings.Contains(p.stdout(), "no server starts anything new") {
			t.Errorf("it is away: %s%s", p.stdout(), p.stderr())
		}
		if p := w.dibs("check"); p.wait(patience) != 2 || !strings.HasPrefix(p.stdout(), "DIBS CRITICAL - ") {
			t.Errorf("it is away: %s%s", p.stdout(), p.stderr())
		}
		time.Sleep(usualTTL) // of the outage, not of a race: the leases lapse meanwhile
		server.Cont()
		w.firstLine("it is back", well+"; the store was away, or forgot everything, until 2", 0)
		w.wipe(server)
		w.firstLine("it is back with nothing", well+"; the store was away, or forgot everything, until 2", 0)
		stop(a, b)
	})
}
