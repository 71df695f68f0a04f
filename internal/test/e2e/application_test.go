//go:build linux

package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/uncovered"
)

// Applications in other languages, written from the protocol's words alone (examples), agree with dibs on signatures,
// runs and the manifest.
func TestApplicationsInOtherLanguages(t *testing.T) {
	t.Parallel()
	for _, language := range []struct {
		name, program string
		command       func(program, port string) []string
	}{
		{"node", "server.mjs", func(program, _ string) []string { return []string{"node", program} }},
		{"python", "server.py", func(program, _ string) []string { return []string{"python3", program} }},
		{"php", "server.php", func(program, port string) []string { return []string{"php", "-S", "127.0.0.1:" + port, program} }},
	} {
		t.Run(language.name, func(t *testing.T) {
			t.Parallel()
			program, err := filepath.Abs("../../../examples/" + language.name + "/" + language.program)
			if err != nil {
				t.Fatal(err)
			}
			port := freePort(t)
			command := language.command(program, port)
			if _, err := exec.LookPath(command[0]); err != nil {
				uncovered.Skip(t, language.name, "examples/"+language.name+" runs on it, and it is not on this machine")
			}
			testApplication(t, language.name+"-example", port, command)
		})
	}
}

// freePort is a port of this host that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func testApplication(t *testing.T, name, port string, command []string) {
	const secret, older = "correct horse", "battery staple"
	w := newWorld(t, "redis", testserver.Redis(t), usualTTL)
	w = w.in(t, "PORT="+port, "CRON_SECRETS="+secret+"\n"+older, "CRON_SECRET="+secret, "OLDER="+older, "WRONG=x", "RUNS_DIR="+w.path("runs"))
	app := w.start(w.command(command[0], command[1:]...))
	address := "http://127.0.0.1:" + port
	eventually(t, patience, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, app.String)

	// Its manifest is valid, and only for who signs with one of its secrets.
	if out := w.must("validate", address, "--secret", "env:CRON_SECRET", "--canonical"); !strings.Contains(out, `"app":"`+name+`"`) || !strings.Contains(out, `"concurrency_scope":"global"`) {
		t.Errorf("the manifest is %s", out)
	}
	w.dibs("validate", address, "--secret", "env:OLDER").exits(2, patience).says(`jobs/0/auth/secret_refs/0: "env:CRON_SECRET" is not granted`)
	w.dibs("validate", address, "--secret", "env:WRONG").exits(2, patience).says("401", "--secret is one of its secrets")

	// A run is verified, done, and told its facts; the next one knows of it.
	fire := func(job string) result {
		t.Helper()
		p := w.dibs("trigger", name+"."+job, "--manifest", address, "--secret", "env:CRON_SECRET", "--now", "--json", "3")
		return p.exits(0, patience).result()
	}
	first := fire("tidy")
	ran := fmt.Sprintf("ran tidy run=%s attempt=1 trace=00-%s-", first.RunID, strings.ReplaceAll(first.RunID, "-", ""))
	if first.Outcome != "succeeded" || !strings.Contains(app.stdout(), ran) {
		t.Errorf("%+v; the application says\n%s", first, app.stdout())
	}
	if log := w.must("history", "--run", first.RunID, "--log"); log != "tidied in attempt 1\n" {
		t.Errorf("it answered %q", log)
	}

	// Replays: what is old, or signed by somebody else, is refused; a duplicate is answered, not done.
	now := time.Now()
	for _, c := range []struct {
		what, secret, runID string
		at                  time.Time
		status              int
		says                string
	}{
		{"the run again", secret, first.RunID, now, 200, "tidied in attempt 1"},
		{"with the older secret", older, first.RunID, now, 200, "tidied in attempt 1"},
		{"301 s old", secret, "another", now.Add(-302 * time.Second), 401, "StaleTimestamp"},
		{"from the future", secret, "another", now.Add(time.Hour), 401, "StaleTimestamp"},
		{"somebody else's", "x", "another", now, 401, "SignatureMismatch"},
		{"unsigned", "", "another", now, 401, "MissingSignature"},
		{"mangled", "mangled", "another", now, 401, "MalformedHeader"},
	} {
		status, body, header := replay(t, address+"/cron/tidy", c.secret, c.runID, c.at)
		if status != c.status || strings.TrimSpace(body) != c.says || (status == 200) != (header.Get("X-Duplicate") == "true") {
			t.Errorf("%s: %d %q %v", c.what, status, body, header)
		}
	}
	if n := strings.Count(app.stdout(), "ran tidy"); n != 1 {
		t.Errorf("the work was done %d times", n)
	}

	// A server follows its manifest; and fires it tick by tick, by one whose ticks are closer.
	p := w.serve(address, "--secret", "env:CRON_SECRET")
	p.logs("event=serving", "jobs=2")
	stop(p)
	p = w.serve(w.write("jobs.json", fmt.Sprintf(`{"version": 1, "app": %q, "jobs": [{"name": "tidy", "schedule": "@every 2s", "request": {"url": "%s/cron/tidy"},
		"policy": {"concurrency_scope": "global", "starting_deadline_seconds": 2}, "auth": {"secret_refs": ["env:CRON_SECRET", "env:OLDER"]}}]}`, name, address)))
	eventually(t, patience, func() bool { return strings.Count(app.stdout(), "ran tidy") >= 3 }, app.String)
	stop(p)
	for _, e := range w.history(name + "/tidy") {
		// On a slow machine a run may outlast the next tick, or be stopped before it begins.
		if e.Tick != nil && e.Outcome != "succeeded" && e.Outcome != "missed" && e.Outcome != "skipped" && e.Outcome != "claimed" {
			t.Errorf("%+v", e)
		}
	}
	if command[0] == "php" {
		return // its development server ends by the signal
	}
	app.signal(syscall.SIGTERM)
	app.exits(0, patience)
}

// replay sends what dibs sends, signed anew from the protocol's words.
func replay(t *testing.T, address, secret, runID string, at time.Time) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest("POST", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.POST.%s.", at.Unix(), req.URL.RequestURI())
	switch secret {
	case "":
	case "mangled":
		req.Header.Set("X-Cron-Signature", "t=now,v1=00")
	default:
		req.Header.Set("X-Cron-Signature", fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil))))
	}
	req.Header.Set("X-Cron-Run-Id", runID)
	req.Header.Set("X-Cron-Attempt", "9")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}
