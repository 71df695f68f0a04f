package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// meter counts the calls of the contracts that one or several servers make, by method, and the rows that were read.
type meter struct {
	mu    sync.Mutex
	calls map[string]int
	most  map[string]int // rows in one answer
}

func (m *meter) count(method string, rows int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls == nil {
		m.calls, m.most = map[string]int{}, map[string]int{}
	}
	m.calls[method]++
	m.most[method] = max(m.most[method], rows)
}

// take returns what was counted since the last call.
func (m *meter) take() (calls, most map[string]int, sum int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls, most = m.calls, m.most
	m.calls, m.most = nil, nil
	for _, n := range calls {
		sum += n
	}
	return calls, most, sum
}

type meteredTicks struct {
	tick.Store
	m *meter
}

func (s meteredTicks) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	s.m.count("claim", len(r))
	return s.Store.Claim(ctx, r)
}

func (s meteredTicks) Take(ctx context.Context, r tick.TakeRequest) (tick.Answer, error) {
	s.m.count("take", 1)
	return s.Store.Take(ctx, r)
}

func (s meteredTicks) Close(ctx context.Context, r []tick.CloseRequest) ([]tick.Answer, error) {
	s.m.count("close", len(r))
	return s.Store.Close(ctx, r)
}

func (s meteredTicks) Orphans(ctx context.Context, l tick.Look) (tick.Found, error) {
	f, err := s.Store.Orphans(ctx, l)
	s.m.count("orphans", len(f.Ticks))
	return f, err
}

func (s meteredTicks) Owed(ctx context.Context, l tick.OwedLook) (tick.Found, error) {
	f, err := s.Store.Owed(ctx, l)
	s.m.count("owed", len(f.Ticks))
	return f, err
}

func (s meteredTicks) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	jobs, err := s.Store.Jobs(ctx, q)
	s.m.count("jobs", len(jobs))
	return jobs, err
}

func (s meteredTicks) Settle(ctx context.Context, r tick.SettleRequest) (tick.Answer, error) {
	s.m.count("settle", len(r.Rows))
	return s.Store.Settle(ctx, r)
}

func (s meteredTicks) Unsettle(ctx context.Context, r tick.UnsettleRequest) (tick.Answer, error) {
	s.m.count("unsettle", len(r.Rows))
	return s.Store.Unsettle(ctx, r)
}

type meteredHistory struct {
	history.Store
	m *meter
}

func (h meteredHistory) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	rows, err := h.Store.Ticks(ctx, q)
	h.m.count("ticks", len(rows))
	return rows, err
}

func (h meteredHistory) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	rows, err := h.Store.Runs(ctx, q)
	h.m.count("runs", len(rows))
	return rows, err
}

func (h meteredHistory) Append(ctx context.Context, events []history.Event) error {
	h.m.count("append", len(events))
	return h.Store.Append(ctx, events)
}

type meteredLeases struct {
	lease.Store
	m *meter
}

func (l meteredLeases) Acquire(ctx context.Context, r []lease.AcquireRequest) (lease.Reply, error) {
	l.m.count("acquire", len(r))
	return l.Store.Acquire(ctx, r)
}

func (l meteredLeases) Renew(ctx context.Context, r []lease.RenewRequest) (lease.Reply, error) {
	l.m.count("renew", len(r))
	return l.Store.Renew(ctx, r)
}

func (l meteredLeases) Release(ctx context.Context, r []lease.Ref) (lease.Reply, error) {
	l.m.count("release", len(r))
	return l.Store.Release(ctx, r)
}

func (l meteredLeases) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	l.m.count("read", len(keys))
	return l.Store.Read(ctx, keys)
}

func (l meteredLeases) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	l.m.count("list", 0)
	return l.Store.List(ctx, prefix, all)
}

// metered is a server whose calls are counted.
func (w *world) metered(seed uint64, m *meter) *host {
	w.t.Helper()
	h := w.host(seed, 0)
	k, err := lease.NewKeeper(lease.Options{Store: meteredLeases{h.link, m}, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(k.Close)
	h.backend.Keeper = k
	h.backend.Book = tick.NewBook(meteredTicks{h.ticks, m}, h.backend.Keeper, h.backend.Self)
	h.backend.Ticks, h.backend.History = meteredTicks{h.ticks, m}, meteredHistory{h.backend.History, m}
	h.Server = scheduler.NewServer(h.backend, "app")
	return h
}

// many are daily jobs that are run again and caught up on.
func (w *world) many(t *testing.T, n int, expr string) (jobs []*scheduler.Job) {
	for i := range n {
		j := newJob(t, expr, w.target(0), func(p *job.Policy) {
			p.OnCrash, p.CatchUp, p.CatchUpWindow = job.CrashRerun, job.CatchUpAll, 24*time.Hour
		})
		j.Spec.Name = fmt.Sprintf("j%d", i)
		jobs = append(jobs, j)
	}
	return jobs
}

// Fault: each server asked for each job in each sweep. What three idle servers ask of a store does not depend
// on how many jobs they have, and no step reads more than one step may.
// Holds: T15.
func TestIdleServersAskOfNoJob(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			w, m := newWorld(t), new(meter)
			jobs := w.many(t, n, "0 3 * * *")
			var all []*host
			for seed := range uint64(3) {
				h := w.metered(seed+1, m)
				h.start(t, jobs...)
				all = append(all, h)
			}
			time.Sleep(2 * time.Minute) // all are steady
			m.take()
			for range 5 {
				time.Sleep(time.Minute)
				calls, most, sum := m.take()
				if sum > 300 {
					t.Errorf("%d jobs: %d calls a minute: %v", n, sum, calls)
				}
				for what, rows := range most {
					if rows > tick.MaxRows {
						t.Errorf("%d jobs: %s with %d rows in one step", n, what, rows)
					}
				}
				if n > 10 {
					t.Logf("%d jobs: %d calls a minute: %v", n, sum, calls)
				}
			}
			for _, h := range all {
				h.stop()
			}
		})
	}
}
