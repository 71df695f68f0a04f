//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// starve takes all descriptors from a process that it does not use yet, and returns how to give them back.
func starve(p *process) (feed func()) {
	p.t.Helper()
	var was unix.Rlimit
	set := func(to, was *unix.Rlimit) {
		p.t.Helper()
		if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_NOFILE, to, was); err != nil {
			p.t.Fatal(err)
		}
	}
	set(nil, &was)
	set(&unix.Rlimit{Cur: 3, Max: was.Max}, nil)
	return func() { p.t.Helper(); set(&was, nil) }
}

// allSucceed waits until n ticks of a job have succeeded, and no others have ended but at most some that nobody began.
// None may have run twice.
func (w *world) allSucceed(name string, n, most int) {
	w.t.Helper()
	var all []entry
	eventually(w.t, patience, func() bool {
		all = w.history("app/" + name)
		ended, unavailable := 0, 0
		for _, e := range all {
			switch {
			case e.Tick == nil, e.Outcome == "started", e.Outcome == "claimed":
			case e.Outcome == "unavailable": // for as long as it takes to hand it over
				unavailable++
			case e.Outcome != "succeeded":
				w.t.Fatalf("the tick %s ended %s: %s", e.Tick, e.Outcome, e.Reason)
			default:
				ended++
			}
		}
		return ended >= n && unavailable <= most
	}, func() string { return fmt.Sprintf("history has %+v", all) })
	w.eachTickAtMostOnce(name)
}

func (w *world) eachTickAtMostOnce(name string) {
	w.t.Helper()
	for at, n := range w.startsPerTick(name) {
		if n != 1 {
			w.t.Errorf("the tick %s started %d times", at, n)
		}
	}
}

// hungry is a policy under which a tick that goes to another server is in time, however slow the machine is.
const hungry = `{"starting_deadline_seconds": 120, "concurrency": "Allow"}`

// A server that has no descriptors left costs no tick: they go to the other server, and the log says why. Once it has
// some again, it works alone.
// Holds: promise 10, T2.
func TestAStarvedServerLeavesItsTicksToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "redis", testserver.Redis(t), usualTTL)
	m := w.manifest("job", "@every 1s", hungry, "job", work{})
	a, b := w.serve(m), w.serve(m)
	for _, p := range []*process{a, b} {
		p.logs("event=serving")
	}
	w.hears(patience, 2, "start", "job")
	feed := starve(a)
	a.logs("level=ERROR", "event=cannot-start", "too many open files")
	n := len(w.history("app/job"))
	w.allSucceed("job", n+10, 5) // it may lack the descriptor to hand one over
	feed()
	stop(b)
	a.logs("event=starting-again")
	n = len(w.history("app/job"))
	w.allSucceed("job", n+3, 5)
	stop(a)
}

// A server whose host lacks a job's program costs no tick either.
// Holds: promise 10, T2.
func TestAServerWithoutTheProgramLeavesTheJobToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "redis", testserver.Redis(t), usualTTL)
	bin := w.path("bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Args[0], filepath.Join(bin, "here")); err != nil {
		t.Fatal(err)
	}
	args := w.work("job", work{})
	m := w.jobs(job{"job", "@every 1s", hungry, append([]string{"here"}, args[1:]...)})
	lacking := w.serve(m)
	b := w.in(t, "PATH="+bin+":"+os.Getenv("PATH")).serve(m)
	lacking.logs("level=ERROR", "event=cannot-start", "job=app/job", "no such file or directory")
	w.allSucceed("job", 15, 0)
	stop(lacking, b)
}

// A worker that has no descriptors left fails no task: the other worker does them all.
// Holds: promise 19, Q6.
func TestAStarvedWorkerLeavesItsTasksToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "redis", testserver.Redis(t), usualTTL)
	a := w.dibs("work", "default", "--slots", "4", "--", "true")
	a.logs("working")
	feed := starve(a)
	enqueue := func(n int) {
		for range n {
			w.must("task", "enqueue", "k", "--max-attempts", "1")
		}
	}
	succeeded := func(n int) {
		t.Helper()
		eventually(t, patience, func() bool { return len(w.tasks("--state", "succeeded")) == n },
			func() string { return fmt.Sprintf("%+v\n%s", w.tasks(), a) })
	}
	enqueue(5)
	a.logs("level=ERROR", "event=cannot-start", "too many open files")
	b := w.dibs("work", "default", "--slots", "2", "--", "true")
	enqueue(5)
	succeeded(10)
	stop(b)
	feed()
	enqueue(3)
	succeeded(13)
	a.logs("event=starting-again")
	stop(a)
}

// A worker whose command is not there, or cannot be executed, ends before it takes a task.
// Holds: Q6.
func TestAWorkerWithoutItsCommandDoesNotStart(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	w.must("task", "enqueue", "k")
	for command, status := range map[string]int{"/nonexistent": 127, "no-such-command-here": 127, w.write("plain", "x"): 126} {
		w.dibs("work", "default", "--", command).exits(status, patience).says("the command cannot be started on this host", command)
	}
	if all := w.tasks("--state", "available"); len(all) != 1 {
		t.Errorf("the tasks are %+v", w.tasks())
	}
}
