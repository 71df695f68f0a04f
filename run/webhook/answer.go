package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/outbound"
	"github.com/dibs-run/dibs/run"
)

const (
	// maxResponse is how much of a body is passed on, in bytes. The rest is read and counted.
	maxResponse = 64 << 10
	// refusalTime is how long the body of an answer that is no success is read.
	refusalTime = 5 * time.Second
	// maxHeader is how much of a header is kept, in bytes.
	maxHeader = 512
	// maxAfter is the longest Retry-After that is honoured.
	maxAfter = time.Hour
)

// kept are the headers of an answer that are kept with the run.
var kept = []string{"Content-Type", "Date", "Location", "Retry-After", "Server", "X-Request-Id"}

// An answer is one whose headers have come.
type answer struct {
	*http.Response
	firstByte time.Duration
	stays     string // why a redirect was not followed
}

func do(cl *outbound.Client, req *http.Request) (*answer, error) {
	a, sent := &answer{}, time.Now()
	trace := &httptrace.ClientTrace{GotFirstResponseByte: func() { a.firstByte = time.Since(sent) }}
	res, err := cl.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	a.Response = res
	return a, err
}

// read reads the answer to its end and judges it. The status of a success stands only once its body
// is whole, since an application may answer while it works. That of any other answer needs no body.
func (a *answer) read(ctx context.Context, enough context.CancelCauseFunc, out io.Writer) run.Result {
	body := &bounded{to: out, left: maxResponse}
	success := a.StatusCode >= 200 && a.StatusCode < 300
	var from io.Reader = a.Body
	if !success {
		defer time.AfterFunc(refusalTime, func() { enough(errEnough) }).Stop()
		from = io.LimitReader(from, maxResponse)
	}
	_, err := io.Copy(body, from)
	r := a.judge()
	r.Response = &run.Response{Headers: a.keep(), FirstByte: a.firstByte.Seconds(), Body: body.total}
	if !success || err == nil {
		return r
	}
	cut := unanswered(ctx, err)
	cut.Status, cut.Response = r.Status, r.Response
	what := "broke off"
	if cut.Outcome == run.TimedOut {
		what = "had not ended"
	}
	cut.Err = fmt.Errorf("the application answered %s, and the answer %s after %d bytes: %w", a.status(), what, body.total, cut.Err)
	return cut
}

// bounded passes on the beginning of what is written to it, and counts all of it.
type bounded struct {
	to    io.Writer
	left  int
	total int64
}

func (b *bounded) Write(p []byte) (int, error) {
	b.total += int64(len(p))
	if n := min(len(p), b.left); n > 0 {
		b.left -= n
		_, _ = b.to.Write(p[:n]) // a log that cannot be written does not fail the request
	}
	return len(p), nil
}

// keep selects what is kept of the headers.
func (a *answer) keep() map[string]string {
	all := map[string]string{}
	for _, name := range kept {
		v := a.Header.Get(name)
		if name == "Location" && v != "" {
			v = public(v)
		}
		if len(v) > maxHeader {
			v = strings.ToValidUTF8(v[:maxHeader], "") + "…"
		}
		if v != "" {
			all[name] = v
		}
	}
	return all
}

// judge turns a status into a result.
func (a *answer) judge() run.Result {
	r := run.Result{Outcome: run.Failed, Status: a.StatusCode}
	said := "the application answered " + a.status() + a.stays
	switch {
	case a.StatusCode >= 200 && a.StatusCode < 300:
		r.Outcome = run.Succeeded
		return r
	case a.StatusCode == http.StatusRequestTimeout, a.StatusCode == http.StatusTooManyRequests, a.StatusCode >= 500:
		var cut bool
		if r.After, cut = retryAfter(a.Header.Get("Retry-After")); cut {
			said += fmt.Sprintf(" (its Retry-After is taken as %s, the most)", maxAfter)
		}
	default:
		r.Final = true
	}
	r.Err = errors.New(said)
	return r
}

// retryAfter reads seconds or a date. What is longer than maxAfter is cut to it; what is neither,
// or past, is 0.
func retryAfter(v string) (d time.Duration, cut bool) {
	v = strings.TrimSpace(v)
	seconds, err := strconv.ParseUint(v, 10, 63)
	switch {
	case err == nil:
		d = time.Duration(min(seconds, uint64(maxAfter/time.Second)+1)) * time.Second
	case errors.Is(err, strconv.ErrRange):
		d = maxAfter + 1
	default:
		if at, err := http.ParseTime(v); err == nil {
			d = time.Until(at)
		}
	}
	if d > maxAfter {
		return maxAfter, true
	}
	return max(d, 0), false
}

// status is the answer's, without what the application may say beside the number.
func (a *answer) status() string {
	return strings.TrimSpace(strconv.Itoa(a.StatusCode) + " " + http.StatusText(a.StatusCode))
}
