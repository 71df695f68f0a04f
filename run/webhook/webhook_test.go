package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/webhook"
	"github.com/dibs-run/dibs/store/memory"
)

// call is an attempt under a live lease.
func call(t *testing.T, b *memory.Backend) run.Call {
	t.Helper()
	k, err := lease.NewKeeper(lease.Options{Store: b.Store().Leases})
	if err != nil {
		t.Fatal(err)
	}
	l, err := k.Acquire(t.Context(), lease.Want{Key: "app/j"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(context.Background()); k.Close() })
	at := time.Date(2026, 12, 1, 4, 15, 0, 0, time.UTC)
	return run.Call{Run: run.Record{ID: "run-1", Job: "app/j", Tick: at, Token: l.Token()}, Attempt: 2, Lease: l,
		IdempotencyKey: "app/j@t", Output: new(bytes.Buffer)}
}

func TestWhatIsSent(t *testing.T) {
	b := memory.New(memory.Options{})
	secret := []byte("s3cret")
	var got *http.Request
	var body []byte
	var busy, arrived time.Time
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, arrived = r, time.Now()
		body, _ = io.ReadAll(r.Body)
		reply, _ := b.Store().Leases.Read(r.Context(), []lease.Key{"app/j"})
		busy = reply.Answers[0].Record.BusyUntil
		fmt.Fprint(w, "hello")
	}))
	defer srv.Close()
	c := call(t, b)
	target := webhook.Target{Method: "POST", URL: srv.URL + "/tasks/j?x=1&y=a%20b", Body: `{"a":1}`, Name: "j", Timeout: 20 * time.Second,
		Headers: map[string]string{"X-Own": "1", "host": "shop.internal:8080", "dibs-token": "forged", "X-Cron-Signature": "forged", "x-cron-attempt": "9"},
		Secrets: [][]byte{secret, []byte("older")}}
	start := time.Now()
	if r := target.Attempt(t.Context(), c); r.Outcome != run.Succeeded || r.Status != 200 {
		t.Fatalf("%+v", r)
	}
	for k, want := range map[string]string{
		"X-Own": "1", "Dibs-Token": fmt.Sprint(c.Run.Token), "X-Cron-Attempt": "2", "X-Cron-Run-Id": "run-1", "X-Cron-Schedule-Name": "j",
		"X-Cron-Fire-Time": "1796098500", "Idempotency-Key": "app/j@t",
	} {
		if v := got.Header.Values(k); len(v) != 1 || v[0] != want {
			t.Errorf("%s: %q, want %q once", k, v, want)
		}
	}
	if got.Host != "shop.internal:8080" {
		t.Errorf("the host is %s", got.Host)
	}
	// Computed here from the protocol's words, not with the code under test.
	var at int64
	var sum string
	if _, err := fmt.Sscanf(strings.Replace(got.Header.Get("X-Cron-Signature"), ",v1=", " ", 1), "t=%d %s", &at, &sum); err != nil {
		t.Fatal(err, got.Header)
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%d.POST./tasks/j?x=1&y=a%%20b.%s", at, body)
	if want := hex.EncodeToString(mac.Sum(nil)); sum != want || at < start.Unix() {
		t.Errorf("signature %s at %d, want %s", sum, at, want)
	}
	// Rule L8: the lease says, before the request is sent, how long it may be at work.
	if least, most := busy.Sub(start), busy.Sub(arrived); least < 49*time.Second || most > 51*time.Second {
		t.Errorf("busy for %s from the start, and %s from the arrival; want 50s from between them", least, most)
	}
	if out := c.Output.(*bytes.Buffer).String(); out != "hello" {
		t.Errorf("kept %q of the response", out)
	}
}

// A header that net/http would leave out is not left out in silence.
func TestAHeaderThatCannotBeSent(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	defer srv.Close()
	for _, name := range []string{"Content-Length", "transfer-encoding", "TRAILER"} {
		target := webhook.Target{Method: "POST", URL: srv.URL, Headers: map[string]string{name: "1"}}
		r := target.Attempt(t.Context(), call(t, memory.New(memory.Options{})))
		if r.Outcome != run.Failed || !r.Final || !strings.Contains(r.Err.Error(), "the header "+name+" cannot be set") {
			t.Errorf("%+v", r)
		}
	}
}

func TestWhatAnswersMean(t *testing.T) {
	cases := []struct {
		status int
		header string
		want   run.Outcome
		final  bool
		after  time.Duration
	}{
		{204, "", run.Succeeded, false, 0}, {302, "", run.Failed, true, 0}, {400, "", run.Failed, true, 0},
		{408, "", run.Failed, false, 0}, {429, "7", run.Failed, false, 7 * time.Second}, {503, "", run.Failed, false, 0},
		{500, "99999999", run.Failed, false, time.Hour}, {500, "-4", run.Failed, false, 0}, {500, "soon", run.Failed, false, 0},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.status, c.header), func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Error("a redirect was followed")
				}
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", c.header)
				w.WriteHeader(c.status)
			}))
			defer srv.Close()
			r := webhook.Target{Method: "GET", URL: srv.URL}.Attempt(t.Context(), call(t, memory.New(memory.Options{})))
			if r.Outcome != c.want || r.Final != c.final || r.After != c.after || r.Status != c.status {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestARequestIsBoundedAndNetworkErrorsMayBeRetried(t *testing.T) {
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-hang }))
	defer srv.Close()
	defer close(hang)
	c := call(t, memory.New(memory.Options{}))
	if r := (webhook.Target{Method: "GET", URL: srv.URL, Timeout: 50 * time.Millisecond}).Attempt(t.Context(), c); r.Outcome != run.TimedOut || r.Final {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(run.ErrReplaced)
	if r := (webhook.Target{Method: "GET", URL: srv.URL}).Attempt(ctx, c); r.Err == nil || !strings.Contains(r.Err.Error(), "stopped: unconfirmed") {
		t.Errorf("%+v", r)
	}
	if r := (webhook.Target{Method: "GET", URL: "http://127.0.0.1:1/"}).Attempt(t.Context(), c); r.Outcome != run.Failed || r.Final {
		t.Errorf("%+v", r)
	}
}

// A connection that breaks after the request was read must not have it sent again within the attempt.
func TestAnAttemptIsOneDelivery(t *testing.T) {
	for _, method := range []string{"POST", "GET"} {
		for _, body := range []string{"", "a=1"} {
			var served atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if served.Add(1) > 1 {
					panic(http.ErrAbortHandler)
				}
			}))
			defer srv.Close()
			c, target := call(t, memory.New(memory.Options{})), webhook.Target{Method: method, URL: srv.URL, Body: body}
			if r := target.Attempt(t.Context(), c); r.Outcome != run.Succeeded {
				t.Fatalf("%+v", r)
			}
			if r := target.Attempt(t.Context(), c); r.Outcome != run.Failed || r.Final {
				t.Errorf("%+v", r)
			}
			if n := served.Load(); n != 2 {
				t.Errorf("%s %q: %d deliveries of two attempts", method, body, n)
			}
		}
	}
}

// Nothing is sent that the lease does not know of.
func TestNothingIsSentIfItCannotBeRecorded(t *testing.T) {
	b := memory.New(memory.Options{})
	c := call(t, b)
	if _, err := b.Store().Leases.Break(t.Context(), lease.Ref{Key: "app/j"}, lease.Broken{By: "x", Now: true}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	defer srv.Close()
	if r := (webhook.Target{Method: "GET", URL: srv.URL}).Attempt(t.Context(), c); r.Outcome != run.Failed {
		t.Errorf("%+v", r)
	}
}
