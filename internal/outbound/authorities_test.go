package outbound_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/outbound"
	"github.com/dibs-run/dibs/internal/test/authority"
)

// A running process trusts the authorities that this host has now. An error names the file.
// Holds: H3.
func TestReplacedAuthorities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authorities.pem")
	t.Setenv("SSL_CERT_FILE", file)
	first, second := authority.New(t), authority.New(t)
	var shown *tls.Config
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	s.Config.ErrorLog = quiet
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return shown, nil }}
	shown = first.Server(false)
	s.StartTLS()
	defer s.Close()
	for name, o := range map[string]outbound.Options{"once": {}, "reuse": {Reuse: true}, "own settings": {TLS: &tls.Config{MinVersion: tls.VersionTLS13}}} {
		t.Run(name, func(t *testing.T) {
			c := outbound.New(o)
			ask := func() error {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _, err = c.Fetch(req, 0, 100)
				return err
			}
			authority.Replace(t, file, first.PEM)
			shown = first.Server(false)
			if err := ask(); err != nil {
				t.Fatal(err)
			}
			shown = second.Server(false)
			s.CloseClientConnections()
			if err := ask(); err == nil || !strings.Contains(err.Error(), "unknown authority") {
				t.Errorf("a server of another authority: %v", err)
			}
			authority.Replace(t, file, []byte("nonsense"))
			if err := ask(); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("a file without a certificate: %v", err)
			}
			authority.Replace(t, file, second.PEM)
			if err := ask(); err != nil {
				t.Errorf("once the authority was replaced: %v", err)
			}
		})
	}
}

// A request that meets no TLS needs no authorities: whatever became of their file, it is sent. One that meets TLS, at
// its server or at a proxy, gets the error that names the file.
func TestARequestWithoutTLSNeedsNoAuthorities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authorities.pem")
	t.Setenv("SSL_CERT_FILE", file)
	authority.Replace(t, file, authority.New(t).PEM)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer s.Close()
	ask := func(o outbound.Options, address string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = outbound.New(o).Fetch(req, 0, 100)
		return err
	}
	proxy := func(scheme string) func(*http.Request) (*url.URL, error) {
		return http.ProxyURL(&url.URL{Scheme: scheme, Host: strings.TrimPrefix(s.URL, "http://")})
	}
	far := "https" + strings.TrimPrefix(s.URL, "http")
	_ = ask(outbound.Options{}, far) // the authorities are those of now
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]outbound.Options{"once": {}, "reuse": {Reuse: true}, "by a proxy": {Proxy: proxy("http")}} {
		if err := ask(o, s.URL); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{"https": ask(outbound.Options{}, far), "a proxy's TLS": ask(outbound.Options{Proxy: proxy("https")}, s.URL)} {
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v; want %s named", name, err, file)
		}
	}
}

var quiet = log.New(io.Discard, "", 0)
