package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/outbound"
	"github.com/dibs-run/dibs/manifest"
	"github.com/dibs-run/dibs/run/webhook"
)

// WellKnown is the path of the manifest endpoint, used if an address has none.
const WellKnown = "/.well-known/cron-manifest"

// fetchTime bounds a request for a manifest, from the connection to the last byte.
const fetchTime = 10 * time.Second

// endpoint is an application's.
type endpoint struct {
	url     *url.URL
	client  *outbound.Client
	secrets func() ([][]byte, error)
	timeout time.Duration
}

func newEndpoint(address string, o Options) (*endpoint, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || !portFits(u):
		return nil, errors.New("manifest: the address is not a valid one: want https://host/path")
	case u.Hostname() == "":
		return nil, fmt.Errorf("manifest %q: the address has no host: want https://host/path", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("manifest %s: want an address without user and password, because other users of this host could see them: the signature identifies dibs", u.Redacted())
	case u.Scheme == "http" && !o.AllowHTTP && !loopback(u.Hostname()):
		return nil, fmt.Errorf("manifest %s: without TLS others could change the manifest on the way: want https, or allow http with --allow-http", u)
	case o.Secrets == nil:
		return nil, fmt.Errorf("manifest %s: dibs signs the request to an application: name the secret with --secret env:NAME or --secret file:/path", u)
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" || u.Path == "/" {
		u.Path, u.RawPath = WellKnown, ""
	}
	client := outbound.New(outbound.Options{Proxy: http.ProxyFromEnvironment})
	if o.Client != nil {
		client = outbound.Of(o.Client)
	}
	return &endpoint{u, client, o.Secrets, fetchTime}, nil
}

// loopback reports whether a host is this one by its name.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// read asks the application, once.
func (e *endpoint) read(ctx context.Context) ([]manifest.Document, error) {
	secrets, err := e.secrets()
	if err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, errors.New("there is no secret to sign the request")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/yaml")
	req.Header.Set("User-Agent", "dibs")
	req.Header.Set(webhook.SignatureHeader, webhook.Sign(secrets[0], time.Now(), req.Method, req.URL.RequestURI(), nil))
	res, data, err := e.client.Fetch(req, e.timeout, mostRead)
	if err != nil {
		return nil, err
	}
	if err := judge(res); err != nil {
		return nil, err
	}
	return []manifest.Document{{Name: e.url.String(), Data: data}}, nil
}

func judge(res *http.Response) error {
	switch {
	case res.StatusCode == http.StatusOK:
		return nil
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return fmt.Errorf("the application answered %s, to %q: dibs does not follow redirects; name that address", res.Status, res.Header.Get("Location"))
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return fmt.Errorf("the application answered %s: check that --secret is one of its secrets, and that both clocks are right to 300 s", res.Status)
	}
	return fmt.Errorf("the application answered %s: want 200 and the manifest", res.Status)
}
