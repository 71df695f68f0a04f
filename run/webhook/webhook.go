// Package webhook sends a run as an HTTP request: its Target sends one signed request per attempt.
//
// The signature is that of the cron-manifest protocol, version 1; package manifest/app verifies it on the
// application's side. 2xx is success. 408, 429, 5xx, network errors and an answer that breaks off may be retried;
// anything else is final.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dibs-run/dibs/internal/outbound"
	"github.com/dibs-run/dibs/run"
)

// A Target sends one request per attempt. An answer counts once all of it has arrived, with its body. 2xx is
// success. 408, 429, 5xx, an answer that breaks off and network errors may be retried, and Retry-After is honoured.
// Any other answer is a rejection, and final. A Target is safe for concurrent use.
type Target struct {
	Method, URL string
	// Headers may contain Host, but none that says how the body is sent (Content-Length, Transfer-Encoding, Trailer).
	Headers map[string]string
	Body    string
	// Secrets sign the request: the first one does. Verifiers accept the others too, while a secret is being
	// replaced. Default: the request is not signed.
	Secrets [][]byte
	// Name is the job's name, for the application.
	Name string
	// Timeout bounds the request, from the connection to the last byte of the answer and with its redirects. The
	// lease records that the request may be at work for this long and 30 s more (rule L8). Default 60 s.
	Timeout time.Duration
	// SameOrigin follows redirects to the same scheme, host and port, and signs anew for each. All other redirects,
	// and by default all, are final.
	SameOrigin bool
	// Proxy is the address of a proxy, or NoProxy. Default: what the environment says (HTTPS_PROXY and the like).
	Proxy string
	// TLS says how the server is verified, and which certificate this client shows. Default: the system's
	// authorities, and no certificate.
	TLS *TLS
	// Client, if not nil, sends the request. Proxy and TLS are then not used, and redirects are not followed. The
	// default client sends each request on a connection of its own: a client that reuses connections may send a
	// request twice.
	Client *http.Client
}

const (
	defaultTimeout = 60 * time.Second
	afterwards     = 30 * time.Second // what an application may take to notice that the caller is gone
)

// errEnough ends the reading of an answer whose status says it all.
var errEnough = errors.New("the rest of the answer does not matter")

// Attempt sends the request and returns its result. A request cannot be stopped from here: when ctx ends, only the
// waiting ends.
func (t Target) Attempt(ctx context.Context, c run.Call) run.Result {
	timeout := t.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	if err := c.Lease.BusyFor(timeout + afterwards); err != nil {
		return run.Result{Outcome: run.Failed, Err: err}
	}
	cl, err := t.client()
	if err != nil {
		return run.Result{Outcome: run.Failed, Err: err}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, run.ErrTimedOut)
	defer cancel()
	ctx, enough := context.WithCancelCause(ctx)
	defer enough(nil)
	a, err := t.send(cl, func(address string) (*http.Request, error) { return t.request(ctx, c, address) })
	switch {
	case errors.Is(err, errRequest):
		return run.Result{Outcome: run.Failed, Final: true, Err: err}
	case err != nil:
		return unanswered(ctx, err)
	}
	defer a.Body.Close()
	return a.read(ctx, enough, c.Output)
}

// Do sends a request of another kind in the way that the target describes. It calls makes for the target's URL, and
// again for each redirect, because a signature covers one address. The caller closes the body of the answer. why
// says why a redirect was not followed. The error does not contain the address.
func (t Target) Do(makes func(address string) (*http.Request, error)) (res *http.Response, why string, err error) {
	cl, err := t.client()
	if err != nil {
		return nil, "", err
	}
	a, err := t.send(cl, makes)
	if err != nil {
		return nil, "", err
	}
	return a.Response, a.stays, nil
}

// send sends the request, and again where it is redirected to.
func (t Target) send(cl *outbound.Client, makes func(address string) (*http.Request, error)) (*answer, error) {
	at := t.URL
	for hops := 0; ; hops++ {
		req, err := makes(at)
		if err != nil {
			return nil, err
		}
		a, err := do(cl, req)
		if err != nil {
			return nil, err
		}
		to, why := t.redirect(req, a.Response, hops)
		if to == nil {
			a.stays = why
			return a, nil
		}
		a.Body.Close() // the connection is this request's own
		at = to.String()
	}
}

// unanswered is the result of a request without an answer. If its own timeout cut it off, it has timed out. Whether
// the application went on is unknown.
func unanswered(ctx context.Context, err error) run.Result {
	r := run.Result{Outcome: run.Failed, Err: err}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, run.ErrTimedOut):
		r.Outcome, r.Err = run.TimedOut, cause
	case cause != nil:
		r.Err = fmt.Errorf("%w (stopped: unconfirmed)", cause)
	}
	return r
}
