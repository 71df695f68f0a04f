package redis

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/dibs-run/dibs/internal/tlsfiles"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// A version is one of the layout that the scripts read and write.
type version struct {
	// oldest is the oldest version whose programs may still use a namespace of this one (store.Layout).
	oldest int
	// upgrade makes this version of the one before, in steps: it answers 1 as long as there is more to do. nil: there
	// is nothing to do, as where an absent field or key means what it meant before.
	upgrade *script
}

// versions are those of the layout, the first one first: v0.1.0 has version 1. A later version is added at the end,
// and only adds to the layout (CONTRIBUTING.md, "Changing a store's layout").
var versions = []version{{oldest: 1}}

// db is an opened namespace. It is safe for concurrent use.
type db struct {
	client goredis.UniversalClient
	addr   string // without a password, for errors
	prefix string // of all names, with the hash tag
	// versions are those of the layout that this program knows, and layout is 'schema oldest' for scripts.
	versions []version
	layout   string
	// maxTTL is the longest TTL that was seen, in µs. Each acquire and renewal carries it. If the meta record is
	// gone, or was made anew with a shorter one, leases of this length may still be held (rule L9).
	maxTTL atomic.Int64

	functions functions
	lastTerms atomic.Pointer[quickTermsText]
}

// OpenConfig connects to the server of a redis:// or rediss:// address, and makes the namespace if it is missing. The
// address also takes the parameters of go-redis's ParseURL, such as pool_size, read_timeout and dial_timeout. If the
// server cannot be used, the error wraps lease.ErrUnavailable.
func OpenConfig(ctx context.Context, c store.Config) (*store.Store, error) {
	if c.URL == nil {
		return nil, fmt.Errorf("redis: no address; give one such as redis://host:6379/0")
	}
	o, err := options(c.URL)
	if err != nil {
		return nil, err
	}
	client := goredis.NewClient(o)
	s, err := New(ctx, client, c)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	for _, f := range exposed(c) {
		s.Properties.Flaw(f)
	}
	stop := s.Close
	s.Close = func() error {
		_ = stop()
		return client.Close()
	}
	return s, nil
}

// options are go-redis's for an address.
func options(u *url.URL) (*goredis.Options, error) {
	o, err := goredis.ParseURL(u.String())
	if err != nil {
		// ParseURL's errors name the parameter or the part that is wrong, and quote no password.
		return nil, fmt.Errorf("redis %s: %w", store.Redact(u), err)
	}
	// A store never retries: its caller knows what an unanswered request means.
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.ClientName = "dibs"
	// Requests are coalesced, so a process has few under way, whatever its number of goroutines. None of them must
	// wait for a connection.
	if o.PoolSize == 0 {
		o.PoolSize = max(16, 2*runtime.GOMAXPROCS(0))
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = 2 * time.Second
	}
	// Notices of maintenance would cost a request per connection, and only one vendor sends them.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.TLSConfig != nil && !o.TLSConfig.InsecureSkipVerify {
		o.Dialer = renewing(o)
	}
	return o, nil
}

// exposed is what is wrong with how an address reaches a server beyond this host.
func exposed(c store.Config) []store.Flaw {
	o, err := goredis.ParseURL(c.URL.String())
	if err != nil || o.TLSConfig == nil || !o.TLSConfig.InsecureSkipVerify || c.Loopback() {
		return nil
	}
	return []store.Flaw{{What: "Anybody between this host and the server can pose as the server and read the password: its certificate is not verified (skip_verify).",
		Cure: "Remove skip_verify from the address; SSL_CERT_FILE names an authority of your own."}}
}

// renewing makes connections as go-redis does, with the authorities that this host has now.
func renewing(o *goredis.Options) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		pool, err := tlsfiles.System.Pool()
		if err != nil {
			return nil, err
		}
		t := o.TLSConfig
		if pool != nil {
			t = t.Clone()
			t.RootCAs = pool
		}
		return goredis.NewDialer(&goredis.Options{DialTimeout: o.DialTimeout, TLSConfig: t})(ctx, network, addr)
	}
}

// New makes a store over the caller's client, such as one of a cluster or with sentinels. Closing the store leaves
// the client open. c.URL is used for messages only and may be nil. Set ContextTimeoutEnabled in the client's options,
// else a request of ours outlasts its deadline. Its MaxRetries does not apply to requests of ours that write.
func New(ctx context.Context, client goredis.UniversalClient, c store.Config) (*store.Store, error) {
	return newKnowing(ctx, client, c, versions)
}

// newKnowing is New of a program that knows these versions of the layout.
func newKnowing(ctx context.Context, client goredis.UniversalClient, c store.Config, known []version) (*store.Store, error) {
	if c.Namespace == "" {
		c.Namespace = "dibs"
	}
	if err := store.CheckNamespace(c.Namespace); err != nil {
		return nil, fmt.Errorf("redis store: %w", err)
	}
	if c.Session {
		return nil, fmt.Errorf("redis: there are no session locks here; leave out lock=session")
	}
	d := &db{
		client: client,
		addr:   address(client, c.URL),
		prefix: "dibs:{" + c.Namespace + "}:",

		versions: known,
		layout:   fmt.Sprint(len(known), " ", known[len(known)-1].oldest),
	}
	d.maxTTL.Store(c.Longest().Microseconds())
	meta, err := d.prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	d.maxTTL.Store(meta.MaxTTL.Microseconds())
	notify := newNotifier(d)
	return &store.Store{
		Kind: "redis", URL: d.addr,
		Leases: leases{d, &grants{m: make(map[lease.Ref]grant)}}, Ticks: ticks{d}, History: past{d}, Fleet: processes{d}, Notify: notify,
		Queue: tasks{d, notify}, Tasks: admin{d},
		Properties: d.properties(ctx, meta),
		Prepared:   meta.prepared,
		Close:      notify.close,
	}, nil
}

// address names the server in messages.
func address(client goredis.UniversalClient, u *url.URL) string {
	if u != nil {
		return store.Redact(u)
	}
	if c, ok := client.(*goredis.Client); ok {
		return c.Options().Addr
	}
	return "(the caller's client)"
}
