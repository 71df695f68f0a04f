//go:build linux

package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// request is what the application got.
type request struct {
	method, target, body string
	header               http.Header
	at                   time.Time
}

// application is the other end of a webhook: it keeps what it gets, and answers what it is told to.
type application struct {
	*httptest.Server
	mu  sync.Mutex
	got []request
}

func newApplication(t *testing.T, answer func(n int, w http.ResponseWriter)) *application {
	a := &application{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.got = append(a.got, request{r.Method, r.RequestURI, string(body), r.Header.Clone(), time.Now()})
		n := len(a.got)
		a.mu.Unlock()
		answer(n, w)
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *application) requests() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]request{}, a.got...)
}

// A webhook job: signed afresh per attempt, tried again when the application is overloaded, and with
// the token and the idempotency key of its run.
func TestServeWebhook(t *testing.T) {
	onEveryStore(t, usualTTL, func(t *testing.T, w *world) {
		app := newApplication(t, func(n int, w http.ResponseWriter) {
			if n == 1 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "done")
		})
		const secret, body = "correct horse", `{"for":"last month & <this>"}`
		text, err := json.Marshal(map[string]any{"version": 1, "app": "app", "jobs": []any{map[string]any{
			"name": "hook", "schedule": "@every 5s",
			"request": map[string]any{"method": "PUT", "url": app.URL + "/cron/invoices?a=1&b=%20", "body": body,
				"headers": map[string]string{"X-Mine": "yes", "Dibs-Token": "forged"}},
			"policy": map[string]any{"starting_deadline_seconds": 5, "timeout_seconds": 10, "retries": map[string]any{"max_attempts": 3, "min_seconds": 0, "max_seconds": 1}},
			"auth":   map[string]any{"secret_refs": []string{"env:HOOK_SECRET"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		p := w.in(t, "HOOK_SECRET="+secret).serve(w.write("jobs.json", string(text)))
		eventually(t, patience, func() bool { return len(app.requests()) >= 3 }, p.String)
		stop(p)
		got := app.requests()
		for _, r := range got {
			verify(t, r, secret)
			for name, want := range map[string]string{"X-Mine": "yes", "X-Cron-Schedule-Name": "hook"} {
				if r.header.Get(name) != want {
					t.Errorf("%s is %q, want %q", name, r.header.Get(name), want)
				}
			}
			if r.method != "PUT" || r.target != "/cron/invoices?a=1&b=%20" || r.body != body {
				t.Errorf("sent %s %s %s", r.method, r.target, r.body)
			}
		}
		first, retry, next := got[0].header, got[1].header, got[2].header
		for _, name := range []string{"X-Cron-Run-Id", "Idempotency-Key", "Dibs-Token", "X-Cron-Fire-Time"} {
			if first.Get(name) == "" || first.Get(name) != retry.Get(name) || first.Get(name) == next.Get(name) {
				t.Errorf("%s: %q, again %q, next tick %q", name, first.Get(name), retry.Get(name), next.Get(name))
			}
		}
		if first.Get("X-Cron-Attempt") != "1" || retry.Get("X-Cron-Attempt") != "2" || first.Get("X-Cron-Signature") == retry.Get("X-Cron-Signature") {
			t.Errorf("attempts %q, %q; signatures %q, %q", first.Get("X-Cron-Attempt"), retry.Get("X-Cron-Attempt"), first.Get("X-Cron-Signature"), retry.Get("X-Cron-Signature"))
		}
		if wait := got[1].at.Sub(got[0].at); wait < time.Second {
			t.Errorf("tried again after %s; Retry-After said 1 s", wait)
		}
		if a, b := number(t, first.Get("Dibs-Token")), number(t, next.Get("Dibs-Token")); a >= b {
			t.Errorf("tokens %d, then %d", a, b)
		}
		w.recorded("app/hook", first.Get("X-Cron-Run-Id"), "succeeded")
	})
}

// verify checks a signature, written anew from the protocol's words.
func verify(t *testing.T, r request, secret string) {
	t.Helper()
	var at, sum string
	for part := range strings.SplitSeq(r.header.Get("X-Cron-Signature"), ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			at = value
		case "v1":
			sum = value
		}
	}
	mac := hmac.New(sha256.New, []byte(secret))
	io.WriteString(mac, at+"."+r.method+"."+r.target+"."+r.body)
	if want := hex.EncodeToString(mac.Sum(nil)); sum != want {
		t.Errorf("signature %q, want %s", r.header.Get("X-Cron-Signature"), want)
	}
	if signed := time.Unix(number(t, at), 0); r.at.Sub(signed).Abs() > time.Minute {
		t.Errorf("signed at %s, sent at %s", signed, r.at)
	}
}

// An answer that says no is final.
func TestServeWebhookRejected(t *testing.T) {
	t.Parallel()
	w := fileWorld(t)
	app := newApplication(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusUnprocessableEntity) })
	p := w.serve(w.write("jobs.json", fmt.Sprintf(`{"version": 1, "app": "app", "jobs": [{"name": "hook", "schedule": "@every 3s",
		"request": {"url": %q}, "policy": {"stop_grace_seconds": 1, "retries": {"max_attempts": 3, "min_seconds": 0, "max_seconds": 1}}}]}`, app.URL)))
	var ended entry
	eventually(t, patience, func() bool {
		for _, e := range w.history("app/hook") {
			if e.Outcome == "failed" {
				ended = e
				return true
			}
		}
		return false
	}, p.String)
	stop(p)
	if len(ended.Runs) != 1 || len(ended.Runs[0].Attempts) != 1 || ended.Runs[0].Attempts[0].Status != http.StatusUnprocessableEntity {
		t.Errorf("history has %+v", ended)
	}
}
