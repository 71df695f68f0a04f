//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// Promise 3, where guardians are stopped or killed. What is stopped here is stopped again whenever it is
// continued.

// guarded is a work that ends for nothing but SIGKILL, with a family that leaves every trace behind.
var guarded = work{For: 5 * time.Minute, Family: true, Bare: true, Deaf: true}

// guards lists guardian and warden of a command.
func guards(t *testing.T, pid int) (found []int) {
	t.Helper()
	for pid = parent(pid); pid > 1; pid = parent(pid) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := bytes.Cut(b, []byte{0})
		if n := string(name); n != "dibs-guardian" && n != "dibs-warden" {
			break
		}
		found = append(found, pid)
	}
	if len(found) != 2 {
		t.Fatalf("guarded by %v", found)
	}
	return found
}

// stays stops processes until they have ended, the test does, or resume is called.
func stays(t *testing.T, pids ...int) (resume func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var keepers sync.WaitGroup
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		keepers.Go(func() {
			for ctx.Err() == nil && alive(pid) && syscall.Kill(pid, syscall.SIGSTOP) == nil {
				time.Sleep(time.Millisecond)
			}
			if ctx.Err() != nil && alive(pid) {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		})
	}
	return func() { cancel(); keepers.Wait() }
}

// withAndWithoutCgroup runs a test both ways, one after the other.
func (w *world) withAndWithoutCgroup(test func(w *world, key string)) {
	for _, cgroup := range []string{"on", "off"} {
		w.t.Run("cgroup-"+cgroup, func(t *testing.T) {
			test(w.in(t, "DIBS_CGROUP="+cgroup), cgroup)
		})
	}
}

// Holds: promise 3.
func TestGuardianStopped(t *testing.T) {
	t.Parallel()
	fileWorld(t).withAndWithoutCgroup(func(w *world, key string) {
		// Its time is long enough for all of the family to be born, and for its guards to be stopped.
		timed := w.run(key+"-timeout", []string{"--timeout", "12s", "--stop-grace", "1s"}, w.work("timed "+key, guarded))
		pids := w.worksWithFamily("timed " + key)
		stays(w.t, guards(w.t, pids[len(pids)-1])...)
		if status := timed.wait(patience); status == 0 {
			w.t.Errorf("status 0: %s", timed)
		}
		w.gone(time.Now(), 0, pids)

		told := w.run(key+"-term", nil, w.work("told "+key, work{For: 5 * time.Minute}))
		stays(w.t, guards(w.t, w.hears(patience, 1, "start", "told "+key)[0].PID)...)
		told.signal(syscall.SIGTERM)
		if status := told.wait(patience); status == 125 { // the last resort: its guards were killed before they said how it ended
			told.says("the guardian is gone")
		} else if status != 143 {
			w.t.Errorf("exit status %d, want 143: %s", status, told)
		}
	})
}

// Holds: promise 3.
func TestGuardianStoppedThenBreak(t *testing.T) {
	// The lease lapses while the work is killed: with the margins of a short one, a slow machine is the slower
	// of the two.
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		w.withAndWithoutCgroup(func(w *world, key string) {
			holder := w.run(key, nil, w.work("first "+key, guarded))
			pids := w.worksWithFamily("first " + key)
			stays(w.t, guards(w.t, pids[len(pids)-1])...)
			waiter := w.run(key, []string{"--wait", "5m"}, w.work("second "+key, work{}))
			w.waits(waiter)
			w.must("lease", "break", key, "--reason", "it hangs")
			holder.exits(79, patience)
			w.gone(time.Now(), 0, pids)
			waiter.exits(0, patience)
			w.noOverlap()
		})
	})
}

// Holds: promise 3.
func TestGuardianStoppedThenStoreSilent(t *testing.T) {
	onOwnServers(t, usualTTL, func(t *testing.T, w *world, server *testserver.Server) {
		holder := w.run("k", nil, w.work("first", guarded))
		pids := w.worksWithFamily("first")
		stays(w.t, guards(w.t, pids[len(pids)-1])...)
		server.Stop()
		silent := time.Now()
		w.gone(silent, w.ttl, pids)
		holder.exits(79, patience)
		server.Cont()
	})
}

// As `pkill -STOP dibs` does, of a server; another one is granted the key once the lease has lapsed.
// Holds: promise 3.
func TestServerAndGuardiansStopped(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		m := w.manifest("job", "@every 1s", "", "job", guarded)
		server := w.serve(m)
		pids := w.worksWithFamily("job")
		stopped := time.Now()
		for _, pid := range append(guards(t, pids[len(pids)-1]), server.Process.Pid) {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		// A server that is stopped in the middle of a write lets nobody else write to the directory.
		for w.name == "file" && w.dibs("task", "enqueue", "probe").wait(patience) != 0 {
			server.signal(syscall.SIGCONT)
			time.Sleep(10 * time.Millisecond)
			stopped = time.Now()
			server.signal(syscall.SIGSTOP)
		}
		other := w.serve(m)
		w.gone(stopped, w.ttl, pids)
		w.hears(patience, 2, "start", "job")
		w.noOverlap()
		other.signal(syscall.SIGKILL)
		server.signal(syscall.SIGKILL)
	})
}

// The same with `dibs run`, whose guardian is kept stopped: the kernel ends it.
// Holds: promise 3.
func TestRunAndGuardianStopped(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		w.withAndWithoutCgroup(func(w *world, key string) {
			holder := w.run(key, nil, w.work("first "+key, guarded))
			pids := w.worksWithFamily("first " + key)
			stopped := time.Now()
			stays(w.t, guards(w.t, pids[len(pids)-1])[0])
			holder.signal(syscall.SIGSTOP)
			waiter := w.elsewhere(key, []string{"--wait", "5m"}, w.work("second "+key, work{}))
			w.gone(stopped, w.ttl, pids)
			waiter.exits(0, patience)
			holder.exits(79, patience) // continued, to end what the guardian left
			w.noOverlap()
		})
	})
}

// A waiting process is granted the key only when what the killed guardian left is gone.
// Holds: promise 3.
func TestGuardianKilled(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		w.withAndWithoutCgroup(func(w *world, key string) {
			holder := w.run(key, nil, w.work("first "+key, guarded))
			pids := w.worksWithFamily("first " + key)
			waiter := w.run(key, []string{"--wait", "5m"}, w.work("second "+key, work{}))
			w.waits(waiter)
			if err := syscall.Kill(guards(w.t, pids[len(pids)-1])[0], syscall.SIGKILL); err != nil {
				w.t.Fatal(err)
			}
			// In the directory the key is free with the warden's end: a renewal may find the next holder before
			// the first one has said how its command ended.
			if status := holder.wait(patience); status != 125 && (status != 79 || w.name != "file") {
				w.t.Fatalf("exit status %d: %s", status, holder)
			}
			w.gone(time.Now(), 0, pids)
			waiter.exits(0, patience)
			w.noOverlap()
		})
	})
}
