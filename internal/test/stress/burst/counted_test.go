package burst

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A tally counts the requests to a store, and what was asked in them.
type tally struct {
	mu       sync.Mutex
	requests map[string]int
	items    map[string]int
	flying   int
	most     int // requests under way at once
	longest  map[string]time.Duration
}

func (c *tally) request(what string, items int) (answered func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests, c.items, c.longest = map[string]int{}, map[string]int{}, map[string]time.Duration{}
	}
	c.requests[what]++
	c.items[what] += items
	c.flying++
	c.most = max(c.most, c.flying)
	sent := time.Now()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.flying--
		c.longest[what] = max(c.longest[what], time.Since(sent))
	}
}

// begin forgets what was before.
func (c *tally) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests, c.items, c.longest, c.most = map[string]int{}, map[string]int{}, map[string]time.Duration{}, 0
}

func (c *tally) all() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.requests {
		n += m
	}
	return n
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	names := slices.SortedFunc(maps.Keys(c.requests), func(x, y string) int {
		return cmp.Or(c.requests[y]-c.requests[x], strings.Compare(x, y))
	})
	for _, name := range names {
		fmt.Fprintf(&b, "%s %d (%d items, longest %s), ", name, c.requests[name], c.items[name], c.longest[name].Round(time.Millisecond))
	}
	fmt.Fprintf(&b, "%d under way at most", c.most)
	return b.String()
}

// counted is a store that counts.
func counted(s *store.Store, c *tally) *store.Store {
	out := *s
	out.Leases, out.Ticks, out.History = leases{s.Leases, c}, ticks{s.Ticks, c}, past{s.History, c}
	return &out
}

type leases struct {
	lease.Store
	c *tally
}

func (l leases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	defer l.c.request("acquire", len(reqs))()
	return l.Store.Acquire(ctx, reqs)
}

func (l leases) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	defer l.c.request("renew", len(reqs))()
	return l.Store.Renew(ctx, reqs)
}

func (l leases) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	defer l.c.request("release", len(refs))()
	return l.Store.Release(ctx, refs)
}

func (l leases) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	defer l.c.request("read", len(keys))()
	return l.Store.Read(ctx, keys)
}

func (l leases) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	defer l.c.request("list", 1)()
	return l.Store.List(ctx, prefix, all)
}

type ticks struct {
	tick.Store
	c *tally
}

func (k ticks) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	defer k.c.request("claim", len(reqs))()
	return k.Store.Claim(ctx, reqs)
}

func (k ticks) Take(ctx context.Context, r tick.TakeRequest) (tick.Answer, error) {
	defer k.c.request("take", 1)()
	return k.Store.Take(ctx, r)
}

func (k ticks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	defer k.c.request("start", len(reqs))()
	return k.Store.Start(ctx, reqs)
}

func (k ticks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	defer k.c.request("close", len(reqs))()
	return k.Store.Close(ctx, reqs)
}

func (k ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	defer k.c.request("orphans", 1)()
	return k.Store.Orphans(ctx, l)
}

func (k ticks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	defer k.c.request("jobs", 1)()
	return k.Store.Jobs(ctx, q)
}

func (k ticks) Settle(ctx context.Context, r tick.SettleRequest) (tick.Answer, error) {
	defer k.c.request("settle", 1)()
	return k.Store.Settle(ctx, r)
}

type past struct {
	history.Store
	c *tally
}

func (h past) Append(ctx context.Context, events []history.Event) error {
	defer h.c.request("append", len(events))()
	return h.Store.Append(ctx, events)
}

func (h past) Output(ctx context.Context, runID string, output []byte) error {
	defer h.c.request("output", 1)()
	return h.Store.Output(ctx, runID, output)
}

func (h past) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	defer h.c.request("history ticks", 1)()
	return h.Store.Ticks(ctx, q)
}

func (h past) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	defer h.c.request("history runs", 1)()
	return h.Store.Runs(ctx, q)
}

func (h past) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	defer h.c.request("latest runs", len(jobs))()
	return h.Store.Latest(ctx, jobs, n)
}

func (h past) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	defer h.c.request("latest ticks", len(jobs))()
	return h.Store.LatestTicks(ctx, jobs, n)
}
