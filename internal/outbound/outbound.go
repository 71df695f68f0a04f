// Package outbound sends the HTTP requests of dibs itself: of jobs, hooks, manifests, clusters and clouds. The context
// of a request covers every byte of the exchange, whatever the server answers.
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/tlsfiles"
)

// maxHeaders bounds the headers of an answer, with all provisional answers (1xx) before it, in bytes.
const maxHeaders = 64 << 10

// A Client sends requests and follows no redirect. It is safe for concurrent use.
type Client struct{ http http.Client }

// Options say how a Client reaches a server.
type Options struct {
	// Proxy returns the proxy for a request, as in http.Transport. Default: none.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS configures https. Default: TLS 1.2 and newer, and the system's authorities.
	TLS *tls.Config
	// Reuse keeps connections for other requests, and allows HTTP/2: net/http may then send a request twice. Default:
	// each request is sent once, with HTTP/1.1, on a connection of its own.
	Reuse bool
}

// New returns a Client. It does not connect yet.
func New(o Options) *Client {
	if t := o.TLS; t != nil && (t.RootCAs != nil || t.InsecureSkipVerify) {
		return Of(&http.Client{Transport: transport(o)})
	}
	return Of(&http.Client{Transport: &renewing{options: o, plain: transport(o)}})
}

// renewing is a transport that trusts the authorities that this host has now.
type renewing struct {
	options Options
	plain   *http.Transport // for what goes without TLS, whatever is wrong with the authorities

	mu    sync.Mutex
	by    *http.Transport
	trust *x509.CertPool
}

func (r *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.encrypts(req) {
		return r.plain.RoundTrip(req)
	}
	trust, err := tlsfiles.System.Pool()
	if err != nil {
		return nil, err
	}
	return r.with(trust).RoundTrip(req)
}

// encrypts says whether a request meets TLS: at its server, or at a proxy before it.
func (r *renewing) encrypts(req *http.Request) bool {
	if req.URL.Scheme == "https" || r.options.Proxy == nil {
		return req.URL.Scheme == "https"
	}
	proxy, err := r.options.Proxy(req)
	return err == nil && proxy != nil && proxy.Scheme == "https"
}

// with returns the transport for these authorities. Nil are those of crypto/tls.
func (r *renewing) with(trust *x509.CertPool) *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by != nil && r.trust == trust {
		return r.by
	}
	o := r.options
	if trust != nil {
		if o.TLS == nil {
			o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		o.TLS = o.TLS.Clone()
		o.TLS.RootCAs = trust
	}
	if r.by != nil {
		r.by.CloseIdleConnections()
	}
	r.by, r.trust = transport(o), trust
	return r.by
}

func transport(o Options) *http.Transport {
	t := &http.Transport{
		Proxy:                  o.Proxy,
		TLSClientConfig:        o.TLS,
		DisableKeepAlives:      !o.Reuse,
		DisableCompression:     true, // what is kept and counted is what was sent
		Protocols:              new(http.Protocols),
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: maxHeaders,
	}
	t.Protocols.SetHTTP1(true)
	t.Protocols.SetHTTP2(o.Reuse)
	if !o.Reuse {
		t.DialContext = dial
	}
	return t
}

// ownContext is the key of a request's context within the context of its connection, which net/http detaches from it:
// a proxy that never answers would keep a connection for a minute.
type ownContext struct{}

// dial makes a connection that ends with the context of the one request that it is for.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	own := ctx.Value(ownContext{}).(context.Context)
	c, err := new(net.Dialer).DialContext(own, network, address)
	if err != nil {
		return nil, err
	}
	return &connection{c, context.AfterFunc(own, func() { c.Close() })}, nil
}

// A connection is forgotten by its context once it is closed: that of a run that asks often lives long.
type connection struct {
	net.Conn
	forget func() bool
}

func (c *connection) Close() error {
	c.forget()
	return c.Conn.Close()
}

// Of returns a Client that sends requests by another one, under the same rules. Connections that its transport keeps
// for later requests are the caller's to close.
func Of(by *http.Client) *Client {
	c := &Client{*by}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Do sends a request. The caller closes the body of the answer. An error does not contain the address, in which there
// may be a secret; after the end of the request's context it is that context's cause.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req.WithContext(context.WithValue(req.Context(), ownContext{}, req.Context())))
	if err != nil {
		return nil, why(req.Context(), err)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		// net/http takes the connection for the caller's now, and the context does not end it any more.
		res.Body.Close()
		res.Body = http.NoBody
	}
	return res, nil
}

// Fetch sends a request and reads the answer, up to most bytes of its body, within a time (0: only the request's
// context bounds it). Of an answer other than 2xx, the body may be incomplete. Errors are those of Do.
func (c *Client) Fetch(req *http.Request, within time.Duration, most int64) (*http.Response, []byte, error) {
	if within > 0 {
		ctx, cancel := context.WithTimeoutCause(req.Context(), within, fmt.Errorf("no complete answer within %s", within))
		defer cancel()
		req = req.WithContext(ctx)
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, most))
	// A server that notices by TLS that nobody listens any more may end its answer properly.
	if (err != nil || req.Context().Err() != nil) && res.StatusCode/100 == 2 {
		return nil, nil, why(req.Context(), err)
	}
	return res, body, nil
}

// SetHeaders sets the headers of a request that a user has chosen, Host among them. Those that say how the body is
// sent are an error, because net/http would leave them out.
func SetHeaders(req *http.Request, headers map[string]string) error {
	for name, value := range headers {
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Trailer":
			return fmt.Errorf("the header %s cannot be set: it says how the body is sent", name)
		case "Host":
			req.Host = value
		default:
			req.Header.Set(name, value)
		}
	}
	return nil
}

func why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
