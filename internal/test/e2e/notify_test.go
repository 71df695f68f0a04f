//go:build linux

package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A service manager hears when a server serves, reloads, lives and stops; what the server runs cannot speak for it.
func TestTheServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	heard := w.manager()
	m := w.write("m.yaml", fmt.Sprintf(`
version: 1
app: app
jobs:
- {name: job, schedule: "@every 1s", command: {shell: 'echo "socket $NOTIFY_SOCKET $WATCHDOG_USEC." >> %s'}}
`, w.path("told")))
	p := w.serve(m)
	heard(p, "READY=1\nSTATUS=serving 1 jobs of app", "WATCHDOG=1", "WATCHDOG=1")
	p.signal(syscall.SIGHUP)
	heard(p, "RELOADING=1\nMONOTONIC_USEC=", "READY=1\nSTATUS=serving app")
	eventually(t, patience, func() bool { _, err := os.Stat(w.path("told")); return err == nil }, p.String)
	stop(p)
	heard(p, "STOPPING=1")
	if b, err := os.ReadFile(w.path("told")); err != nil || !strings.HasPrefix(string(b), "socket  .\n") {
		t.Errorf("the command found %q, %v", b, err)
	}
}

// So does it of a worker.
func TestTheServiceManagerIsToldOfAWorker(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	heard := w.manager()
	p := w.dibs("work", "mail", "--", "true")
	heard(p, "READY=1\nSTATUS=working mail", "WATCHDOG=1")
	stop(p)
	heard(p, "STOPPING=1")
}

// A manager that does not read, and one that is not there, hold up nobody.
func TestNobodyWaitsForTheServiceManager(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	m := w.manifest("job", "@every 1s", `{}`, "job", work{})
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: w.path("deaf"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	env := w.env
	for _, address := range []string{w.path("deaf"), w.path("nobody")} {
		w.env = append(env[:len(env):len(env)], "NOTIFY_SOCKET="+address, "WATCHDOG_USEC=2000")
		p := w.serve(m)
		p.logs("event=serving")
		stop(p)
	}
}

// manager has what the world starts find a service manager, and returns what waits until it has heard messages that
// begin so, in this order.
func (w *world) manager() (heard func(p *process, messages ...string)) {
	w.t.Helper()
	path := w.path("manager")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = socket.Close() })
	w.env = append(w.env, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=200000")
	var mu sync.Mutex
	var all []string
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := socket.Read(b)
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, string(b[:n]))
			mu.Unlock()
		}
	}()
	next := 0
	return func(p *process, messages ...string) {
		w.t.Helper()
		for _, want := range messages {
			eventually(w.t, patience, func() bool {
				mu.Lock()
				defer mu.Unlock()
				for next < len(all) {
					next++
					if strings.HasPrefix(all[next-1], want) {
						return true
					}
				}
				return false
			}, func() string {
				mu.Lock()
				defer mu.Unlock()
				return fmt.Sprintf("%q was not heard, only %q\n%s", want, all, p)
			})
		}
	}
}
