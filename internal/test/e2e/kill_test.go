//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Promises 3 and 6: the command of a killed `dibs run` dies with it, whatever it started, and one that waits on the
// same host starts then, long before the lease would lapse.
// Holds: promises 3, 6.
func TestRunKilled(t *testing.T) {
	onEveryStore(t, longTTL, func(t *testing.T, w *world) {
		for _, cgroup := range []string{"on", "off"} {
			t.Run("cgroup-"+cgroup, func(t *testing.T) {
				w := w.in(t, "DIBS_CGROUP="+cgroup)
				holder := w.run(cgroup, nil, w.work("first "+cgroup, work{For: 5 * time.Minute, Family: true, Deaf: true}))
				pids := w.worksWithFamily("first " + cgroup)
				waiter := w.run(cgroup, []string{"--wait", "5m"}, w.work("second "+cgroup, work{}))
				w.waits(waiter)
				killed := time.Now()
				holder.signal(syscall.SIGKILL)
				gone := w.gone(killed, patience, pids)
				waiter.exits(0, patience)
				got := w.hears(time.Second, 1, "start", "second "+cgroup)[0].At
				t.Logf("command gone %s after the kill, the waiting one started %s after that", gone.Sub(killed), got.Sub(gone))
				w.noOverlap()
			})
		}
	})
}

// The command of a killed server dies with it as well, and not with its lease.
// Holds: promise 3.
func TestTheCommandOfAKilledServer(t *testing.T) {
	onEveryStore(t, longTTL, func(t *testing.T, w *world) {
		server := w.serve(w.manifest("job", "@every 1s", "", "job", work{For: 5 * time.Minute, Family: true, Deaf: true}))
		pids := w.worksWithFamily("job")
		server.signal(syscall.SIGKILL)
		w.gone(time.Now(), patience, pids)
	})
}

// One that waits where the holder's processes cannot be seen is granted the key too, once the lease has lapsed.
// (In the directory the kernel's lock tells at once, here as well.)
// Holds: promise 6.
func TestRunKilledSeenFromAnotherNamespace(t *testing.T) {
	notCovered(t, os.Geteuid() != 0, "another pid namespace", "root is needed to make one")
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		holder := w.run("k", nil, w.work("first", work{For: 5 * time.Minute, Family: true, Deaf: true}))
		pids := w.worksWithFamily("first")
		waiter := w.elsewhere("k", []string{"--wait", "5m"}, w.work("second", work{}))
		w.waits(waiter)
		killed := time.Now()
		holder.signal(syscall.SIGKILL)
		gone := w.gone(killed, patience, pids)
		waiter.exits(0, patience) // it would wait for longer
		got := w.hears(time.Second, 1, "start", "second")[0].At
		t.Logf("command gone %s after the kill; one in another pid namespace started %s after the kill (ttl %s)", gone.Sub(killed), got.Sub(killed), w.ttl)
		w.noOverlap()
	})
}

// opens waits until a process has opened the directory's store: by then it heeds signals.
func (w *world) opens(p *process) {
	w.t.Helper()
	eventually(w.t, patience, func() bool {
		open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Process.Pid))
		return slices.ContainsFunc(open, func(fd string) bool {
			file, _ := os.Readlink(fd)
			return strings.HasPrefix(file, w.host()+"/")
		})
	}, p.String)
}

// waits gives a waiting process the time to open its store and to find the key held. Nothing rests
// on it: one that comes later only makes the test weaker.
func (w *world) waits(p *process) {
	w.t.Helper()
	select {
	case <-p.ended:
		w.t.Fatalf("it was to wait: %s", p)
	case <-time.After(time.Second):
	}
}
