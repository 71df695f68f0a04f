package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/webhook"
	"github.com/dibs-run/dibs/store/memory"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // the parallel tests wait most of the time
	os.Exit(m.Run())
}

// attempt sends one request to a handler and answers how it ended, and what was passed on of the body.
func attempt(t *testing.T, timeout time.Duration, h http.HandlerFunc) (run.Result, string) {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	c := call(t, memory.New(memory.Options{}))
	r := webhook.Target{Method: "POST", URL: srv.URL + "/?key=hunter2", Timeout: timeout}.Attempt(t.Context(), c)
	if r.Err != nil && strings.Contains(r.Err.Error(), "hunter2") {
		t.Errorf("the error has what stands in the address: %v", r.Err)
	}
	return r, c.Output.(*bytes.Buffer).String()
}

func flush(w http.ResponseWriter, text string) {
	_, _ = w.Write([]byte(text))
	w.(http.Flusher).Flush()
}

// tcp serves one connection after another by hand, below HTTP.
func tcp(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 64<<10)) // the request, in one piece
			serve(c.(*net.TCPConn))
			c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// An answer that never ends is given up at the timeout, whether it drips, stalls or streams.
// Holds: promise 14.
func TestAnAnswerThatNeverEnds(t *testing.T) {
	drip := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			flush(w, ".")
			select {
			case <-time.After(20 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
	}
	stall := func(w http.ResponseWriter, r *http.Request) {
		flush(w, "")
		<-r.Context().Done()
	}
	stream := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		least  int64
	}{"drip": {drip, 1}, "stall": {stall, 0}, "stream": {stream, 64<<10 + 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, out := attempt(t, 3*time.Second, c.answer)
			if r.Outcome != run.TimedOut || r.Status != 200 || r.Final || !strings.Contains(r.Err.Error(), "200 OK, and the answer had not ended after ") {
				t.Errorf("%+v", r)
			}
			if r.Response == nil || r.Response.Body < c.least || int64(len(out)) != min(r.Response.Body, 64<<10) {
				t.Errorf("%d bytes were passed on, and %+v came", len(out), r.Response)
			}
		})
	}
}

// One that is stopped while the answer comes does not know what became of it.
func TestStoppedWithinTheAnswer(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush(w, "begun")
		cancel(run.ErrReplaced)
		<-r.Context().Done()
	}))
	defer srv.Close()
	r := webhook.Target{Method: "POST", URL: srv.URL}.Attempt(ctx, call(t, memory.New(memory.Options{})))
	if r.Outcome != run.Failed || !errors.Is(r.Err, run.ErrReplaced) || !strings.Contains(r.Err.Error(), "stopped: unconfirmed") {
		t.Errorf("%+v", r)
	}
}

// Answers that are broken may be tried again: nothing is known of the work.
// Holds: promise 14.
func TestBrokenAnswers(t *testing.T) {
	reset := func(c *net.TCPConn) { _ = c.SetLinger(0) }
	for name, c := range map[string]struct {
		serve  func(*net.TCPConn)
		status int
		says   string
	}{
		"reset before the answer": {reset, 0, "reset by peer"},
		"closed":                  {func(*net.TCPConn) {}, 0, "EOF"},
		"no HTTP":                 {func(c *net.TCPConn) { fmt.Fprint(c, "SSH-2.0-OpenSSH\r\n\r\n") }, 0, "malformed HTTP"},
		"headers that stop":       {func(c *net.TCPConn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nX-A: 1\r\n") }, 0, "EOF"},
		"gigantic headers":        {func(c *net.TCPConn) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-A: %s\r\n\r\n", strings.Repeat("x", 1<<20)) }, 0, "exceeded 65536 bytes"},
		"many headers":            {func(c *net.TCPConn) { fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%s\r\n", strings.Repeat("X-A: 1\r\n", 1<<17)) }, 0, "exceeded 65536 bytes"},
		"a body that breaks off":  {func(c *net.TCPConn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello") }, 200, "200 OK, and the answer broke off after 5 bytes: unexpected EOF"},
		"a chunk that breaks off": {func(c *net.TCPConn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		}, 200, "broke off after 5 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := webhook.Target{Method: "POST", URL: tcp(t, c.serve), Timeout: 20 * time.Second}.Attempt(t.Context(), call(t, memory.New(memory.Options{})))
			if r.Outcome != run.Failed || r.Final || r.Status != c.status || !strings.Contains(r.Err.Error(), c.says) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// What refuses needs no body, neither a long one nor one that ends.
func TestARefusalIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	const timeout = 5 * time.Minute
	begun := time.Now()
	r, out := attempt(t, timeout, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		flush(w, "no such account")
		<-r.Context().Done()
	})
	if r.Outcome != run.Failed || !r.Final || r.Status != 422 || out != "no such account" || time.Since(begun) >= timeout {
		t.Errorf("%+v, %q, after %s", r, out, time.Since(begun))
	}
	r, out = attempt(t, timeout, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	})
	if r.Outcome != run.Failed || r.Final || r.Status != 500 || len(out) != 64<<10 {
		t.Errorf("%+v, %d bytes", r, len(out))
	}
}

// Retry-After is bounded, and what is no such thing is none.
// Holds: promise 14.
func TestRetryAfter(t *testing.T) {
	for v, want := range map[string]struct {
		after time.Duration
		cut   bool
	}{
		"": {}, "0": {}, "7": {7 * time.Second, false}, " 7 ": {7 * time.Second, false}, "3600": {time.Hour, false}, "3601": {time.Hour, true},
		"9223372036854775807": {time.Hour, true}, "99999999999999999999999999": {time.Hour, true}, "10000000000": {time.Hour, true},
		"-1": {}, "-9223372036854775808": {}, "+7": {}, "1.5": {}, "soon": {}, "1e9": {}, "Fri, 31 Dec 1999 23:59:59 GMT": {},
		"Fri, 31 Dec 9999 23:59:59 GMT": {time.Hour, true}, "Fri, 31 Dec 99999 23:59:59 GMT": {},
	} {
		r, _ := attempt(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", v)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		if r.After != want.after || r.Final || strings.Contains(r.Err.Error(), "taken as 1h") != want.cut {
			t.Errorf("%q: after %s: %v", v, r.After, r.Err)
		}
	}
}

// What is kept of an answer is chosen, and bounded.
func TestTheResponseThatIsKept(t *testing.T) {
	r, _ := attempt(t, time.Minute, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/plain")
		h.Set("Set-Cookie", "session=hunter2")
		h.Set("X-Request-Id", strings.Repeat("é", 600))
		h.Set("Location", "https://other.example/login?token=hunter2#x")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "hello")
	})
	h := r.Response.Headers
	if r.Outcome != run.Succeeded || h["Content-Type"] != "text/plain" || h["Location"] != "https://other.example/login?…" || h["Set-Cookie"] != "" || h["Date"] == "" {
		t.Errorf("%+v %v", r, h)
	}
	if id := h["X-Request-Id"]; len(id) > 520 || !strings.HasSuffix(id, "é…") {
		t.Errorf("%d bytes: %q", len(id), id)
	}
	if r.Response.Body != 5 || r.Response.FirstByte <= 0 || r.Response.FirstByte > 60 {
		t.Errorf("%+v", r.Response)
	}
}
