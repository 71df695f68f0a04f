package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/internal/outbound"
)

// NoProxy is the value of Target.Proxy for no proxy.
const NoProxy = "none"

// TLS says how a server is verified, and which certificate this client shows. The files are read again for each
// attempt, so that renewed ones are used.
type TLS struct {
	// CAFile contains, as PEM, the certificates of the authorities that are trusted. Default: the system's.
	CAFile string
	// CertFile and KeyFile contain the client's certificate and its key, as PEM: both or neither.
	CertFile, KeyFile string
	// ServerName is the name to verify. Default: the host of the address.
	ServerName string
	// MinVersion is the oldest version of TLS that is accepted, such as tls.VersionTLS13. Default TLS 1.2.
	MinVersion uint16
}

// Check returns what is wrong with the target, before anything is sent: files that cannot be read, or an invalid
// address.
func (t Target) Check() error {
	_, err := t.client()
	return err
}

// client delivers a request once per attempt. On a used connection, net/http sends a request with an Idempotency-Key
// again by itself if it gets no answer, and HTTP/2 may do so on any connection. So no connection is reused.
func (t Target) client() (*outbound.Client, error) {
	if t.Client != nil {
		return outbound.Of(t.Client), nil
	}
	proxy, err := t.proxy()
	if err != nil {
		return nil, err
	}
	config, err := t.TLS.config()
	if err != nil {
		return nil, err
	}
	return outbound.New(outbound.Options{Proxy: proxy, TLS: config}), nil
}

func (t Target) proxy() (func(*http.Request) (*url.URL, error), error) {
	switch t.Proxy {
	case "":
		return http.ProxyFromEnvironment, nil
	case NoProxy:
		return nil, nil
	}
	u, err := url.Parse(t.Proxy)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("the proxy's address is not valid: want http://host:port")
	}
	return http.ProxyURL(u), nil
}

func (t *TLS) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t == nil {
		return c, nil
	}
	c.ServerName, c.MinVersion = t.ServerName, max(t.MinVersion, c.MinVersion)
	if t.CAFile != "" {
		pem, err := conffile.Read(t.CAFile, conffile.Bundle)
		if err != nil {
			return nil, fmt.Errorf("tls/ca_file: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls/ca_file: %s: there is no certificate in it: want PEM", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := t.pair()
		if err != nil {
			return nil, fmt.Errorf("tls/cert_file and key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (t *TLS) pair() (tls.Certificate, error) {
	cert, err := conffile.Read(t.CertFile, conffile.Small)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := conffile.Read(t.KeyFile, conffile.Small)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}
