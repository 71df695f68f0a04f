package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/metrics"
	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/tick"
)

// metricsOptions are the flags of `dibs metrics`.
type metricsOptions struct {
	store, listen string
	timeout       time.Duration
}

const metricsHelp = `Print what the store knows of the whole fleet as metrics, in the text format of Prometheus:
when each job succeeded last and is due next, what is late, paused or running, the queues, the servers and workers.

With --listen it serves them at /metrics until it is stopped; dibs serve and dibs work do the same with
--metrics-listen, and add what they count themselves. Every process shows the same of the fleet: scrape two of them, so
that one may end. The store is asked at most once in 10 s, however often a process is scraped. Where cron runs the jobs,
write a file for the node exporter's textfile collector instead.

If the store cannot be read, the page has dibs_store_up 0 and nothing of the fleet. Exit status: 69 if it does not
answer, or not to all within --timeout, or is not prepared.`

func newMetrics(e env) *cobra.Command {
	o := metricsOptions{timeout: openTimeout}
	cmd := &cobra.Command{Use: "metrics", Short: "Print or serve metrics for Prometheus", Long: metricsHelp,
		Example: "  dibs metrics\n  dibs metrics --listen :9464\n" +
			"  cd /var/lib/prometheus/node-exporter; dibs metrics >dibs.new; mv dibs.new dibs.prom",
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runMetrics(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	cmd.Flags().StringVar(&o.listen, "listen", "", "serve /metrics, /livez and /readyz at this `ADDRESS`, such as :9464")
	cmd.Flags().Var(positive[time.Duration](&o.timeout), "timeout", "bounds opening the store, and then reading it")
	return cmd
}

func runMetrics(ctx context.Context, e env, o metricsOptions) error {
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	x := &exporter{reading: newReading(a, o.timeout, output.TextLogger(e.stderr, slog.LevelInfo))}
	defer x.close()
	if o.listen != "" {
		ctx, _, stop := stopped(ctx, func() time.Duration { return 0 })
		defer stop()
		serving, err := x.listen(ctx, o.listen, nil)
		if err != nil {
			return err
		}
		return serving()
	}
	r := x.read(ctx)
	if err := metrics.Write(e.stdout, r); err != nil || r.Err == nil {
		return err
	}
	if errors.Is(r.Err, status.ErrSlow) {
		return statusError{exitUnavailable, r.Err}
	}
	return r.Err
}

// metricsFlag is that of a process that shows metrics beside its work.
func metricsFlag(cmd *cobra.Command, to *string) {
	const what = "serve the fleet's metrics, /livez and /readyz at this `ADDRESS`, such as :9464"
	cmd.Flags().StringVar(to, "metrics-listen", "", what)
}

// An exporter shows what a store knows as metrics.
type exporter struct {
	*reading
	// draining is closed when the process takes nothing new; nil: it never is.
	draining <-chan struct{}
	counters *metrics.Counters // of this process; nil: it has none
	app      func() string     // whose jobs are counted; nil: no job is
	silent   bool              // the last look was in vain
	unready  atomic.Bool       // the store did not answer the last question
}

func (x *exporter) read(ctx context.Context) metrics.Reading {
	began := time.Now()
	f, err := x.facts(toRead(ctx), status.Options{Lasts: true})
	return metrics.Reading{Facts: f, Took: time.Since(began), Err: err}
}

// look is read for a server of pages, which looks once at a time. The log says why there is nothing to see, once.
func (x *exporter) look(ctx context.Context) metrics.Reading {
	r := x.read(ctx)
	switch {
	case ctx.Err() != nil:
	case r.Err != nil && !x.silent:
		x.log.Warn("the metrics have nothing of the fleet", "event", "metrics", "error", oneLine(r.Err.Error()))
	case r.Err == nil && x.silent:
		x.log.Info("the metrics have the fleet again", "event", "metrics")
	}
	if x.silent = r.Err != nil; !x.silent && x.app != nil {
		var jobs []string
		for _, j := range r.Facts.Jobs {
			if tick.AppOf(j.Job.Name) == x.app() {
				jobs = append(jobs, j.Job.Name)
			}
		}
		x.counters.Know(jobs)
	}
	return r
}

// readyWithin bounds the question whether the store answers.
const readyWithin = 2 * time.Second

func (x *exporter) ready(ctx context.Context) error {
	select {
	case <-x.draining:
		return errors.New("draining: it takes nothing new")
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	place, err := x.opened(toRead(ctx))
	if err == nil {
		err = place.Keeper.Sync(ctx)
	}
	switch was := x.unready.Swap(err != nil); {
	case err == nil && was:
		x.log.Info("the store answers again", "event", "metrics")
	case err != nil && !was && !errors.Is(err, context.Canceled):
		x.log.Warn("/readyz says that the store does not answer", "event", "metrics", "error", oneLine(err.Error()))
	}
	if err != nil {
		return errors.New("the store does not answer") // an answer to anybody shows no address
	}
	return nil
}

// listen takes the address. serving answers there until ctx ends.
func (x *exporter) listen(ctx context.Context, address string, alive func()) (serving func() error, err error) {
	var of net.ListenConfig
	l, err := of.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, usage(fmt.Errorf("listen for metrics at %q: %w; want HOST:PORT or :PORT, and a port that is free", address, err))
	}
	x.log.Info("metrics are at http://"+l.Addr().String()+"/metrics", "event", "metrics")
	return func() error {
		o := metrics.Options{Read: x.look, Ready: x.ready, Counters: x.counters, Alive: alive, Log: x.log}
		return metrics.Serve(ctx, l, o)
	}, nil
}

// counting returns counters for a process that shows metrics at an address, and what they count from; nothing if there
// is none.
func counting(listen string) (*metrics.Counters, observe.Func) {
	if listen == "" {
		return nil, nil
	}
	c := metrics.NewCounters()
	return c, c.Observe
}

// showMetrics shows metrics beside the work of this process until the returned function is called, if an address is
// given. accepting ends when the process takes nothing new. server is nil for a worker.
func showMetrics(
	accepting context.Context, log *slog.Logger, a address, listen string, counters *metrics.Counters, server *daemon,
) (stop func(), err error) {
	if listen == "" {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(accepting))
	x := &exporter{reading: newReading(a, openTimeout, log), draining: accepting.Done(), counters: counters}
	var alive func()
	if server != nil {
		alive, x.app = server.Alive, server.App
	}
	serving, err := x.listen(ctx, listen, alive)
	if err != nil {
		cancel()
		return nil, err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := serving(); err != nil {
			log.Warn("metrics are no longer served", "event", "metrics", "error", err.Error())
		}
	}()
	return func() {
		cancel()
		<-over
		x.close()
	}, nil
}
