package aws

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/outbound"
)

// A Client calls one service in one region. It is safe for concurrent use.
type Client struct {
	// Service and Region are what requests are signed for.
	Service, Region string
	// Endpoint is where the service is; default: AWS's own of the region. One without TLS is for tests on this host.
	Endpoint string
	// Keys are the credentials; default: Find.
	Keys func(context.Context) (Keys, error)
	// Attempt bounds one attempt, by default 10 s; Pause is the first pause between two, by default 200 ms.
	Attempt, Pause time.Duration

	mu    sync.Mutex
	known Keys
	since time.Time // when known was found; on this process's clock
}

// renew is for how long keys are used before they are looked up again: those of a container or an instance end.
const renew = 5 * time.Minute

func (c *Client) keys(ctx context.Context) (Keys, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() && time.Since(c.since) < renew {
		return c.known, nil
	}
	find := c.Keys
	if find == nil {
		find = Find
	}
	k, err := find(ctx)
	if err == nil {
		c.known, c.since = k, time.Now()
	}
	return k, err
}

// An Error is what the service answers instead.
type Error struct {
	Operation, Code, Message string
	Status                   int
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s (status %d)", e.Operation, cmp.Or(e.Code, "no code"), e.Status)
	if e.Message != "" {
		text += ": " + e.Message
	}
	switch e.Code {
	case "AccessDeniedException", "AccessDenied":
		text += ": let these credentials call " + e.Operation
	case "ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException", "InvalidClientTokenId":
		text += ": the credentials are not accepted: renew them, and see that this host's clock is right"
	}
	return text
}

// Is reports whether err is an answer of the service with this code.
func Is(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

func (e *Error) passing() bool {
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests || strings.HasPrefix(e.Code, "Throttling") || e.Code == "TooManyRequestsException"
}

const (
	attempts   = 4
	mostAnswer = 4 << 20
)

// far asks services, and near endpoints of this host: these answer at once or are not there, and no proxy is between.
var (
	far  = outbound.New(outbound.Options{Proxy: http.ProxyFromEnvironment, Reuse: true})
	near = outbound.New(outbound.Options{})
)

// A Call is one call of the API. Path are its segments, as they are before they are encoded. It is repeated as it is
// after a failure that may pass, so a call that changes something has its own token in In or Query.
type Call struct {
	Operation, Method string
	Path              []string
	Query             url.Values
	In, Out           any
}

// Do makes a call: at most four attempts, each bounded. The error says what the last one came to.
func (c *Client) Do(ctx context.Context, call Call) error {
	keys, err := c.keys(ctx)
	if err != nil {
		return err
	}
	pause := cmp.Or(c.Pause, 200*time.Millisecond)
	for i := 1; ; i++ {
		err = c.once(ctx, keys, call)
		var refused *Error
		if err == nil || ctx.Err() != nil || i == attempts || errors.As(err, &refused) && !refused.passing() {
			return err
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return err
		}
		pause *= 2
	}
}

func (c *Client) once(ctx context.Context, keys Keys, call Call) error {
	r, body, err := c.request(ctx, call)
	if err != nil {
		return err
	}
	sign(r, body, keys, c.Region, c.Service, time.Now())
	answer, data, err := far.Fetch(r, cmp.Or(c.Attempt, 10*time.Second), mostAnswer)
	switch {
	case err != nil:
		return fmt.Errorf("%s:%s: %s: %w", c.Service, call.Operation, c.Region, err)
	case answer.StatusCode/100 != 2:
		return refusal(c.Service+":"+call.Operation, answer, data)
	case call.Out == nil:
		return nil
	}
	if err := json.Unmarshal(data, call.Out); err != nil {
		return fmt.Errorf("%s:%s: %s does not answer in JSON: %w", c.Service, call.Operation, r.URL.Host, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, call Call) (*http.Request, []byte, error) {
	u, err := c.address()
	if err != nil {
		return nil, nil, err
	}
	for _, segment := range call.Path {
		u.Path += "/" + segment
		u.RawPath += "/" + escape(segment)
	}
	u.RawQuery = query(call.Query)
	var body []byte
	if call.In != nil {
		if body, err = Marshal(call.In); err != nil {
			return nil, nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, call.Method, u.String(), bytes.NewReader(body))
	if err == nil && body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, body, err
}

func (c *Client) address() (*url.URL, error) {
	if c.Endpoint == "" {
		domain := "amazonaws.com"
		if strings.HasPrefix(c.Region, "cn-") {
			domain = "amazonaws.com.cn"
		}
		return &url.URL{Scheme: "https", Host: c.Service + "." + c.Region + "." + domain}, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Path != "" || u.Scheme != "https" && !(u.Scheme == "http" && local(u.Hostname())) {
		return nil, fmt.Errorf("endpoint %q: want https://HOST; http:// only for this host", c.Endpoint)
	}
	return u, nil
}

func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func refusal(operation string, answer *http.Response, data []byte) error {
	e := &Error{Operation: operation, Status: answer.StatusCode, Code: answer.Header.Get("X-Amzn-ErrorType")}
	var said struct {
		Type    string `json:"__type"`
		Code    string `json:"code"`
		Message string `json:"message"` // also of Message
	}
	if json.Unmarshal(data, &said) == nil {
		e.Code, e.Message = cmp.Or(e.Code, said.Code, said.Type), fmt.Sprintf("%.500s", said.Message)
	}
	e.Code, _, _ = strings.Cut(e.Code, ":") // an address follows in some
	e.Code = e.Code[strings.LastIndex(e.Code, "#")+1:]
	return e
}

// Marshal writes JSON with < and > as they are: EventBridge looks for them.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
