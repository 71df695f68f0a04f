package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/dibs-run/dibs/internal/outbound"
)

const (
	// patience is how long one request may take, and attempts how often one is made.
	patience = 15 * time.Second
	attempts = 3
	// lookAgain is the pause before another look at what is being deleted.
	lookAgain = 100 * time.Millisecond
	// longestPause bounds what the server may ask for between two of them.
	longestPause = 5 * time.Second
	// maxAnswer is the largest answer that is read, in bytes; a page is at most pageSize objects.
	maxAnswer = 64 << 20
	pageSize  = "200"
	mostPages = 2000
)

// A client makes the calls that this package needs, for the CronJobs of one namespace.
type client struct {
	http      *outbound.Client
	base      string // the server's address
	namespace string
	// authorize adds the credentials to a request.
	authorize func(*http.Request) error
	patience  time.Duration
	// pause waits between two attempts; tests do not.
	pause func(context.Context, time.Duration) error
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// list answers all CronJobs of the namespace. A list that the server has forgotten between two pages begins again.
func (c *client) list(ctx context.Context) (all []object, err error) {
	for n := 1; ; n++ {
		all, err = c.pages(ctx)
		if r, ok := err.(*refusal); !ok || r.code != http.StatusGone || n == attempts {
			return all, err
		}
	}
}

func (c *client) pages(ctx context.Context) (all []object, err error) {
	query := url.Values{"limit": {pageSize}}
	for range mostPages {
		page, err := c.do(ctx, http.MethodGet, "", query, "", nil)
		if err != nil {
			return nil, err
		}
		items, ok := at(page, "items").([]any)
		if !ok && at(page, "items") != nil {
			return nil, fmt.Errorf("%s does not answer as an API server does: it gives no list of CronJobs", c.base)
		}
		for _, item := range items {
			if o, ok := item.(object); ok {
				all = append(all, o)
			}
		}
		next := text(page, "metadata", "continue")
		if next == "" {
			return all, nil
		}
		query.Set("continue", next)
	}
	return nil, fmt.Errorf("%s gives a list of CronJobs in more than %d pages", c.base, mostPages)
}

// get answers one of them; an error is a *refusal with 404 if it is not there.
func (c *client) get(ctx context.Context, name string) (object, error) {
	return c.do(ctx, http.MethodGet, name, nil, "", nil)
}

// apply is a server-side apply. With force, dibs gets the fields that others have.
func (c *client) apply(ctx context.Context, o object, force, dry bool) (object, error) {
	query := url.Values{"fieldManager": {managerName}, "fieldValidation": {"Strict"}}
	if force {
		query.Set("force", "true")
	}
	return c.do(ctx, http.MethodPatch, text(o, "metadata", "name"), dryRun(query, dry), "application/apply-patch+yaml", o)
}

// merge is a JSON merge patch.
func (c *client) merge(ctx context.Context, name string, patch object, dry bool) (object, error) {
	query := url.Values{"fieldManager": {managerName}}
	return c.do(ctx, http.MethodPatch, name, dryRun(query, dry), "application/merge-patch+json", patch)
}

// remove deletes an object, if it is still the one that was read. Its running Jobs go on, and end.
func (c *client) remove(ctx context.Context, o object, dry bool) error {
	options := object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan",
		"preconditions": object{"uid": text(o, "metadata", "uid"), "resourceVersion": text(o, "metadata", "resourceVersion")}}
	if dry {
		options["dryRun"] = []any{"All"}
	}
	_, err := c.do(ctx, http.MethodDelete, text(o, "metadata", "name"), nil, "application/json", options)
	if r, ok := err.(*refusal); ok && r.code == http.StatusNotFound {
		return nil
	}
	return err
}

// gone waits until what was removed is gone, for as long as a request may take: the cluster first lets its Jobs go,
// in a moment.
func (c *client) gone(ctx context.Context, removed []object) {
	end := time.Now().Add(c.patience)
	for _, o := range removed {
		for time.Now().Before(end) {
			left, err := c.get(ctx, text(o, "metadata", "name"))
			if err != nil || text(left, "metadata", "uid") != text(o, "metadata", "uid") || c.pause(ctx, lookAgain) != nil {
				break
			}
		}
	}
}

func dryRun(query url.Values, dry bool) url.Values {
	if dry {
		query.Set("dryRun", "All")
	}
	return query
}

// do makes a request, again where the server says that it cannot answer now. All of them may be made twice: each names
// the version of the object that it is for.
func (c *client) do(ctx context.Context, method, name string, query url.Values, kind string, body any) (answer object, err error) {
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	address := c.base + "/apis/batch/v1/namespaces/" + url.PathEscape(c.namespace) + "/cronjobs"
	if name != "" {
		address += "/" + url.PathEscape(name)
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	for n := 1; ; n++ {
		var wait time.Duration
		answer, wait, err = c.once(ctx, method, address, kind, data)
		if err == nil || wait == 0 || n == attempts {
			return answer, err
		}
		if c.pause(ctx, min(wait, longestPause)) != nil {
			return nil, err
		}
	}
}

// once makes one request. A wait above 0 says that another attempt may succeed, after that time.
func (c *client) once(ctx context.Context, method, address, kind string, data []byte) (answer object, wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(data))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "application/json")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if err := c.authorize(req); err != nil {
		return nil, 0, err
	}
	res, body, err := c.http.Fetch(req, c.patience, maxAnswer+1)
	switch {
	case err != nil:
		return nil, time.Second, c.unanswered(ctx, err)
	case len(body) > maxAnswer:
		return nil, 0, fmt.Errorf("%s answers with more than %d bytes", c.base, maxAnswer)
	case res.StatusCode/100 != 2:
		return nil, again(res), refused(res.StatusCode, body, c.namespace)
	}
	v, err := decode(body)
	answer, ok := v.(object)
	if err != nil || !ok {
		return nil, 0, fmt.Errorf("%s does not answer as an API server does: its answer is no JSON object", c.base)
	}
	return answer, 0, nil
}

func (c *client) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the API server does not answer (%d attempts, %s each): %w: see whether it can be reached from here", attempts, c.patience, err)
}

// again is the pause before another attempt, or 0 where none helps.
func again(res *http.Response) time.Duration {
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if n, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && n > 0 {
			return time.Duration(min(n, 60)) * time.Second
		}
		return time.Second
	}
	return 0
}
