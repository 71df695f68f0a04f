// Package authority makes certificates for tests, and servers that show them.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// An Authority signs certificates.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// PEM is its own certificate, and Pool holds it.
	PEM  []byte
	Pool *x509.CertPool
}

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, Pool: x509.NewCertPool()}
	a.key = newKey(t)
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	check(t, err)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.Pool.AppendCertsFromPEM(a.PEM)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return k
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Issue returns a certificate for this host and its key, as PEM. Servers and clients may show it.
func (a *Authority) Issue() (cert, key []byte) {
	a.t.Helper()
	k := newKey(a.t)
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "this host"}, NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &k.PublicKey, a.key)
	check(a.t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	check(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// Server returns the configuration of a server that shows a new certificate of the authority. With clients, it demands
// one of its clients, too.
func (a *Authority) Server(clients bool) *tls.Config {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.Issue())
	check(a.t, err)
	c := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clients {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool
	}
	return c
}

// Replace puts a file in its place, as programs that renew certificates do.
func Replace(t testing.TB, path string, text []byte) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(path), ".new")
	check(t, os.WriteFile(tmp, text, 0o600))
	check(t, os.Rename(tmp, path))
}

// A Proxy speaks TLS, and passes on to a server that does not.
type Proxy struct {
	// Addr is where it listens.
	Addr string

	mu     sync.Mutex
	config *tls.Config
	open   []net.Conn
}

// Start starts a proxy of the server at an address. greet, unless nil, precedes TLS on each connection.
func Start(t testing.TB, to string, c *tls.Config, greet func(net.Conn) error) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	p := &Proxy{Addr: l.Addr().String(), config: c}
	t.Cleanup(func() {
		_ = l.Close()
		p.Show(nil)
	})
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(conn, to, greet)
		}
	}()
	return p
}

func (p *Proxy) pass(conn net.Conn, to string, greet func(net.Conn) error) {
	defer conn.Close()
	if greet != nil && greet(conn) != nil {
		return
	}
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	c := p.config
	p.open = append(p.open, conn)
	p.mu.Unlock()
	if c == nil {
		return
	}
	client := tls.Server(conn, c)
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// Show ends all connections, and makes new ones with another configuration.
func (p *Proxy) Show(c *tls.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config = c
	for _, conn := range p.open {
		_ = conn.Close()
	}
	p.open = nil
}
