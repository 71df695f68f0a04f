//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// member is what `dibs server list -o json` says of a process.
type member struct {
	State, App string
	PID        int
	Jobs       int
	Queues     []string
	Offset     *float64 `json:"clock_offset_seconds"`
	// A process that began after another one was heard of last may have replaced it.
	Since, Heard time.Time
}

// members waits until the processes on record satisfy ok.
func (w *world) members(what string, ok func(map[int]member) bool, flags ...string) map[int]member {
	w.t.Helper()
	var by map[int]member
	eventually(w.t, patience, func() bool {
		var all []member
		p := w.dibs(append([]string{"server", "list", "-o", "json"}, flags...)...)
		if p.wait(patience) != 0 || json.Unmarshal([]byte(p.stdout()), &all) != nil {
			return false
		}
		by = map[int]member{}
		for _, m := range all {
			by[m.PID] = m
		}
		return ok(by)
	}, func() string { return fmt.Sprintf("%s: %+v", what, by) })
	return by
}

// Every serving and working process is on record, and what became of it: it is up, it drains, it ended, it is gone.
// Whoever asks is told when nobody serves a job any more.
func TestWhoServesAndWorksIsOnRecord(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		m := w.jobs(job{"rare", "0 0 1 1 *", `{}`, []string{"true"}}, job{"other", "0 0 1 1 *", `{}`, []string{"true"}})
		first, fast := w.serve(m), w.shifted("30s", m)
		worker := w.dibs("work", "mail", "bills", "--grace", "5m", "--", "sh", "-c", "sleep 300")
		pid := func(p *process) int { return p.Process.Pid }
		all := w.members("all are up", func(by map[int]member) bool {
			return by[pid(first)].State == "up" && by[pid(fast)].State == "up" && by[pid(worker)].State == "up"
		})
		if s := all[pid(first)]; s.App != "app" || s.Jobs != 2 || s.Offset == nil || *s.Offset > 1 || *s.Offset < -1 {
			t.Errorf("the server: %+v", s)
		}
		if s := all[pid(fast)]; s.Offset == nil || *s.Offset < 29 || *s.Offset > 31 {
			t.Errorf("the server whose clock is fast: %+v", s)
		}
		if s := all[pid(worker)]; s.App != "" || strings.Join(s.Queues, " ") != "mail bills" {
			t.Errorf("the worker: %+v", s)
		}
		w.must("task", "enqueue", "mail", "--queue", "mail", "--args", "{}")
		eventually(t, patience, func() bool { return strings.Contains(w.must("task", "list", "--state", "running"), "mail") }, func() string { return "the task runs" })
		worker.signal(syscall.SIGTERM)
		w.members("the worker drains", func(by map[int]member) bool { return by[pid(worker)].State == "draining" })
		worker.signal(syscall.SIGTERM)
		worker.wait(patience)
		w.members("the worker ended", func(by map[int]member) bool { return by[pid(worker)].State == "ended" }, "--all")
		w.members("who ended is not listed", func(by map[int]member) bool { return len(by) == 2 })

		w.members("both were heard of since both are there", func(by map[int]member) bool {
			a, b := by[pid(first)], by[pid(fast)]
			return a.Heard.After(b.Since) && b.Heard.After(a.Since)
		})
		first.signal(syscall.SIGKILL)
		w.members("the dead one is gone", func(by map[int]member) bool { return by[pid(first)].State == "gone" && by[pid(fast)].State == "up" })
		if text := w.must("job", "list"); strings.Contains(text, "unserved") {
			t.Errorf("a server is up: %s", text)
		}
		end := syscall.SIGKILL
		if w.name != "file" { // a process that is stopped while it writes to the directory stops all others of its host
			end = syscall.SIGSTOP
		}
		fast.signal(end)
		w.members("all are gone", func(by map[int]member) bool { return by[pid(fast)].State == "gone" })
		if text := w.must("job", "list"); strings.Count(text, "unserved since 2") != 2 {
			t.Errorf("nobody serves: %s", text)
		}
		if text := w.must("job", "show", "app/rare"); !strings.Contains(text, fmt.Sprintf(":%d was the last", pid(fast))) && !strings.Contains(text, fmt.Sprintf(":%d was the last", pid(first))) {
			t.Errorf("nobody serves: %s", text)
		}
		doctor := w.dibs("doctor").exits(1, patience)
		for _, text := range []string{"app-unserved", "Nobody serves app, with 2 jobs", "server-gone"} {
			if !strings.Contains(doctor.stdout(), text) {
				t.Errorf("doctor does not say %q: %s", text, doctor.stdout())
			}
		}
		if end == syscall.SIGSTOP {
			fast.signal(syscall.SIGCONT)
			w.members("it is back", func(by map[int]member) bool { return by[pid(fast)].State == "up" })
			if text := w.must("job", "list"); strings.Contains(text, "unserved") {
				t.Errorf("a server is up again: %s", text)
			}
			stop(fast)
		}
	})
}

// A tick that is due and that nobody claims is explained by who is up.
func TestExplainADueTickByWhoIsUp(t *testing.T) {
	w := newWorld(t, "redis", servers[0].shared(t), usualTTL)
	m := w.jobs(job{"soon", halfMinutes(time.Now().Add(8 * time.Second)), `{"starting_deadline_seconds": 25}`, []string{"true"}})
	server := w.serve(m)
	w.members("it is up", func(by map[int]member) bool { return len(by) == 1 })
	server.signal(syscall.SIGKILL)
	w.members("it is gone", func(by map[int]member) bool { return by[server.Process.Pid].State == "gone" })
	var last string
	eventually(t, patience, func() bool {
		p := w.dibs("explain", "app/soon", "-o", "json")
		p.wait(patience)
		last = p.stdout()
		return strings.Contains(last, "no server that serves app has been up since") && strings.Contains(last, `"last_server"`)
	}, func() string { return "explain says that none is up: " + last })
}
