package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run/webhook"
	"github.com/dibs-run/dibs/scheduler"
)

// client follows no redirects, and keeps no connection for what is told seldom.
var client = &http.Client{
	Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// send makes one attempt at a ping or a webhook. again says whether another one may do better.
func (l *line) send(ctx context.Context, h scheduler.Happening) (again bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout(), fmt.Errorf("no answer within %s", l.timeout()))
	defer cancel()
	req, err := l.request(ctx, factsOf(h))
	if err != nil {
		return false, err
	}
	res, err := client.Do(req)
	if err != nil {
		return true, unanswered(ctx, err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10)
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return false, nil
	}
	again = res.StatusCode >= 500 || res.StatusCode == http.StatusRequestTimeout || res.StatusCode == http.StatusTooManyRequests
	return again, fmt.Errorf("it answered %s", res.Status)
}

// unanswered leaves out the address, which may be a password.
func unanswered(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// request is made anew for each attempt, and so is its signature.
func (l *line) request(ctx context.Context, f Facts) (*http.Request, error) {
	address, body := "", []byte(nil)
	var headers map[string]string
	if l.hook.Request != nil {
		address, headers, body = l.hook.Request.URL, l.hook.Request.Headers, f.json()
	} else {
		var err error
		if address, err = pingAddress(l.hook.Ping, f); err != nil {
			return nil, err
		}
		if f.Event != job.OnStart {
			body = []byte(f.words())
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the address is not a valid one")
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if l.hook.Request != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		req.Header.Set(name, value)
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
var suffixes = map[job.HookEvent]string{job.OnStart: "start", job.OnSuccess: "", job.OnFailure: "fail"}

// pingAddress is the check's address for an event, with the run's id, so that start and end are
// known as a pair.
func pingAddress(check string, f Facts) (string, error) {
	u, err := url.Parse(check)
	if err != nil {
		return "", errors.New("the address is not a valid one")
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
