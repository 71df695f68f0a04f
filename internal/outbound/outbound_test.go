package outbound_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/outbound"
	"github.com/dibs-run/dibs/internal/test/hostile"
)

// Every byte of an exchange is under the context of its request, whatever the server does, also with a client of the
// caller's and with connections that are kept.
func TestAHostileServer(t *testing.T) {
	theirs := func() (*outbound.Client, func()) {
		own := http.DefaultTransport.(*http.Transport).Clone()
		return outbound.Of(&http.Client{Transport: own}), own.CloseIdleConnections
	}
	ours := func(o outbound.Options) func() (*outbound.Client, func()) {
		c := outbound.New(o)
		return func() (*outbound.Client, func()) { return c, func() {} }
	}
	for name, of := range map[string]func() (*outbound.Client, func()){
		"once":         ours(outbound.Options{}),
		"reuse":        ours(outbound.Options{Reuse: true}),
		"the caller's": theirs,
	} {
		t.Run(name, func(t *testing.T) {
			hostile.Each(t, false, func(t *testing.T, ctx context.Context, address string) error {
				c, end := of()
				defer end() // a connection that was made too late for its request is kept in the caller's pool
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("x"))
				if err != nil {
					return nil
				}
				res, body, err := c.Fetch(req, time.Hour, 1<<20)
				switch {
				case err != nil && strings.Contains(err.Error(), address):
					t.Error("the error has the address:", err)
				case err == nil && len(body) == 1<<20 && res.StatusCode == http.StatusOK:
					err = errors.New("the answer is as long as it may be")
				case err == nil && res.StatusCode != http.StatusOK:
					err = errors.New(res.Status)
				}
				return err
			})
		})
	}
}

// What is asked for is read, no more; and the bound of the call says so by itself.
func TestFetch(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "elsewhere:1" || r.Header.Get("X-Own") != "1" {
			t.Errorf("host %s, %v", r.Host, r.Header)
		}
		_, _ = io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		if r.Method == http.MethodGet {
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	c := outbound.New(outbound.Options{})
	fetch := func(method string, within time.Duration, most int64) (string, error) {
		req, err := http.NewRequest(method, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := outbound.SetHeaders(req, map[string]string{"host": "elsewhere:1", "x-own": "1"}); err != nil {
			t.Fatal(err)
		}
		_, body, err := c.Fetch(req, within, most)
		return string(body), err
	}
	for most, want := range map[int64]string{4: "hell", 5: "hello", 6: "hello"} {
		if got, err := fetch(http.MethodPost, time.Hour, most); got != want || err != nil {
			t.Errorf("%d bytes: %q, %v", most, got, err)
		}
	}
	if got, err := fetch(http.MethodGet, 100*time.Millisecond, 6); err == nil || err.Error() != "no complete answer within 100ms" {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"content-length", "Transfer-Encoding", "TRAILER"} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		if err := outbound.SetHeaders(req, map[string]string{name: "1"}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
