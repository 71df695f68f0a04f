package hook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/dibs-run/dibs/internal/outbound"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run/webhook"
)

// client is a test's; nil: the target's own.
var client *http.Client

// send makes one attempt at a ping or a webhook. again says whether another one may do better.
func (l *line) send(ctx context.Context, f Facts) (again bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout(), fmt.Errorf("no answer within %s", l.timeout()))
	defer cancel()
	to, err := l.target(f)
	if err != nil {
		return false, err
	}
	res, why, err := to.Do(func(address string) (*http.Request, error) { return l.request(ctx, f, address) })
	switch {
	case errors.Is(err, errAddress):
		return false, errAddress
	case err != nil:
		return true, err
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return false, nil
	}
	again = res.StatusCode >= 500 || res.StatusCode == http.StatusRequestTimeout || res.StatusCode == http.StatusTooManyRequests
	if why != "" && l.hook.Ping != nil {
		why = ", and dibs follows no redirect of a ping" // where it leads may have the check's address in it
	}
	return again, fmt.Errorf("the server answered %s%s", res.Status, why)
}

var errAddress = errors.New("the address is not a valid one")

// target is where a hook tells of facts, and which way.
func (l *line) target(f Facts) (webhook.Target, error) {
	if l.hook.Request != nil {
		t := Target(l.hook.Request)
		t.Client = client
		return t, nil
	}
	t := Target(l.hook.Ping)
	t.Client = client
	var err error
	t.URL, err = pingAddress(l.hook.Ping.URL, f)
	return t, err
}

// Target is where and which way a request of a manifest goes, a job's or a hook's.
func Target(r *job.Request) webhook.Target {
	t := webhook.Target{URL: r.URL, SameOrigin: r.Redirects == job.RedirectsSameOrigin, Proxy: r.Proxy}
	if r.TLS == nil {
		return t
	}
	t.TLS = &webhook.TLS{CAFile: r.TLS.CAFile, CertFile: r.TLS.CertFile, KeyFile: r.TLS.KeyFile, ServerName: r.TLS.ServerName}
	if r.TLS.MinVersion == "1.3" {
		t.TLS.MinVersion = tls.VersionTLS13
	}
	return t
}

// Request is the target of a job's request, but for who sends it.
func Request(r *job.Request) webhook.Target {
	t := Target(r)
	t.Method, t.Headers, t.Body = r.Method, r.Headers, r.Body
	return t
}

// Check says what is wrong with a hook before it tells anything: files that cannot be read, say.
func Check(h *job.Hook) error {
	for _, r := range []*job.Request{h.Request, h.Ping} {
		if r != nil {
			if err := Target(r).Check(); err != nil {
				return err
			}
		}
	}
	return nil
}

// request is made anew for each attempt and each redirect, and so is its signature.
func (l *line) request(ctx context.Context, f Facts, address string) (*http.Request, error) {
	var body []byte
	var headers map[string]string
	switch {
	case l.hook.Request != nil:
		headers, body = l.hook.Request.Headers, f.json()
	case f.Event != job.OnStart:
		body = []byte(f.words())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, errAddress
	}
	req.GetBody = nil // the transport has no second copy
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if l.hook.Request != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := outbound.SetHeaders(req, headers); err != nil {
		return nil, err
	}
	// Ours come last: the user's can never replace them.
	req.Header.Set("User-Agent", "dibs")
	req.Header.Set("Dibs-Hook", string(f.Event))
	req.Header.Set("Idempotency-Key", f.id())
	req.Header.Del(webhook.SignatureHeader)
	if l.hook.Request != nil && len(l.secret) > 0 {
		req.Header.Set(webhook.SignatureHeader, webhook.Sign(l.secret, time.Now(), req.Method, req.URL.RequestURI(), body))
	}
	return req, nil
}

// suffixes are those of the convention: what is neither start, success nor failure is logged, and
// changes nothing about whether the check is up.
var suffixes = map[job.HookEvent]string{job.OnStart: "start", job.OnSuccess: "", job.OnFailure: "fail", onCrash: "fail"}

// pingAddress is the check's address for an event, with the run's id, so that start and end are
// known as a pair.
func pingAddress(check string, f Facts) (string, error) {
	u, err := url.Parse(check)
	if err != nil {
		return "", errAddress
	}
	suffix, ok := suffixes[f.Event]
	if !ok {
		suffix = "log"
	}
	if suffix != "" {
		u = u.JoinPath(suffix)
	}
	if f.RunID != "" {
		q := u.Query()
		q.Set("rid", f.RunID)
		u.RawQuery = q.Encode()
	}
	return u.String(), nil
}
