package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/outbound"
	"github.com/dibs-run/dibs/run"
)

// errRequest is wrapped by what no further attempt would mend.
var errRequest = errors.New("the request cannot be made")

// request makes the request of one attempt, and of each redirect of it: a signature is of one instant and one
// address.
func (t Target) request(ctx context.Context, c run.Call, address string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, t.Method, address, strings.NewReader(t.Body))
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w", errRequest, t.Method, public(t.URL), bare(err))
	}
	req.GetBody = nil // the transport has no second copy
	req.Header.Set("User-Agent", "dibs")
	if err := outbound.SetHeaders(req, t.Headers); err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	// Our headers come last: the user's can neither replace them nor appear where we send none.
	now := time.Now()
	for k, v := range map[string]string{
		"X-Cron-Run-Id":                c.Run.ID,
		"X-Cron-Schedule-Name":         t.Name,
		"X-Cron-Fire-Time":             stamp(c.Run.Scheduled()),
		"X-Cron-Fire-Time-Actual":      stamp(now),
		"X-Cron-Attempt":               strconv.Itoa(c.Attempt),
		"X-Cron-Previous-Success-Time": stamp(c.PreviousSuccess),
		"Dibs-Previous-Success":        previous(c),
		"Traceparent":                  c.TraceParent(),
		"Dibs-Token":                   strconv.FormatInt(int64(c.Run.Token), 10),
		"Idempotency-Key":              c.IdempotencyKey,
		SignatureHeader:                "",
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

// previous says why X-Cron-Previous-Success-Time is missing where that is not because no run has succeeded.
func previous(c run.Call) string {
	if c.PreviousUnknown {
		return "unknown"
	}
	return ""
}

// stamp is an instant as the clients of the protocol read it: in Unix seconds.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.Unix(), 10)
}
