// Package lambda answers the invocations of an AWS Lambda function, one after the other, over Lambda's runtime API.
// This process is the function's runtime.
package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dibs-run/dibs/internal/outbound"
)

// Variable has the address of the runtime API in a process that Lambda has started.
const Variable = "AWS_LAMBDA_RUNTIME_API"

const (
	version = "/2018-06-01/runtime/"
	// mostEvent is the largest event that Lambda hands over, and some more.
	mostEvent = 8 << 20
	// answerTime bounds one answer to the runtime API, which is in the same machine.
	answerTime = 10 * time.Second
	// mostMessage is how much of an error is reported, in bytes.
	mostMessage = 32 << 10
)

// An Invocation is one event to handle.
type Invocation struct {
	ID    string
	Event []byte
	// Deadline is when Lambda ends this process, by the machine's clock.
	Deadline time.Time
}

// A Failure is an error with a type for Lambda, such as "Dibs.Failed".
type Failure struct {
	Type string
	Err  error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// A Runtime is the runtime API at an address, HOST:PORT.
type Runtime struct {
	api      string
	client   *outbound.Client
	patience time.Duration // bounds one answer to the API
}

// New does not connect yet.
func New(api string) *Runtime {
	// Neither a proxy nor a redirect is between a function and its runtime. The answer to next takes as long as there
	// is nothing to do.
	return &Runtime{api, outbound.New(outbound.Options{Reuse: true}), answerTime}
}

// Serve hands each invocation to handle, and reports its answer or error, until ctx ends: then it returns nil, after
// the answer to the current invocation. Any other return is an error of the runtime API, after which Lambda starts a
// new process. Handle gets a context of its own, which ends with the invocation's deadline and not with ctx.
func (r *Runtime) Serve(ctx context.Context, handle func(context.Context, Invocation) (any, error)) error {
	for {
		in, err := r.next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the runtime API of Lambda: next invocation: %w", err)
		}
		if err := r.one(in, handle); err != nil {
			return fmt.Errorf("the runtime API of Lambda: answer to invocation %s: %w", in.ID, err)
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (r *Runtime) one(in Invocation, handle func(context.Context, Invocation) (any, error)) error {
	ctx, cancel := context.WithDeadline(context.Background(), in.Deadline)
	defer cancel()
	answer, err := handle(ctx, in)
	var body []byte
	if err == nil {
		body, err = json.Marshal(answer)
	}
	path := "invocation/" + url.PathEscape(in.ID)
	if err != nil {
		return r.fail(path+"/error", err)
	}
	return r.post(path+"/response", body, "")
}

// InitFailed reports that this process cannot handle any invocation.
func (r *Runtime) InitFailed(err error) error { return r.fail("init/error", err) }

func (r *Runtime) fail(path string, err error) error {
	kind := "Dibs.Error"
	var f *Failure
	if errors.As(err, &f) {
		kind = f.Type
	}
	text := err.Error()
	if len(text) > mostMessage {
		text = text[:mostMessage]
	}
	body, merr := json.Marshal(map[string]any{"errorMessage": text, "errorType": kind, "stackTrace": []string{}})
	if merr != nil {
		return merr
	}
	return r.post(path, body, kind)
}

func (r *Runtime) next(ctx context.Context) (in Invocation, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.api+version+"invocation/next", nil)
	if err != nil {
		return in, err
	}
	res, event, err := r.client.Fetch(req, 0, mostEvent+1)
	switch {
	case err != nil:
		return in, err
	case res.StatusCode != http.StatusOK:
		return in, fmt.Errorf("%s: %.200s", res.Status, event)
	case len(event) > mostEvent:
		return in, errors.New("the event is too large")
	}
	in = Invocation{ID: res.Header.Get("Lambda-Runtime-Aws-Request-Id"), Event: event}
	ms, err := strconv.ParseInt(res.Header.Get("Lambda-Runtime-Deadline-Ms"), 10, 64)
	if err != nil || in.ID == "" {
		return in, errors.New("it names no request and no deadline")
	}
	in.Deadline = time.UnixMilli(ms)
	return in, nil
}

func (r *Runtime) post(path string, body []byte, kind string) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+r.api+version+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if kind != "" {
		req.Header.Set("Lambda-Runtime-Function-Error-Type", kind)
	}
	res, said, err := r.client.Fetch(req, r.patience, 1<<10)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("%s: %s", res.Status, said)
	}
	return nil
}
