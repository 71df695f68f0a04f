//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
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
	n := len(w.history("app/b")) // the old one is served on
	eventually(t, patience, func() bool { return len(w.history("app/b")) > n+1 }, p.String)
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

// served is an application whose manifest a test changes. It asks nobody for a signature.
type served struct {
	*httptest.Server
	manifest atomic.Pointer[string]
}

// serves starts an application with an app and one job, what of which is as said: ORIGIN is its own.
func serves(t *testing.T, app, what string) *served {
	t.Helper()
	s := &served{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/cron-manifest" {
			fmt.Fprint(rw, strings.ReplaceAll(*s.manifest.Load(), "ORIGIN", s.URL))
		}
	}))
	t.Cleanup(s.Close)
	s.says(app, what)
	return s
}

func (s *served) says(app, what string) {
	text := fmt.Sprintf(`{"version": 1, "app": %q, "jobs": [{"name": "invoice", "schedule": "@every 60m", %s}]}`, app, what)
	s.manifest.Store(&text)
}

const ownRequest = `"request": {"url": "ORIGIN/"}`

// An application that chooses the name of another one's app is refused, at the start, when it is asked again, and
// after everybody else has gone; the operator's word gives the app to whom it names.
// Holds: T14.
func TestAnApplicationTakesNoOtherApp(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		w = w.in(t, "CRON_SECRET=hunter2")
		shop, thief := serves(t, "shop", ownRequest), serves(t, "shop", ownRequest)
		serve := func(s *served, flags ...string) *process {
			return w.serve(s.URL, append(flags, "--secret", "env:CRON_SECRET")...)
		}
		refused := func(flags ...string) {
			t.Helper()
			p := serve(thief, flags...).exits(2, patience)
			p.says("the app belongs to another source", thief.URL, "shop/invoice", "add --app shop on every server")
		}
		owner := serve(shop)
		owner.logs("event=serving", "app=shop")
		if out := w.must("job", "show", "shop/invoice"); !strings.Contains(out, "source      "+shop.URL) {
			t.Errorf("it is not said whose it is: %s", out)
		}
		refused()
		w.dibs("doctor", thief.URL, "--secret", "env:CRON_SECRET").exits(1, patience)
		stop(owner)
		refused()
		owner = serve(shop) // by itself, as ever
		owner.logs("event=serving", "app=shop")

		// Nor does it get there by another name first, granted or not.
		thief.says("thief", ownRequest)
		free := serve(thief)
		free.logs("event=serving", "app=thief")
		bound := serve(thief, "--app", "thief")
		bound.logs("event=serving", "app=thief")
		thief.says("shop", ownRequest)
		free.signal(syscall.SIGHUP)
		free.logs("event=reload-failed", "a running server cannot change it")
		bound.signal(syscall.SIGHUP)
		bound.logs("event=reload-failed", "is not an app of this application", "add --app shop")
		stop(free, bound)
		refused()
		serve(thief, "--app", "thief").exits(2, patience).says("is not an app of this application")

		// The operator says who has it. Who had it by itself keeps nothing that it could change.
		moved := serves(t, "shop", ownRequest)
		heir := serve(moved, "--app", "billing", "--app", "shop")
		heir.logs("event=serving", "app=shop")
		owner.signal(syscall.SIGHUP)
		owner.logs("event=reload-failed", "the app belongs to another source", "by the operator")
		stop(owner, heir)
		refused()
	})
}

// An application does not take over what the manifest of a file has registered.
// Holds: T14.
func TestAnApplicationTakesNoAppOfAFile(t *testing.T) {
	t.Parallel()
	w := fileWorld(t).in(t, "CRON_SECRET=hunter2")
	m := w.write("m.yaml", "{version: 1, app: billing, jobs: [{name: invoice, schedule: '@yearly', command: ['true']}]}")
	file := w.serve(m)
	file.logs("event=serving", "app=billing")
	thief := serves(t, "billing", ownRequest)
	p := w.dibs("doctor", thief.URL, "--secret", "env:CRON_SECRET").exits(1, patience)
	const by = "billing/invoice is registered by the operator"
	for _, says := range []string{"app_not_granted", "--app billing", by} {
		if !strings.Contains(p.stdout(), says) {
			t.Errorf("doctor does not say %q: %s", says, p)
		}
	}
	w.serve(thief.URL, "--secret", "env:CRON_SECRET").exits(2, patience).says(by, "add --app billing")
	if out := w.must("job", "show", "billing/invoice"); !strings.Contains(out, "@yearly") {
		t.Errorf("the job is another one now: %s", out)
	}
	stop(file)
}

// An application whose global job was refused at a reload ends nobody's jobs by having none there again.
// Holds: T14.
func TestARefusedReloadLeavesOthersJobs(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		if w.name == "file" {
			t.Skip("it has one place for all jobs")
		}
		w = w.in(t, "CRON_SECRET=hunter2")
		m := w.write("m.yaml", "{version: 1, app: billing, jobs: [{name: invoice, schedule: '@yearly', command: ['true']}]}")
		file := w.serve(m)
		file.logs("event=serving", "app=billing")
		scoped := func(scope string) string { return ownRequest + `, "policy": {"concurrency_scope": "` + scope + `"}` }
		thief := serves(t, "billing", scoped("host"))
		p := w.serve(thief.URL, "--secret", "env:CRON_SECRET")
		p.logs("event=serving", "app=billing")
		thief.says("billing", scoped("global"))
		p.signal(syscall.SIGHUP)
		p.logs("event=reload-failed", "the app belongs to another source")
		thief.says("billing", scoped("host"))
		p.signal(syscall.SIGHUP)
		p.logs("event=reloaded")
		if out := w.must("job", "list"); !strings.Contains(out, "billing/invoice  active") {
			t.Errorf("the operator's job is gone: %s", out)
		}
		thief.says("billing", scoped("global"))
		p.signal(syscall.SIGHUP)
		p.logs("event=reload-failed", "the app belongs to another source")
		stop(p, file)
	})
}

// A reload meets the same grants as the start: what the new manifest names beyond them leaves the old one in force.
func TestAReloadNamesOnlyWhatWasGranted(t *testing.T) {
	t.Parallel()
	w := fileWorld(t).in(t, "CRON_SECRET=hunter2")
	app := serves(t, "shop", ownRequest)
	p := w.serve(app.URL, "--secret", "env:CRON_SECRET", "--app", "shop", "--allow-host", "hooks.example",
		"--allow-queue", "mail")
	p.logs("event=serving")
	hook := func(url string) string { return `, "hooks": [{"on": ["success"], "ping": "` + url + `"}]` }
	task := func(limit string) string {
		return `"task": {"kind": "k", "queue": "mail", "limit": {"key": "` + limit + `", "max": 1000}}`
	}
	const plain = "add --allow-host http://hooks.example"
	for _, c := range []struct{ what, path, cure string }{
		{`"request": {"url": "http://hooks.example/"}`, "jobs/0/request/url", plain},
		{ownRequest + hook("http://hooks.example/a"), "jobs/0/hooks/0/ping/url", plain},
		{task("smtp"), "jobs/0/task/limit/key", "add --allow-limit smtp"},
		{`"task": {"kind": "k", "queue": "other"}`, "jobs/0/task/queue", "add --allow-queue other"},
	} {
		app.says("shop", c.what)
		p.signal(syscall.SIGHUP)
		p.logs("event=reload-failed", c.path, c.cure)
	}
	app.says("shop", task("shop/smtp")+hook("https://hooks.example/a"))
	p.signal(syscall.SIGHUP)
	p.logs("event=reloaded")
	stop(p)
}
