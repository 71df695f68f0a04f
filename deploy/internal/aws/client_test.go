package aws

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func keys(context.Context) (Keys, error) { return Keys{"ID", "THE-SECRET", "THE-TOKEN"}, nil }

// A failure that may pass is tried again, a bounded number of times; a refusal is not. An error says what and where,
// and has no key.
func TestCallsAreBounded(t *testing.T) {
	for _, c := range []struct {
		name      string
		answers   []string // of each attempt; the last one goes on
		fail      string
		wantCalls int32
	}{
		{"it passes", []string{"429 ThrottlingException", "500", "200"}, "", 3},
		{"throttled for good", []string{"400 ThrottlingException"}, "thing:Do: ThrottlingException (status 400): no", 4},
		{"broken for good", []string{"503"}, "thing:Do: no code (status 503)", 4},
		{"refused", []string{"403 AccessDeniedException"}, "AccessDeniedException (status 403): no: let these credentials call thing:Do", 1},
		{"expired", []string{"403 ExpiredTokenException"}, "renew them", 1},
		{"a conflict", []string{"409 ConflictException"}, "ConflictException", 1},
		{"elsewhere", []string{"302"}, "status 302", 1},
		{"hangs", []string{"hang"}, "thing:Do: eu-x-1: no complete answer within 50ms", 4},
		{"no JSON", []string{"200 <html>"}, "does not answer in JSON", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int32
			done := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(calls.Add(1))
				status, code, _ := strings.Cut(c.answers[min(n, len(c.answers))-1], " ")
				switch status {
				case "hang":
					select {
					case <-r.Context().Done():
					case <-done:
					}
				case "200":
					_, _ = w.Write([]byte(code + `{"Name":"x"}`))
				case "302":
					http.Redirect(w, r, "http://198.51.100.7/", http.StatusFound)
				default:
					w.Header().Set("X-Amzn-ErrorType", code)
					w.WriteHeader(map[string]int{"429": 429, "500": 500, "503": 503, "400": 400, "403": 403, "409": 409}[status])
					_, _ = w.Write([]byte(`{"message":"no"}`))
				}
			}))
			defer s.Close()
			defer close(done)
			client := &Client{Service: "thing", Region: "eu-x-1", Endpoint: s.URL, Keys: keys, Attempt: time.Minute, Pause: time.Millisecond}
			if c.name == "hangs" {
				client.Attempt = 50 * time.Millisecond
			}
			var out struct{ Name string }
			err := client.Do(context.Background(), Call{Operation: "Do", Method: "GET", Path: []string{"x"}, Out: &out})
			if c.fail == "" && (err != nil || out.Name != "x") || c.fail != "" && (err == nil || !strings.Contains(err.Error(), c.fail)) {
				t.Errorf("%v, want %q", err, c.fail)
			}
			if n := calls.Load(); n != c.wantCalls && c.name != "hangs" {
				t.Errorf("%d calls, want %d", n, c.wantCalls)
			}
			if err != nil && strings.Contains(err.Error(), "THE-") {
				t.Errorf("a key is in it: %v", err)
			}
		})
	}
}

// A caller that gives up ends the call, and no further attempt is made.
func TestACallEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer s.Close()
	client := &Client{Service: "thing", Region: "eu-x-1", Endpoint: s.URL, Keys: keys}
	if err := client.Do(ctx, Call{Operation: "Do", Method: "GET"}); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Error(err)
	}
}

// Requests leave this host only with TLS.
func TestEndpoints(t *testing.T) {
	for _, c := range []struct{ endpoint, region, want string }{
		{"", "eu-central-1", "https://scheduler.eu-central-1.amazonaws.com"},
		{"", "cn-north-1", "https://scheduler.cn-north-1.amazonaws.com.cn"},
		{"http://127.0.0.1:1", "x", "http://127.0.0.1:1"},
		{"http://198.51.100.7", "x", ""},
		{"https://example.org/path", "x", ""},
	} {
		u, err := (&Client{Service: "scheduler", Region: c.region, Endpoint: c.endpoint}).address()
		if (err == nil) != (c.want != "") || err == nil && u.String() != c.want {
			t.Errorf("%+v: %v, %v", c, u, err)
		}
	}
}
