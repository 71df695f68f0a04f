package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
	"github.com/dibs-run/dibs/tick"
)

// benchApp is the application whose jobs these are.
const benchApp = "bench"

// openPlace opens a store in a namespace, with all that a server has, and its requests counted.
func openBackend(ctx context.Context, url, ns string, c *tally) (*scheduler.Backend, func(), error) {
	cfg, err := store.Parse(url)
	if err != nil {
		return nil, nil, err
	}
	cfg.Namespace, cfg.Init = ns, true
	st, err := all.OpenConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	st = counted(st, c)
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		_ = st.Close()
		return nil, nil, err
	}
	self := holder()
	self.Command = scheduler.ServerCommand(benchApp)
	p := &scheduler.Backend{Name: st.URL, Keeper: k, Book: tick.NewBook(st.Ticks, k, self), Ticks: st.Ticks,
		History: st.History, Fleet: st.Fleet,
		Self: self, Descriptor: st.Descriptor, Detach: st.Detach, Log: slog.New(slog.DiscardHandler)}
	return p, func() { k.Close(); _ = st.Close() }, nil
}

// benchJobs are n jobs of one schedule.
func benchJobs(n int, expr string, do func(i int)) ([]*scheduler.Job, error) {
	if _, err := schedule.Parse(expr, time.UTC); err != nil {
		return nil, err
	}
	p := job.DefaultPolicy(false)
	p.StartingDeadline = 5 * time.Minute // a busy machine starts late, and misses nothing
	jobs := make([]*scheduler.Job, n)
	for i := range jobs {
		jobs[i] = &scheduler.Job{
			Spec: job.Spec{App: benchApp, Name: fmt.Sprintf("j%07d", i), Schedules: []string{expr}, Timezone: "UTC", Policy: p},
			Target: run.Func(func(context.Context, run.Call) error {
				do(i)
				return nil
			}),
		}
	}
	return jobs, nil
}

// serveJobs registers jobs and serves them until end is called.
func serveJobs(ctx context.Context, p *scheduler.Backend, jobs []*scheduler.Job) (end func() error, err error) {
	s := scheduler.NewServer(p, benchApp)
	if err := s.Load(ctx, jobs); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, time.Minute) }()
	return func() error { stop(); return <-done }, nil
}

func dibsStarter(url, ns string) starter {
	return func(ctx context.Context, n int, at time.Time, begun func(int)) (func() (*tally, error), error) {
		c := new(tally)
		p, closePlace, err := openBackend(ctx, url, ns, c)
		if err != nil {
			return nil, err
		}
		jobs, err := benchJobs(n, secondly(at), begun)
		if err != nil {
			return nil, err
		}
		end, err := serveJobs(ctx, p, jobs)
		c.take() // the registering is not counted
		return func() (*tally, error) { defer closePlace(); return c, end() }, err
	}
}
