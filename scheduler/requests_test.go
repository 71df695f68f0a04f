package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// A recorder checks each request that servers of one app send about ticks: what it may ask for, and that somebody
// still waits for the answer. It counts them.
type recorder struct {
	tick.Store
	w *world

	mu    sync.Mutex
	calls map[string]int
	runs  map[string]run.Outcome // of each run: as its own server reported it
	ended time.Time              // when a server was told to stop: who asks at that instant may have looked before
}

// records has what the host sends go through a recorder that it may share.
func (r *recorder) records(h *host) {
	h.ticks.Store = r
	h.backend.History = recordedHistory{h.backend.History, r}
}

func (r *recorder) came(ctx context.Context, what string, items int) {
	r.calls[what]++
	if ctx.Err() != nil && !time.Now().Equal(r.ended) || items < 1 || items > 500 {
		r.w.t.Errorf("%s of %d items: %v", what, items, ctx.Err())
	}
}

func (r *recorder) wrong(what string, about any) { r.w.t.Errorf("%s: %+v", what, about) }

func (r *recorder) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "claim", len(reqs))
	for _, q := range reqs {
		if q.Outcome.Ran() || q.NotAfter.IsZero() || q.At.After(time.Now().Add(tick.Ahead)) || !strings.HasPrefix(q.Job, "app/") || q.Generation == 0 && q.Outcome == "" {
			r.wrong("a claim", q)
		}
	}
	return r.Store.Claim(ctx, reqs)
}

func (r *recorder) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "start", len(reqs))
	for _, q := range reqs {
		if q.Run.ID == "" || q.Run.Outcome != "" || q.Run.Started.After(time.Now()) || q.NotAfter.IsZero() || q.Claim == (lease.Ref{}) || q.Claim == q.Lease || r.runs[q.Run.ID] != "" {
			r.wrong("a start", q)
		}
	}
	return r.Store.Start(ctx, reqs)
}

func (r *recorder) Take(ctx context.Context, q tick.TakeRequest) (tick.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "take", 1)
	if q.From == (lease.Ref{}) || q.From == q.Lease || q.NotAfter.IsZero() {
		r.wrong("a takeover", q)
	}
	return r.Store.Take(ctx, q)
}

func (r *recorder) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "close", len(reqs))
	for _, q := range reqs {
		ran := q.Run.ID != ""
		fine := q.Run.Outcome != "" && !q.Run.Ended.After(time.Now()) && (q.Claim != lease.Ref{})
		if before := r.runs[q.Run.ID]; ran && !q.Run.Inferred {
			fine = fine && (before == "" || before == q.Run.Outcome) // a run ends once, however often that is reported
			r.runs[q.Run.ID] = q.Run.Outcome
		}
		if !fine || !ran && q.Run.Outcome.Ran() && !q.Run.Inferred && q.Run.Outcome != run.Canceled {
			r.wrong("an outcome", q)
		}
	}
	return r.Store.Close(ctx, reqs)
}

func (r *recorder) Settle(ctx context.Context, q tick.SettleRequest) (tick.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "settle", 1)
	if !q.From.Before(q.To) || q.To.After(time.Now()) || q.Generation == 0 {
		r.wrong("a settling", q)
	}
	last := q.From
	for _, row := range q.Rows {
		if row.State != tick.Closed || row.Outcome.Ran() || row.Count < 1 || !row.At.After(last) || row.Last().After(q.To) || row.Ended.IsZero() {
			r.wrong("a row of a settling", row)
		}
		last = row.Last()
	}
	return r.Store.Settle(ctx, q)
}

func (r *recorder) SetJobs(ctx context.Context, reqs []tick.JobRequest) ([]tick.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "register", len(reqs))
	return r.Store.SetJobs(ctx, reqs)
}

func (r *recorder) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "jobs", max(len(q.Names), 1))
	return r.Store.Jobs(ctx, q)
}

func (r *recorder) Orphans(ctx context.Context, q tick.Look) (tick.Found, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "orphans", 1)
	return r.Store.Orphans(ctx, q)
}

func (r *recorder) Owed(ctx context.Context, q tick.OwedLook) (tick.Found, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "owed", 1)
	if q.App != "app" || q.From.After(time.Now()) {
		r.wrong("a look for what is owed", q)
	}
	return r.Store.Owed(ctx, q)
}

// recordedHistory is the history beside it.
type recordedHistory struct {
	history.Store
	by *recorder
}

func (r recordedHistory) Ticks(ctx context.Context, q history.Query) ([]tick.Tick, error) {
	r.by.mu.Lock()
	defer r.by.mu.Unlock()
	r.by.came(ctx, "ticks", 1)
	if q.Limit < 1 || q.Limit > 10_000 || q.Job == "" {
		r.by.wrong("a look at ticks", q)
	}
	return r.Store.Ticks(ctx, q)
}

func (r recordedHistory) Runs(ctx context.Context, q history.Query) ([]run.Record, error) {
	r.by.mu.Lock()
	defer r.by.mu.Unlock()
	r.by.came(ctx, "runs", 1)
	if q.Limit < 1 || q.Limit > 10_000 {
		r.by.wrong("a look at runs", q)
	}
	return r.Store.Runs(ctx, q)
}

// Each request of a fleet is one that it may send, under every policy, through cuts, changes and pauses: nothing is
// settled ahead of the clock or twice, nothing ends twice in two ways, and nobody asks on a context that has ended.
// Holds: promises 8, 10, T4.
func TestEachRequestOfAFleet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			r := &recorder{Store: w.b.Store().Ticks, w: w, calls: map[string]int{}, runs: map[string]run.Outcome{}}
			rng := rand.New(rand.NewPCG(seed, 7))
			jobs := func() (all []*scheduler.Job) {
				for n, change := range []func(*job.Policy){
					nil,
					func(p *job.Policy) { p.OnCrash, p.CatchUpWindow = job.CrashRerun, 20*time.Minute },
					func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpAll, 20*time.Minute },
					func(p *job.Policy) { p.CatchUp, p.CatchUpWindow = job.CatchUpLatest, 20*time.Minute },
					func(p *job.Policy) { p.Concurrency = job.Replace },
					func(p *job.Policy) { p.Concurrency, p.Jitter = job.Wait, 20*time.Second },
					func(p *job.Policy) { p.UnlessBetween = []string{"00:10-00:20"} },
				} {
					j := newJob(t, "* * * * *", w.long(time.Duration(n)*15*time.Second), change)
					j.Spec.Name = fmt.Sprint("j", n)
					all = append(all, j)
				}
				return all
			}
			var hosts []*host
			for n := range 3 {
				h := w.host(seed*10+uint64(n), 0)
				r.records(h)
				h.start(t, jobs()...)
				hosts = append(hosts, h)
			}
			admin := w.host(99, 0)
			for round := range 12 {
				time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Minute))))
				h := hosts[rng.IntN(len(hosts))]
				switch round % 4 {
				case 0, 1:
					h.cut(true)
					time.Sleep(time.Duration(rng.Int64N(int64(90 * time.Second))))
					h.cut(false)
				case 2:
					if _, err := admin.backend.Pause(t.Context(), tick.PauseRequest{Job: "app/j2", By: "ann", Until: time.Now().Add(150 * time.Second)}); err != nil {
						t.Error(err)
					}
				case 3:
					changed := jobs()
					changed[0].Spec.Policy.StopGrace = time.Duration(round) * time.Second
					for _, h := range hosts {
						if err := h.Load(t.Context(), changed); err != nil {
							t.Error(err)
						}
					}
				}
			}
			time.Sleep(10 * time.Minute)
			for _, h := range hosts {
				r.mu.Lock()
				r.ended = time.Now()
				r.mu.Unlock()
				h.stop()
			}
			for _, what := range []string{"claim", "start", "close", "settle", "register", "jobs", "orphans", "owed", "ticks"} {
				if r.calls[what] == 0 {
					t.Errorf("seed %d: there was no %s: %v", seed, what, r.calls)
				}
			}
		})
	}
}
