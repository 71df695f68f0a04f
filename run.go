package dibs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
)

// ErrStuck is wrapped by Run's error if functions did not return although their context ended. Exit the process then:
// until it does, it keeps their leases.
var ErrStuck = queue.ErrStuck

// stuckAfter is the time that a run still needs at its end once its function has returned, to record the outcome and
// release the lease.
const stuckAfter = 3 * time.Second

// Run carries out what was registered until ctx ends: the functions of Cron and the tasks of Handle, if there are
// any. Then it drains: it starts nothing more, lets running work continue for Options.Drain, ends its context, gives
// it 10 s to return, records and releases everything, and returns nil. It returns ErrStuck if something has not
// returned by then.
//
// Before it starts anything, Run returns the errors of Cron and Handle, and an error that wraps lease.ErrUnavailable
// if the store does not answer. Once it has started, it waits until an unavailable store is back. Call it once per
// Client.
func (c *Client) Run(ctx context.Context) error {
	jobs, err := c.begin()
	if err != nil {
		return err
	}
	var roles []func(context.Context) error
	if len(jobs) > 0 {
		server := scheduler.NewServer(c.backend.Backend, c.o.App)
		if err := server.Load(ctx, jobs); err != nil {
			if ctx.Err() != nil {
				return nil // it was told to stop before anything had begun
			}
			return fmt.Errorf("dibs: Run: %w", err)
		}
		roles = append(roles, func(ctx context.Context) error { return c.serve(ctx, server) })
	}
	if c.handles > 0 {
		worker, err := c.worker()
		if err != nil {
			return fmt.Errorf("dibs: Run: %w", err)
		}
		roles = append(roles, worker.Run)
	}
	return together(ctx, roles)
}

// begin returns what was registered; from then on nothing more can be registered.
func (c *Client) begin() ([]*scheduler.Job, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.late("dibs: Run") != nil:
		return nil, c.late("dibs: Run")
	case len(c.wrong) > 0:
		return nil, errors.Join(c.wrong...)
	case len(c.crons) == 0 && c.handles == 0:
		return nil, errors.New("dibs: Run: there is nothing to run: call Cron, CronTask or Handle first (Do and Enqueue need no Run)")
	}
	c.begun = true
	var jobs []*scheduler.Job
	for _, name := range slices.Sorted(maps.Keys(c.crons)) {
		jobs = append(jobs, c.crons[name])
	}
	if r := c.store.Properties.Reach; len(jobs) > 0 && r != store.Fleet {
		c.log.Info("this store does not reach beyond its "+string(r)+": each "+string(r)+" runs every tick", "event", "reach", "store", c.store.URL)
	}
	return jobs, nil
}

// together runs all roles until ctx ends; if one fails, the others end as well.
func together(ctx context.Context, roles []func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(roles))
	for _, role := range roles {
		go func() {
			err := role(ctx)
			stop()
			ended <- err
		}()
	}
	var errs []error
	for range roles {
		errs = append(errs, <-ended)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("dibs: Run: %w", err)
	}
	return nil
}

// serve follows the schedules, and does not wait for functions that ignore their context.
func (c *Client) serve(ctx context.Context, server *scheduler.Server) error {
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, c.o.Drain) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	enough := time.NewTimer(c.o.Drain + stopGrace + stuckAfter)
	defer enough.Stop()
	select {
	case err := <-ended:
		return err
	case <-enough.C:
		return fmt.Errorf("%w: scheduled functions still run %s after their contexts ended", ErrStuck, stopGrace+stuckAfter)
	}
}

func (c *Client) worker() (*queue.Worker, error) {
	self := c.self
	self.Command = "dibs worker " + c.o.App
	return queue.NewWorker(queue.WorkerOptions{Store: c.store.Queue, Keeper: c.keeper, Mux: &c.mux, Fleet: c.store.Fleet, Queues: c.o.Queues, Slots: c.o.Slots,
		Grace: c.o.Drain, StopGrace: stopGrace, Holder: self, Log: c.log, Observe: c.observe, OnHeldBack: c.backend.OnHeldBack, OnOverrun: func() {
			if c.o.OnOverrun != nil {
				c.o.OnOverrun("")
			}
		}})
}
