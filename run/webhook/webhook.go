// Package webhook is the Target that sends an HTTP request, signed per attempt with the scheme of
// the cron-manifest protocol, version 1.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/run"
)

// A Target sends one request per attempt. Answers: 2xx is success; 408, 429, 5xx and network
// errors may be retried, honouring Retry-After; anything else is a rejection and final. Redirects
// are not followed.
type Target struct {
	Method, URL string
	Headers     map[string]string
	Body        string
	// Secrets sign the request; the first one does, the others are there for verifiers.
	Secrets [][]byte
	// Name is the job's name, for the application.
	Name string
	// Timeout bounds the request; the lease records that it may be at work for this long and 30 s
	// more (rule L8). Default 60 s.
	Timeout time.Duration
	// Client sends it. Default: one that follows no redirects and sends each request on a
	// connection of its own. One that reuses connections may send a request twice.
	Client *http.Client
}

const (
	defaultTimeout = 60 * time.Second
	afterwards     = 30 * time.Second // what an application may take to notice that the caller is gone
	maxResponse    = 64 << 10
)

// client delivers a request once per attempt. On a connection that was used before, net/http sends
// a request with an Idempotency-Key again by itself when it gets no answer, and HTTP/2 may do so
// on any connection; so none is reused, and the protocol is HTTP/1.1.
var client = &http.Client{
	Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DisableKeepAlives:   true,
		Protocols:           http1(),
		TLSHandshakeTimeout: 10 * time.Second,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// Attempt sends the request. A request cannot be stopped from here: ctx only ends the waiting.
func (t Target) Attempt(ctx context.Context, c run.Call) run.Result {
	timeout := t.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	if err := c.Lease.BusyFor(timeout + afterwards); err != nil {
		return run.Result{Outcome: run.Failed, Err: err}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, run.ErrTimedOut)
	defer cancel()
	req, err := t.request(ctx, c)
	if err != nil {
		return run.Result{Outcome: run.Failed, Final: true, Err: err}
	}
	cl := t.Client
	if cl == nil {
		cl = client
	}
	res, err := cl.Do(req)
	if err != nil {
		return unanswered(ctx, err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(c.Output, io.LimitReader(res.Body, maxResponse))
	return judge(res)
}

// unanswered is the result of a request without an answer. One that was cut off by its own
// timeout has timed out; whether the application went on is unknown.
func unanswered(ctx context.Context, err error) run.Result {
	r := run.Result{Outcome: run.Failed, Err: err}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, run.ErrTimedOut):
		r.Outcome = run.TimedOut
	case cause != nil:
		r.Err = fmt.Errorf("%w (stopped: unconfirmed)", cause)
	}
	return r
}

func (t Target) request(ctx context.Context, c run.Call) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, t.Method, t.URL, strings.NewReader(t.Body))
	if err != nil {
		return nil, fmt.Errorf("request %s %s: %w", t.Method, t.URL, err)
	}
	req.GetBody = nil // whoever sends it has no second copy
	for k, v := range t.Headers {
		req.Header.Set(k, v)
	}
	// Ours come last: the user's can never replace them.
	now := time.Now()
	for k, v := range map[string]string{
		"X-Cron-Run-Id":           c.Run.ID,
		"X-Cron-Schedule-Name":    t.Name,
		"X-Cron-Fire-Time":        fireTime(c),
		"X-Cron-Fire-Time-Actual": now.UTC().Format(time.RFC3339),
		"X-Cron-Attempt":          strconv.Itoa(c.Attempt),
		"Dibs-Token":              strconv.FormatInt(int64(c.Run.Token), 10),
		"Idempotency-Key":         c.IdempotencyKey,
		SignatureHeader:           "",
	} {
		req.Header.Del(k)
		if v != "" {
			req.Header.Set(k, v)
		}
	}
	if len(t.Secrets) > 0 {
		req.Header.Set(SignatureHeader, Sign(t.Secrets[0], now, t.Method, req.URL.RequestURI(), []byte(t.Body)))
	}
	return req, nil
}

func fireTime(c run.Call) string {
	if c.Run.Tick.IsZero() {
		return ""
	}
	return c.Run.Tick.UTC().Format(time.RFC3339)
}

// judge turns an answer into a result.
func judge(res *http.Response) run.Result {
	r := run.Result{Outcome: run.Failed, Status: res.StatusCode, Err: fmt.Errorf("the application answered %s", res.Status)}
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return run.Result{Outcome: run.Succeeded, Status: res.StatusCode}
	case res.StatusCode == http.StatusRequestTimeout, res.StatusCode == http.StatusTooManyRequests, res.StatusCode >= 500:
		r.After = retryAfter(res.Header.Get("Retry-After"))
	default:
		r.Final = true
	}
	return r
}

// retryAfter reads seconds or a date, at most an hour.
func retryAfter(v string) time.Duration {
	d := time.Duration(0)
	if n, err := strconv.Atoi(v); err == nil {
		d = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		d = time.Until(at)
	}
	return min(max(d, 0), time.Hour)
}
