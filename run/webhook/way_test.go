package webhook_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/webhook"
	"github.com/dibs-run/dibs/store/memory"
)

const secret = "correct horse"

// signed says whether a request bears the signature of its own address and body.
func signed(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	header := r.Header.Get(webhook.SignatureHeader)
	var at int64
	_, err := fmt.Sscanf(header, "t=%d,", &at)
	return err == nil && header == webhook.Sign([]byte(secret), time.Unix(at, 0), r.Method, r.RequestURI, body)
}

// Only redirects to the same origin are followed, only where asked for, and none that would drop the
// body; each is signed for its own address. Nobody else ever sees the signature, or the user's headers.
func TestRedirects(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	otherPort := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	for _, c := range []struct {
		name, method string
		status       int
		to           string
		follow       bool
		arrives      bool
		says         string
	}{
		{"the default", "POST", 307, "/there?b=2", false, false, `307 Temporary Redirect, to "/there?…": dibs does not follow redirects`},
		{"asked for", "POST", 307, "/there?b=2", true, true, ""},
		{"for good", "PUT", 308, "/there?b=2", true, true, ""},
		{"a GET", "GET", 302, "/there?b=2", true, true, ""},
		{"a POST that would become a GET", "POST", 302, "/there?b=2", true, false, "only 307 and 308 keep the method"},
		{"see other", "POST", 303, "/there?b=2", true, false, "only 307 and 308 keep the method"},
		{"another port", "POST", 307, other.URL + "/x?token=hunter2", true, false, "to \"" + other.URL + "/x?…\": a redirect to another origin is not followed"},
		{"a name that may be a token", "POST", 307, strings.Replace(other.URL, "//", "//t0ken@", 1), true, false, "to \"" + other.URL + "\": a redirect to another origin"},
		{"another name of it", "GET", 302, otherPort, true, false, "another origin"},
		{"another scheme", "POST", 307, "https://SELF/there", true, false, "another origin"},
		{"no scheme of HTTP", "POST", 307, "file:///etc/passwd", true, false, "another origin"},
		{"no address", "POST", 307, "http://[::1", true, false, "an address that cannot be read"},
		{"no place", "POST", 307, "", true, false, "307 Temporary Redirect"},
		{"round and round", "POST", 307, "/", true, false, "it is the one after 5"},
		{"not modified", "GET", 304, "/there", true, false, "304 Not Modified"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var arrived, hops atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				hops.Add(1)
				if r.Method != c.method || r.Header.Get("Authorization") != "Bearer mine" || r.Header.Get("X-Cron-Run-Id") != "run-1" || !signed(r) {
					t.Errorf("%s %s is not what was to be sent, or not signed: %v", r.Method, r.RequestURI, r.Header)
				}
				if r.RequestURI == "/there?b=2" {
					arrived.Add(1)
					return
				}
				if c.to != "" {
					w.Header().Set("Location", strings.Replace(c.to, "SELF", r.Host, 1))
				}
				w.WriteHeader(c.status)
			}))
			defer srv.Close()
			target := webhook.Target{Method: c.method, URL: srv.URL + "/?a=1", Body: "the body", Secrets: [][]byte{[]byte(secret)}, SameOrigin: c.follow,
				Headers: map[string]string{"Authorization": "Bearer mine"}}
			r := target.Attempt(t.Context(), call(t, memory.New(memory.Options{})))
			if c.arrives {
				if r.Outcome != run.Succeeded || arrived.Load() != 1 || hops.Load() != 2 {
					t.Errorf("%+v, %d requests", r, hops.Load())
				}
				return
			}
			says := strings.Replace(c.says, `"/there`, `"`+srv.URL+`/there`, 1)
			if r.Outcome != run.Failed || !r.Final || r.Status != c.status || arrived.Load() != 0 || !strings.Contains(r.Err.Error(), says) || strings.Contains(r.Err.Error(), "hunter2") {
				t.Errorf("%+v\nwant %s", r, says)
			}
		})
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("another origin was asked %d times", n)
	}
}

// A proxy that is named is used, even for this host, and none if that is said.
func TestProxy(t *testing.T) {
	var through atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "127.0.0.1:1" || r.URL.Path != "/cron" {
			t.Errorf("asked for %s", r.URL)
		}
		through.Add(1)
	}))
	defer proxy.Close()
	c := call(t, memory.New(memory.Options{}))
	if r := (webhook.Target{Method: "POST", URL: "http://127.0.0.1:1/cron", Proxy: proxy.URL}).Attempt(t.Context(), c); r.Outcome != run.Succeeded || through.Load() != 1 {
		t.Errorf("%+v, %d through the proxy", r, through.Load())
	}
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	if r := (webhook.Target{Method: "POST", URL: "http://127.0.0.1:1/cron", Proxy: webhook.NoProxy}).Attempt(t.Context(), c); r.Outcome != run.Failed || through.Load() != 1 {
		t.Errorf("%+v, %d through the proxy", r, through.Load())
	}
	for _, wrong := range []string{"p:3128", "http://", "http://[::1"} {
		if err := (webhook.Target{Proxy: wrong}).Check(); err == nil || !strings.Contains(err.Error(), "want http://host:port") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// pki makes an authority, and certificates of it for a server called app.internal and a client.
func pki(t *testing.T) (dir string, server tls.Certificate, authority *x509.CertPool) {
	t.Helper()
	dir = t.TempDir()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	write := func(name, kind string, der []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	caKey := key()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	make := func(template *x509.Certificate, k *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, template, ca, &k.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	root := make(ca, caKey)
	write("ca.pem", "CERTIFICATE", root)
	parsed, err := x509.ParseCertificate(root)
	if err != nil {
		t.Fatal(err)
	}
	authority = x509.NewCertPool()
	authority.AddCert(parsed)
	for i, name := range []string{"server", "client"} {
		k := key()
		der := make(&x509.Certificate{SerialNumber: big.NewInt(int64(i + 2)), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"app.internal"}, NotAfter: time.Now().Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, k)
		raw, err := x509.MarshalECPrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		write(name+".pem", "CERTIFICATE", der)
		write(name+".key", "EC PRIVATE KEY", raw)
	}
	server, err = tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	return dir, server, authority
}

// A server is verified against the authority that is named, by the name that is named, and sees who asks.
func TestTLS(t *testing.T) {
	dir, certificate, authority := pki(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	var who atomic.Value
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { who.Store(r.TLS.PeerCertificates[0].Subject.CommonName) }))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority, MaxVersion: tls.VersionTLS12}
	srv.Config.ErrorLog = quiet
	srv.StartTLS()
	defer srv.Close()
	right := webhook.TLS{CAFile: at("ca.pem"), CertFile: at("client.pem"), KeyFile: at("client.key"), ServerName: "app.internal"}
	for name, c := range map[string]struct {
		change func(*webhook.TLS)
		says   string
	}{
		"right":                {func(*webhook.TLS) {}, ""},
		"the system's":         {func(c *webhook.TLS) { c.CAFile = "" }, "certificate signed by unknown authority"},
		"the address's name":   {func(c *webhook.TLS) { c.ServerName = "" }, "doesn't contain any IP SANs"},
		"nobody asks":          {func(c *webhook.TLS) { c.CertFile, c.KeyFile = "", "" }, "tls: "},
		"too old":              {func(c *webhook.TLS) { c.MinVersion = tls.VersionTLS13 }, "protocol version"},
		"a file that is gone":  {func(c *webhook.TLS) { c.CAFile = at("gone.pem") }, "tls/ca_file: stat "},
		"a file that is none":  {func(c *webhook.TLS) { c.CAFile = at("client.key") }, "there is no certificate in it"},
		"another one's key":    {func(c *webhook.TLS) { c.KeyFile = at("server.key") }, "private key does not match"},
		"a key without a cert": {func(c *webhook.TLS) { c.CertFile = "" }, "tls/cert_file and key_file: "},
	} {
		t.Run(name, func(t *testing.T) {
			who.Store("")
			config := right
			c.change(&config)
			target := webhook.Target{Method: "POST", URL: srv.URL, TLS: &config}
			r := target.Attempt(t.Context(), call(t, memory.New(memory.Options{})))
			if c.says == "" && (r.Outcome != run.Succeeded || who.Load() != "client" || target.Check() != nil) {
				t.Errorf("%+v by %v", r, who.Load())
			}
			if c.says != "" && (r.Outcome != run.Failed || r.Final || !strings.Contains(r.Err.Error(), c.says) || who.Load() != "") {
				t.Errorf("%+v\nwant %q", r, c.says)
			}
			if strings.HasPrefix(c.says, "tls/") && target.Check() == nil {
				t.Error("it is found only when it is sent")
			}
		})
	}
}

// What the user says can stand neither in the place of our headers, nor where we have nothing to say.
func TestOurHeadersAreOurs(t *testing.T) {
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer srv.Close()
	c := call(t, memory.New(memory.Options{}))
	c.Run.ID = "01a1fc70-b48c-73d2-87e9-34028ce2fb52"
	c.Run.Tick = time.Time{}
	ours := []string{"X-Cron-Run-Id", "X-Cron-Schedule-Name", "X-Cron-Fire-Time", "X-Cron-Fire-Time-Actual", "X-Cron-Attempt", "X-Cron-Previous-Success-Time",
		"Traceparent", "Dibs-Token", "Dibs-Previous-Success", "Idempotency-Key", "X-Cron-Signature"}
	forged := map[string]string{"user-agent": "mine"}
	for i, name := range ours {
		forged[[]func(string) string{strings.ToLower, strings.ToUpper}[i%2](name)] = "forged"
	}
	target := webhook.Target{Method: "POST", URL: srv.URL, Headers: forged}
	if r := target.Attempt(t.Context(), c); r.Outcome != run.Succeeded {
		t.Fatalf("%+v", r)
	}
	for _, name := range ours {
		if v := got.Values(name); len(v) > 1 || len(v) == 1 && v[0] == "forged" {
			t.Errorf("%s: %q", name, v)
		}
	}
	// There is no tick, no success, no secret.
	for _, name := range []string{"X-Cron-Fire-Time", "X-Cron-Previous-Success-Time", "Dibs-Previous-Success",
		"X-Cron-Signature"} {
		if got.Get(name) != "" {
			t.Errorf("%s: %q", name, got.Get(name))
		}
	}
	first := got.Get("Traceparent")
	if !strings.HasPrefix(first, "00-01a1fc70b48c73d287e934028ce2fb52-") || !strings.HasSuffix(first, "-01") || len(first) != 55 || got.Get("User-Agent") != "mine" {
		t.Errorf("%q, %q", first, got.Get("User-Agent"))
	}
	c.Attempt, c.PreviousSuccess = c.Attempt+1, time.Date(2026, 11, 1, 4, 15, 0, 0, time.UTC)
	if r := target.Attempt(t.Context(), c); r.Outcome != run.Succeeded {
		t.Fatalf("%+v", r)
	}
	if again := got.Get("Traceparent"); again[:35] != first[:35] || again == first {
		t.Errorf("another attempt is %s after %s: want the same trace, another span", again, first)
	}
	if v := got.Get("X-Cron-Previous-Success-Time"); v != "1793506500" {
		t.Errorf("the previous success is %q", v)
	}
	c.PreviousSuccess, c.PreviousUnknown = time.Time{}, true
	if r := target.Attempt(t.Context(), c); r.Outcome != run.Succeeded {
		t.Fatalf("%+v", r)
	}
	if v := got.Get("Dibs-Previous-Success"); v != "unknown" || got.Get("X-Cron-Previous-Success-Time") != "" {
		t.Errorf("what is not known is %q, %q", v, got.Get("X-Cron-Previous-Success-Time"))
	}
}

// quiet is the log of a server whose handshakes are meant to fail.
var quiet = log.New(io.Discard, "", 0)
