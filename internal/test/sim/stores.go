package sim

import (
	"context"
	"slices"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// Reach is a store as p sees it, through the network and on a server that may be unwell. A request is
// what it was when it was sent, whatever becomes of the caller's slice.
func (p *Process) Reach(st *store.Store, s *Server) *store.Store {
	far := *st
	far.Leases = leases{st.Leases, p, s}
	far.Ticks = ticks{st.Ticks, p, s}
	far.History = past{st.History, p, s}
	return &far
}

// Here is a store on the machine of p: no network lies between.
func (p *Process) Here(st *store.Store, s *Server) *store.Store {
	return p.local().Reach(st, s)
}

type leases struct {
	near lease.Store
	p    *Process
	s    *Server
}

func (l leases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	reqs = slices.Clone(reqs)
	return call(ctx, l.p, l.s, func(ctx context.Context) (lease.Reply, error) { return l.near.Acquire(ctx, reqs) })
}

func (l leases) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	reqs = slices.Clone(reqs)
	return call(ctx, l.p, l.s, func(ctx context.Context) (lease.Reply, error) { return l.near.Renew(ctx, reqs) })
}

func (l leases) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	refs = slices.Clone(refs)
	return call(ctx, l.p, l.s, func(ctx context.Context) (lease.Reply, error) { return l.near.Release(ctx, refs) })
}

func (l leases) RequestRelease(ctx context.Context, r lease.Ref, by lease.Holder) (lease.Reply, error) {
	return call(ctx, l.p, l.s, func(ctx context.Context) (lease.Reply, error) { return l.near.RequestRelease(ctx, r, by) })
}

func (l leases) Break(ctx context.Context, r lease.Ref, b lease.Broken) (lease.Reply, error) {
	return call(ctx, l.p, l.s, func(ctx context.Context) (lease.Reply, error) { return l.near.Break(ctx, r, b) })
}

func (l leases) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	keys = slices.Clone(keys)
	return call(ctx, l.p, l.s, func(ctx context.Context) (lease.Reply, error) { return l.near.Read(ctx, keys) })
}

func (l leases) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	return call(ctx, l.p, l.s, func(ctx context.Context) (lease.Reply, error) { return l.near.List(ctx, prefix, all) })
}

func (l leases) Trim(ctx context.Context, keys []lease.Key) error {
	keys = slices.Clone(keys)
	_, err := call(ctx, l.p, l.s, func(ctx context.Context) (done, error) { return done{}, l.near.Trim(ctx, keys) })
	return err
}

type ticks struct {
	near tick.Store
	p    *Process
	s    *Server
}

func (k ticks) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	reqs = slices.Clone(reqs)
	return call(ctx, k.p, k.s, func(ctx context.Context) ([]tick.Answer, error) { return k.near.Claim(ctx, reqs) })
}

func (k ticks) Take(ctx context.Context, r tick.TakeRequest) (tick.Answer, error) {
	return call(ctx, k.p, k.s, func(ctx context.Context) (tick.Answer, error) { return k.near.Take(ctx, r) })
}

func (k ticks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	reqs = slices.Clone(reqs)
	return call(ctx, k.p, k.s, func(ctx context.Context) ([]tick.Answer, error) { return k.near.Start(ctx, reqs) })
}

func (k ticks) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	reqs = slices.Clone(reqs)
	return call(ctx, k.p, k.s, func(ctx context.Context) ([]tick.Answer, error) { return k.near.Close(ctx, reqs) })
}

func (k ticks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	return call(ctx, k.p, k.s, func(ctx context.Context) (tick.Found, error) { return k.near.Orphans(ctx, l) })
}

func (k ticks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	return call(ctx, k.p, k.s, func(ctx context.Context) (tick.Found, error) { return k.near.Owed(ctx, l) })
}

func (k ticks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	q.Names = slices.Clone(q.Names)
	return call(ctx, k.p, k.s, func(ctx context.Context) ([]tick.Job, error) { return k.near.Jobs(ctx, q) })
}

func (k ticks) SetJobs(ctx context.Context, reqs []tick.JobRequest) ([]tick.Job, error) {
	reqs = slices.Clone(reqs)
	return call(ctx, k.p, k.s, func(ctx context.Context) ([]tick.Job, error) { return k.near.SetJobs(ctx, reqs) })
}

func (k ticks) Pause(ctx context.Context, r tick.PauseRequest) (tick.Job, error) {
	return call(ctx, k.p, k.s, func(ctx context.Context) (tick.Job, error) { return k.near.Pause(ctx, r) })
}

func (k ticks) Settle(ctx context.Context, r tick.SettleRequest) (tick.Answer, error) {
	return call(ctx, k.p, k.s, func(ctx context.Context) (tick.Answer, error) { return k.near.Settle(ctx, r) })
}

func (k ticks) Split(ctx context.Context, r tick.SplitRequest) (tick.Answer, error) {
	return call(ctx, k.p, k.s, func(ctx context.Context) (tick.Answer, error) { return k.near.Split(ctx, r) })
}

func (k ticks) Unsettle(ctx context.Context, r tick.UnsettleRequest) (tick.Answer, error) {
	return call(ctx, k.p, k.s, func(ctx context.Context) (tick.Answer, error) { return k.near.Unsettle(ctx, r) })
}

type past struct {
	near history.Store
	p    *Process
	s    *Server
}

// done is the answer of what has none.
type done struct{}

func (h past) Append(ctx context.Context, events []history.Event) error {
	_, err := call(ctx, h.p, h.s, func(ctx context.Context) (done, error) { return done{}, h.near.Append(ctx, events) })
	return err
}

func (h past) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	return call(ctx, h.p, h.s, func(ctx context.Context) ([]history.Event, error) { return h.near.Events(ctx, q) })
}

func (h past) Output(ctx context.Context, runID string, output []byte) error {
	_, err := call(ctx, h.p, h.s, func(ctx context.Context) (done, error) { return done{}, h.near.Output(ctx, runID, output) })
	return err
}

func (h past) ReadOutput(ctx context.Context, runID string) ([]byte, error) {
	return call(ctx, h.p, h.s, func(ctx context.Context) ([]byte, error) { return h.near.ReadOutput(ctx, runID) })
}

func (h past) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	return call(ctx, h.p, h.s, func(ctx context.Context) ([]tick.Tick, error) { return h.near.Ticks(ctx, q) })
}

func (h past) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	return call(ctx, h.p, h.s, func(ctx context.Context) ([]run.Record, error) { return h.near.Runs(ctx, q) })
}

func (h past) Latest(ctx context.Context, jobs []string, n int) ([][]run.Record, error) {
	jobs = slices.Clone(jobs)
	return call(ctx, h.p, h.s, func(ctx context.Context) ([][]run.Record, error) { return h.near.Latest(ctx, jobs, n) })
}

func (h past) LatestTicks(ctx context.Context, jobs []string, n int) ([][]tick.Tick, error) {
	jobs = slices.Clone(jobs)
	return call(ctx, h.p, h.s, func(ctx context.Context) ([][]tick.Tick, error) { return h.near.LatestTicks(ctx, jobs, n) })
}

func (h past) AppendRuns(ctx context.Context, runs []run.Record) error {
	_, err := call(ctx, h.p, h.s, func(ctx context.Context) (done, error) { return done{}, h.near.AppendRuns(ctx, runs) })
	return err
}

func (h past) AppendTicks(ctx context.Context, rows []tick.Tick) error {
	rows = slices.Clone(rows)
	_, err := call(ctx, h.p, h.s, func(ctx context.Context) (done, error) { return done{}, h.near.AppendTicks(ctx, rows) })
	return err
}

func (h past) Prune(ctx context.Context, before time.Time) (int, bool, error) {
	type pruned struct {
		n    int
		more bool
	}
	r, err := call(ctx, h.p, h.s, func(ctx context.Context) (r pruned, err error) {
		r.n, r.more, err = h.near.Prune(ctx, before)
		return r, err
	})
	return r.n, r.more, err
}

func (h past) PruneOutputs(ctx context.Context, job string, keep int) (int, error) {
	return call(ctx, h.p, h.s, func(ctx context.Context) (int, error) { return h.near.PruneOutputs(ctx, job, keep) })
}
