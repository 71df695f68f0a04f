package source

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/run/webhook"
)

const secret = "a secret that nobody should see"

func signing() ([][]byte, error) { return [][]byte{[]byte(secret), []byte("the older one")}, nil }

// verified says whether a request bears the signature of its method and its target as sent.
func verified(r *http.Request) bool {
	header := r.Header.Get(webhook.SignatureHeader)
	t, _, _ := strings.Cut(strings.TrimPrefix(header, "t="), ",")
	seconds, err := strconv.ParseInt(t, 10, 64)
	at := time.Unix(seconds, 0)
	return err == nil && time.Since(at).Abs() < time.Minute && header == webhook.Sign([]byte(secret), at, "GET", r.RequestURI, nil)
}

// application serves a manifest to whoever signs.
func application(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !verified(r) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func TestEndpoint(t *testing.T) {
	asked := ""
	s := application(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.RequestURI
		fmt.Fprint(w, doc("a"))
	})
	o := Options{Secrets: signing, Client: s.Client(), Grants: Grants{Hosts: []string{"h"}, Queues: []string{"default"}}}
	for path, want := range map[string]string{
		"": WellKnown, "/": WellKnown, WellKnown: WellKnown, WellKnown + "?a=1&b=%2F<": WellKnown + "?a=1&b=%2F<", "/other#part": "/other",
	} {
		m, err := load(t, s.URL+path, o)
		if err != nil || len(m.Jobs) != 1 || asked != want {
			t.Errorf("%s: asked for %s, want %s: %v", path, asked, want, err)
		}
	}
	source, err := New(s.URL, o)
	if err != nil || source.Watchable() {
		t.Errorf("watchable: %v, %v", source.Watchable(), err)
	}
}

// TestEndpointIsYAMLToo: the format is seen from the answer.
func TestEndpointIsYAMLToo(t *testing.T) {
	s := application(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "version: 1\napp: shop\njobs:\n- {name: a, schedule: '@daily', request: {url: 'https://h/'}}\n")
	})
	if m, err := load(t, s.URL, Options{Secrets: signing, Client: s.Client(), Grants: Grants{Hosts: []string{"h"}, Queues: []string{"default"}}}); err != nil || m.App != "shop" {
		t.Error(err)
	}
}

// TestEndpointMayEnqueue: a task names no command.
func TestEndpointMayEnqueue(t *testing.T) {
	s := application(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, strings.Replace(doc("a"), `"request":{"url":"https://h/"}`, `"task":{"kind":"k"}`, 1))
	})
	if m, err := load(t, s.URL, Options{Secrets: signing, Client: s.Client(), Grants: Grants{Hosts: []string{"h"}, Queues: []string{"default"}}}); err != nil || m.Jobs[0].Task == nil || m.Jobs[0].Task.Kind != "k" {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestEndpointRefused: each answer that is none has an error that names the address, says why, and
// does not say the secret.
func TestEndpointRefused(t *testing.T) {
	elsewhere := application(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, doc("stolen")) })
	for want, answer := range map[string]http.HandlerFunc{
		"dibs does not follow redirects":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		"answered 404":                    http.NotFound,
		"--secret is one of its secrets":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"answered 204":                    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"it is larger than 4194304 bytes": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, manifest.MaxSize+1)) },
		"want version, app and jobs":      func(http.ResponseWriter, *http.Request) {},
		"jobs/0/name":                     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, doc("A")) },
		"jobs/0/command: an application may not run commands on this server": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Replace(doc("a"), `"request":{"url":"https://h/"}`, `"command":["sh"]`, 1))
		},
		"jobs/0/when: an application may not run commands": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Replace(doc("a"), `"request":`, `"when":["sh"],"request":`, 1))
		},
		"jobs/0/hooks/1/command: an application may not run commands": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Replace(doc("a"), `"request":`, `"hooks":[{"on":["start"],"ping":"https://h/"},{"on":["start"],"command":["sh"]}],"request":`, 1))
		},
		"unexpected EOF": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "{")
		},
	} {
		s := application(t, answer)
		_, err := load(t, s.URL, Options{Secrets: signing, Client: s.Client(), Grants: Grants{Hosts: []string{"h"}, Queues: []string{"default"}}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.URL+WellKnown) || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v\nwant %q", err, want)
		}
	}
}

// TestEndpointThatNeverEnds is given up after a while, or when the caller says so.
func TestEndpointThatNeverEnds(t *testing.T) {
	for _, headers := range []bool{false, true} {
		s := application(t, func(w http.ResponseWriter, r *http.Request) {
			if headers {
				fmt.Fprint(w, "{")
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		})
		e, err := newEndpoint(s.URL, Options{Secrets: signing, Client: s.Client(), Grants: Grants{Hosts: []string{"h"}, Queues: []string{"default"}}})
		if err != nil {
			t.Fatal(err)
		}
		e.timeout = 100 * time.Millisecond
		if _, err := e.read(context.Background()); err == nil || err.Error() != "no complete answer within 100ms" {
			t.Error(err)
		}
		e.timeout = time.Hour
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		if _, err := e.read(ctx); err == nil || !strings.Contains(err.Error(), "deadline") {
			t.Error(err)
		}
		cancel()
	}
}

// TestWhoIsAsked: only over TLS, or on this host; only with a signature; never with a password.
func TestWhoIsAsked(t *testing.T) {
	none := func() ([][]byte, error) { return nil, nil }
	for address, c := range map[string]struct {
		o    Options
		want string // of the error; "" if the address is fine
	}{
		"https://shop.example":            {Options{Secrets: signing}, ""},
		"HTTPS://shop.example":            {Options{Secrets: signing}, ""},
		"http://shop.example":             {Options{Secrets: signing}, "--allow-http"},
		"http://shop.example/":            {Options{Secrets: signing, AllowHTTP: true}, ""},
		"http://localhost:8080":           {Options{Secrets: signing}, ""},
		"http://127.0.0.1:8080":           {Options{Secrets: signing}, ""},
		"http://[::1]:8080":               {Options{Secrets: signing}, ""},
		"http://127.0.0.1.evil.example":   {Options{Secrets: signing}, "--allow-http"},
		"http://localhost.evil.example":   {Options{Secrets: signing}, "--allow-http"},
		"https://me:hunter2@shop.example": {Options{Secrets: signing}, "without user and password"},
		"https://shop.example/x":          {Options{}, "--secret env:NAME"},
		"https:///x":                      {Options{Secrets: signing}, "has no host"},
		"https://shop.example:port":       {Options{Secrets: signing}, "not a valid one"},
		"https://shop.example:99999":      {Options{Secrets: signing}, "not a valid one"},
	} {
		_, err := New(address, c.o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", address, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error has the password: %v", address, err)
		}
	}
	if _, err := load(t, "http://127.0.0.1:1", Options{Secrets: none}); err == nil || !strings.Contains(err.Error(), "no secret") {
		t.Error(err)
	}
	if _, err := load(t, "http://127.0.0.1:1", Options{Secrets: signing}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Error(err)
	}
}
