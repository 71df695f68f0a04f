//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The files of a directory are one manifest, which is reloaded when one comes, changes or goes; a
// wrong one, or a directory that cannot be read, leaves the old manifest in force.
func TestServeReloadsADirectory(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	if err := os.Mkdir(w.path("jobs.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	put := func(file, name string) {
		w.write("jobs.d/"+file, fmt.Sprintf(`{"version": 1, "app": "app", "jobs": [{"name": %q, "schedule": "@every 2s", "command": ["true"]}]}`, name))
	}
	put("a.json", "a")
	put("b.json", "b")
	w.write("jobs.d/notes.txt", "no manifest")
	p := w.serve(w.path("jobs.d"))
	p.logs("event=serving", "jobs=2", "SIGHUP and changes")
	put("c.json", "c")
	p.logs("event=reloaded", "jobs=3")
	put("c.json", "a")
	p.logs("event=reload-failed", "jobs.d/c.json", "jobs/0/name", "jobs.d/a.json")
	if err := os.Remove(w.path("jobs.d/c.json")); err != nil {
		t.Fatal(err)
	}
	p.logs("event=reloaded", "jobs=2")
	if err := os.Rename(w.path("jobs.d"), w.path("elsewhere")); err != nil {
		t.Fatal(err)
	}
	p.logs("event=reload-failed", "jobs.d: no such file or directory")
	for len(w.history("app/b")) < 2 { // the old one is served on
		time.Sleep(100 * time.Millisecond)
	}
	stop(p)
}

// An application is asked at the start and on SIGHUP, and never in between; when it does not answer
// well, the manifest that is served stays.
func TestServeAsksAnApplication(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	var asked, broken atomic.Int32
	app := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/.well-known/cron-manifest" || r.Header.Get("X-Cron-Signature") == "" {
			return
		}
		if n := asked.Add(1); broken.Load() == 0 {
			fmt.Fprintf(rw, `{"version": 1, "app": "app", "jobs": [{"name": "j%d", "schedule": "@every 60m", "request": {"url": "http://%s/"}}]}`, n, r.Host)
		} else {
			rw.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer app.Close()
	p := w.in(t, "CRON_SECRET=hunter2").serve(app.URL, "--secret", "env:CRON_SECRET")
	p.logs("event=serving", "jobs=1", "reloaded_on=SIGHUP\n")
	p.signal(syscall.SIGHUP)
	p.logs("event=reloaded", "SIGHUP")
	broken.Store(1)
	p.signal(syscall.SIGHUP)
	p.logs("event=reload-failed", "answered 502", "/.well-known/cron-manifest")
	if n := asked.Load(); n != 3 {
		t.Errorf("the application was asked %d times, want 3", n)
	}
	stop(p)
}
