package hook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
)

var failure = scheduler.Happening{On: job.OnFailure, Job: "app/j", Tick: time.Date(2026, 12, 1, 4, 15, 0, 0, time.UTC), Outcome: run.Failed, Reason: "exit status 3",
	Run: run.Record{ID: "01a1fc70-b48c-73d2-87e9-34028ce2fb52", Job: "app/j", Token: 42, Host: "web-1", Attempts: make([]run.Attempt, 2), Outcome: run.Failed,
		Started: time.Date(2026, 12, 1, 4, 15, 0, 5000, time.UTC), Ended: time.Date(2026, 12, 1, 4, 15, 9, 0, time.UTC)},
	Output: []byte("no space\xff left\n")}

// told runs one hook for a failure and returns its events.
func told(t *testing.T, h job.Hook, secret, env []byte) (events []history.Event) {
	t.Helper()
	var mu sync.Mutex
	r := hook.New(hook.Options{Log: slog.New(slog.DiscardHandler), Event: func(_ context.Context, e history.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}})
	h.On = []job.HookEvent{job.OnFailure}
	r.Set(&job.Spec{App: "app", Name: "j", Hooks: []job.Hook{h}}, secret, strings.Fields(string(env)))
	r.Tell(failure)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r.Close(ctx)
	return events
}

const facts = `{"event":"failure","job":"app/j","tick":"2026-12-01T04:15:00Z","outcome":"failed","reason":"exit status 3","run_id":"01a1fc70-b48c-73d2-87e9-34028ce2fb52","token":42,"host":"web-1","attempts":2,"started":"2026-12-01T04:15:00.000005Z","ended":"2026-12-01T04:15:09Z","output":"no space` + "\ufffd" + ` left\n"}` + "\n"

func TestAWebhookGetsTheFactsSigned(t *testing.T) {
	for _, secret := range []string{"s3cret", ""} {
		var got *http.Request
		var body []byte
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = r
			body, _ = io.ReadAll(r.Body)
		}))
		h := job.Hook{Request: &job.Request{URL: srv.URL + "/alert?a=b%20c", Headers: map[string]string{"X-Own": "1", "Host": "alerts.internal", "x-cron-signature": "forged", "dibs-hook": "forged"}}}
		if events := told(t, h, []byte(secret), nil); len(events) > 0 {
			t.Fatal(events)
		}
		srv.Close()
		if got.Method != "POST" || got.Host != "alerts.internal" || got.RequestURI != "/alert?a=b%20c" || string(body) != facts {
			t.Errorf("%s %s\n%s", got.Method, got.RequestURI, body)
		}
		for name, want := range map[string]string{"X-Own": "1", "Dibs-Hook": "failure", "Content-Type": "application/json", "Idempotency-Key": failure.Run.ID + "/failure"} {
			if got.Header.Get(name) != want || len(got.Header.Values(name)) != 1 {
				t.Errorf("%s: %q, want %q", name, got.Header.Values(name), want)
			}
		}
		signature := got.Header.Get("X-Cron-Signature")
		if secret == "" {
			if signature != "" {
				t.Errorf("signed without a secret: %s", signature)
			}
			continue
		}
		// Computed here from the protocol's words, not with the code under test.
		var at int64
		var sum string
		if _, err := fmt.Sscanf(strings.Replace(signature, ",v1=", " ", 1), "t=%d %s", &at, &sum); err != nil {
			t.Fatal(err, signature)
		}
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.POST./alert?a=b%%20c.%s", at, body)
		if want := hex.EncodeToString(mac.Sum(nil)); sum != want {
			t.Errorf("signature %s, want %s", sum, want)
		}
	}
}

func TestAPingGetsTheEndOfTheOutput(t *testing.T) {
	var target, body string
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		target, body = r.RequestURI, string(b)
	}))
	defer srv.Close()
	if events := told(t, job.Hook{Ping: &job.Request{URL: srv.URL + "/9f/"}}, []byte("s"), nil); len(events) > 0 {
		t.Fatal(events)
	}
	if want := "/9f/fail?rid=" + failure.Run.ID; target != want {
		t.Errorf("%s, want %s", target, want)
	}
	if want := "app/j: failure, failed: exit status 3\n\nno space\ufffd left\n"; body != want {
		t.Errorf("%q, want %q", body, want)
	}
}

func TestACommandIsToldInItsEnvironmentAndOnItsInput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	h := job.Hook{Command: &job.Command{Shell: "cat > " + out + "; env | grep -v -e ^PWD -e ^_= -e ^SHLVL -e ^DIBS_RUN_ | sort >> " + out}}
	if events := told(t, h, nil, []byte("A=1 PATH="+os.Getenv("PATH"))); len(events) > 0 {
		t.Fatal(events)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if want := facts + `A=1
DIBS_HOOK=failure
DIBS_HOOK_ATTEMPTS=2
DIBS_HOOK_ENDED=2026-12-01T04:15:09Z
DIBS_HOOK_HOST=web-1
DIBS_HOOK_JOB=app/j
DIBS_HOOK_OUTCOME=failed
DIBS_HOOK_REASON=exit status 3
DIBS_HOOK_RUN_ID=01a1fc70-b48c-73d2-87e9-34028ce2fb52
DIBS_HOOK_STARTED=2026-12-01T04:15:00Z
DIBS_HOOK_TICK=2026-12-01T04:15:00Z
DIBS_HOOK_TOKEN=42
PATH=` + os.Getenv("PATH") + "\n"; string(b) != want {
		t.Errorf("told\n%s\nwant\n%s", b, want)
	}
	var f hook.Facts
	if err := json.Unmarshal([]byte(facts), &f); err != nil || f.Token != 42 {
		t.Errorf("%+v, %v", f, err)
	}
}

// servers are an application and a proxy. got returns what they were asked, and ca is the file of the application's
// authority.
func servers(t *testing.T) (srv, proxy, ca string, got func() string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	add := func(request string) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, request)
	}
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/moved/fail" || r.URL.Path == "/moved" {
			http.Redirect(w, r, strings.Replace(r.URL.String(), "/moved", "/here", 1), http.StatusPermanentRedirect)
			return
		}
		how := "unsigned"
		if s := r.Header.Get("X-Cron-Signature"); s != "" {
			var at int64
			var sum string
			if _, err := fmt.Sscanf(strings.Replace(s, ",v1=", " ", 1), "t=%d %s", &at, &sum); err != nil {
				t.Error(err)
			}
			mac := hmac.New(sha256.New, []byte("s3cret"))
			fmt.Fprintf(mac, "%d.POST.%s.%s", at, r.RequestURI, body)
			how = fmt.Sprint("signed well: ", sum == hex.EncodeToString(mac.Sum(nil)))
		}
		add(fmt.Sprint(r.URL.Path, " ", len(body) > 0, " ", how))
	}))
	app.Config.ErrorLog = log.New(io.Discard, "", 0) // of those who do not believe it
	app.StartTLS()
	t.Cleanup(app.Close)
	relay := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { add("proxy " + r.RequestURI) }))
	t.Cleanup(relay.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: app.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return app.URL, relay.URL, ca, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(all, ", ")
	}
}

// A ping and a webhook go the way that they say: through a proxy, to a server whose authority they name,
// and on to where the same origin redirects them, signed anew.
func TestTheWayOfAHook(t *testing.T) {
	ping := func(r job.Request) job.Hook { return job.Hook{Ping: &r} }
	post := func(r job.Request) job.Hook { return job.Hook{Request: &r} }
	for name, c := range map[string]struct {
		hook func(srv, proxy string, trusted *job.TLS) job.Hook
		got  string
		why  string
	}{
		"untrusted": {func(srv, _ string, _ *job.TLS) job.Hook { return ping(job.Request{URL: srv + "/k"}) }, "", "certificate"},
		"trusted": {func(srv, _ string, ca *job.TLS) job.Hook { return ping(job.Request{URL: srv + "/k", TLS: ca}) },
			"/k/fail true unsigned", ""},
		"a ping moved": {func(srv, _ string, ca *job.TLS) job.Hook { return ping(job.Request{URL: srv + "/moved", TLS: ca}) },
			"", "the server answered 308 Permanent Redirect, and dibs follows no redirect of a ping"},
		"a ping follows": {func(srv, _ string, ca *job.TLS) job.Hook {
			return ping(job.Request{URL: srv + "/moved", TLS: ca, Redirects: job.RedirectsSameOrigin})
		}, "/here/fail true unsigned", ""},
		"a webhook follows": {func(srv, _ string, ca *job.TLS) job.Hook {
			return post(job.Request{URL: srv + "/moved?a=b", TLS: ca, Redirects: job.RedirectsSameOrigin})
		}, "/here true signed well: true", ""},
		"a webhook moved": {func(srv, _ string, ca *job.TLS) job.Hook { return post(job.Request{URL: srv + "/moved", TLS: ca}) },
			"", "dibs does not follow redirects"},
		"proxy": {func(_, proxy string, _ *job.TLS) job.Hook {
			return ping(job.Request{URL: "http://check.example/k", Proxy: proxy})
		},
			"proxy http://check.example/k/fail?rid=" + failure.Run.ID, ""},
		"no authority": {func(srv, _ string, ca *job.TLS) job.Hook {
			return ping(job.Request{URL: srv + "/k", TLS: &job.TLS{CAFile: ca.CAFile + "x"}})
		}, "", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some are tried again, after pauses
			srv, proxy, ca, got := servers(t)
			h := c.hook(srv, proxy, &job.TLS{CAFile: ca})
			h.Timeout = time.Minute
			events := told(t, h, []byte("s3cret"), nil)
			if got() != c.got || (len(events) == 1) != (c.why != "") || c.why != "" && !strings.Contains(events[0].Reason, c.why) {
				t.Errorf("got %q, %+v; want %q, %q", got(), events, c.got, c.why)
			}
		})
	}
}

// A command has one attempt, within its time; with it ends what it started. What it printed is bounded.
func TestACommandThatFails(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"status":  {"echo no such room; exit 4", `exit status 4: it printed "no such room"`},
		"missing": {"", "no such file"},
		"flood":   {"yes | head -c 10000000; exit 1", "exit status 1: it printed "},
		"hangs":   {"sleep 300 & echo $! > $DIR/pid; wait", "it took longer than 3s, and was killed"},
		"ignores": {"trap '' TERM; sleep 300 & echo $! > $DIR/pid; sleep 300", "it took longer than 3s, and was killed"},
		"escapes": {"setsid sleep 300 & echo $! > $DIR/pid; sleep 0.2; exit 7", "exit status 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			h := job.Hook{Command: &job.Command{Shell: "echo >> $DIR/run; " + c.line}, Timeout: time.Minute}
			if name == "missing" {
				h.Command = &job.Command{Args: []string{dir + "/none"}}
			}
			if strings.Contains(c.want, "longer") {
				h.Timeout = 3 * time.Second
			}
			events := told(t, h, nil, []byte("DIR="+dir+" PATH="+os.Getenv("PATH")))
			if len(events) != 1 || events[0].Kind != "hook-failed" || !strings.Contains(events[0].Reason, c.want) || len(events[0].Reason) > 3*1000 {
				t.Fatalf("%+v", events)
			}
			if b, _ := os.ReadFile(filepath.Join(dir, "run")); name != "missing" && string(b) != "\n" {
				t.Errorf("run %d times", len(b))
			}
			if !strings.Contains(c.line, "pid") {
				return
			}
			b, err := os.ReadFile(filepath.Join(dir, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			var pid int
			if _, err := fmt.Sscan(string(b), &pid); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); !gone(pid); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("what it started lives on")
				}
			}
		})
	}
}

// gone says so of a process that has ended, waited for or not.
func gone(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && strings.Contains(string(b), ") Z ")
}
