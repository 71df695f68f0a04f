package main

import (
	"context"
	"sync"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A tally counts the requests that a process makes to its store, and what was asked in them. A request is one
// call of a contract: one round trip, or a few of them where a store answers it in several steps.
type tally struct {
	mu    sync.Mutex
	Calls map[string]int
	Items map[string]int
}

func (c *tally) count(what string, items int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Calls == nil {
		c.Calls, c.Items = map[string]int{}, map[string]int{}
	}
	c.Calls[what]++
	c.Items[what] += items
}

// take returns what was counted since the last call.
func (c *tally) take() (calls, items map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls, items = c.Calls, c.Items
	c.Calls, c.Items = nil, nil
	return calls, items
}

func sum(counts map[string]int) (n int) {
	for _, m := range counts {
		n += m
	}
	return n
}

// counted is a store whose requests are counted.
func counted(s *store.Store, c *tally) *store.Store {
	out := *s
	out.Leases, out.Ticks = countedLeases{s.Leases, c}, countedTicks{s.Ticks, c}
	out.History, out.Fleet = countedHistory{s.History, c}, countedFleet{s.Fleet, c}
	return &out
}

type countedLeases struct {
	lease.Store
	c *tally
}

func (l countedLeases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	l.c.count("acquire", len(reqs))
	return l.Store.Acquire(ctx, reqs)
}

func (l countedLeases) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	l.c.count("renew", len(reqs))
	return l.Store.Renew(ctx, reqs)
}

func (l countedLeases) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	l.c.count("release", len(refs))
	return l.Store.Release(ctx, refs)
}

func (l countedLeases) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	l.c.count("read", len(keys))
	return l.Store.Read(ctx, keys)
}

func (l countedLeases) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	l.c.count("list", 1)
	return l.Store.List(ctx, prefix, all)
}

type countedTicks struct {
	tick.Store
	c *tally
}

func (k countedTicks) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	k.c.count("claim", len(reqs))
	return k.Store.Claim(ctx, reqs)
}

func (k countedTicks) Take(ctx context.Context, r tick.TakeRequest) (tick.Answer, error) {
	k.c.count("take", 1)
	return k.Store.Take(ctx, r)
}

func (k countedTicks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	k.c.count("start", len(reqs))
	return k.Store.Start(ctx, reqs)
}

func (k countedTicks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	k.c.count("close", len(reqs))
	return k.Store.Close(ctx, reqs)
}

func (k countedTicks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	k.c.count("orphans", 1)
	return k.Store.Orphans(ctx, l)
}

func (k countedTicks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	k.c.count("owed", 1)
	return k.Store.Owed(ctx, l)
}

func (k countedTicks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	k.c.count("jobs", 1)
	return k.Store.Jobs(ctx, q)
}

func (k countedTicks) Settle(ctx context.Context, r tick.SettleRequest) (tick.Answer, error) {
	k.c.count("settle", len(r.Rows))
	return k.Store.Settle(ctx, r)
}

type countedFleet struct {
	fleet.Store
	c *tally
}

func (f countedFleet) Report(ctx context.Context, p fleet.Process) error {
	f.c.count("report", 1)
	return f.Store.Report(ctx, p)
}

type countedHistory struct {
	history.Store
	c *tally
}

func (h countedHistory) Append(ctx context.Context, events []history.Event) error {
	h.c.count("append", len(events))
	return h.Store.Append(ctx, events)
}

func (h countedHistory) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	h.c.count("ticks", 1)
	return h.Store.Ticks(ctx, q)
}

func (h countedHistory) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	h.c.count("runs", 1)
	return h.Store.Runs(ctx, q)
}

func (h countedHistory) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	h.c.count("latest", len(jobs))
	return h.Store.Latest(ctx, jobs, n)
}

func (h countedHistory) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	h.c.count("latest ticks", len(jobs))
	return h.Store.LatestTicks(ctx, jobs, n)
}

func (h countedHistory) Prune(ctx context.Context, before time.Time) (int, bool, error) {
	h.c.count("prune", 1)
	return h.Store.Prune(ctx, before)
}
