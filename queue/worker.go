package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/brake"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// WorkerOptions configure a Worker. Store, Keeper and Mux are required; Keeper must use the leases of the same
// store.
type WorkerOptions struct {
	Store  driver.Store
	Keeper *lease.Keeper
	Mux    *Mux
	// Fleet keeps on record that this process works; nil: nothing does.
	Fleet fleet.Store
	// Queues are the queues that the worker serves, fairly in turn. Default: "default".
	Queues []string
	// Slots is how many tasks run at the same time. Default 10.
	Slots int
	// Prefetch bounds how many tasks wait in this process for a slot. The shorter the tasks, the more are fetched
	// ahead; a task that waits for more than a second is handed back. Default 1,000; negative: none.
	Prefetch int
	// Grace is how long running tasks may continue when the worker is told to stop. Then they are canceled, and
	// those that have not succeeded are handed back without using an attempt. Default 12 s, which together with
	// StopGrace fits into the 30 s that Kubernetes gives.
	Grace time.Duration
	// StopGrace is how long canceled tasks then have to return before Run gives up with ErrStuck. Default 10 s.
	StopGrace time.Duration
	// Hurry ends the grace at once when it is closed.
	Hurry <-chan struct{}
	// Poll is how often an idle worker asks for tasks if the store does not notify it. Default 1 s if the store
	// notifies, else 100 ms.
	Poll time.Duration
	// Keep is how long finished tasks are kept, by their final state; those of a state that is missing stay. Default
	// Retention.
	Keep map[task.State]time.Duration
	// Holder describes the process, for people.
	Holder lease.Holder
	// OnOverrun is called when work has not ended by the instant at which it must because the worker's lease is
	// lost: from then on only tokens exclude (rule L8). The call delays nothing. The overrun is always logged.
	OnOverrun func()
	// OnHeldBack is called when the store grants nothing for a while because it is new or was restarted (rule L9).
	// The call delays nothing. Nil: Log gets a line.
	OnHeldBack func(wait time.Duration)
	// Listen receives what happens to the worker's tasks. It receives an end once the store has recorded it, so each
	// end at most once in the fleet. It is called on its own goroutine, one call at a time and in order, and delays
	// nothing: up to about 1 MiB of events wait for it, more are dropped, and the log reports each time that this
	// happens. A panic in it is logged.
	Listen func(Happening)
	// Observe receives the starts of attempts, and their ends once the store has recorded them. It is called on the
	// path of the work, and must return at once. Nil: nobody does.
	Observe observe.Func
	// Log reports what the worker does: at WARN each attempt that failed, panicked or timed out. Logging delays
	// nothing: lines that Log does not take in time are dropped, and their number is logged in a line of its own.
	// Default: nothing.
	Log *slog.Logger
}

// Retention is the default time that finished tasks are kept: a day for successes, thirty days for the others, since
// somebody may want to examine them.
var Retention = map[task.State]time.Duration{
	task.Succeeded: 24 * time.Hour, task.Canceled: 30 * 24 * time.Hour, task.Discarded: 30 * 24 * time.Hour,
	task.Failed: 30 * 24 * time.Hour, task.Crashed: 30 * 24 * time.Hour,
}

// The default times for a worker's tasks at its end. Together they are less than the 30 s that Kubernetes gives, so
// that ends can still be reported, and the lease released.
const (
	DefaultGrace     = 12 * time.Second
	DefaultStopGrace = 10 * time.Second
)

// A Worker works the tasks of queues until it is told to stop. All its tasks run under one lease of its process:
// when that is lost, they are told to stop before any other worker can get them.
type Worker struct {
	o     WorkerOptions
	log   *slog.Logger
	tally *counters.Tally
	told  *listener
	brake brake.Brake // on while nothing can be started here

	presence *fleet.Reporter           // of this Run
	ref      atomic.Pointer[lease.Ref] // under which it works; nil: under none yet
	draining atomic.Bool
}

// longestGrace stands for ever: such times are added up.
const longestGrace = 10 * 365 * 24 * time.Hour

// NewWorker creates a Worker. It does nothing until Run.
func NewWorker(o WorkerOptions) (*Worker, error) {
	switch {
	case o.Store == nil || o.Keeper == nil || o.Mux == nil:
		return nil, errors.New("queue: WorkerOptions need Store, Keeper and Mux")
	case o.Mux.any == nil && len(o.Mux.handlers) == 0:
		return nil, errors.New("queue: the Mux handles no kind; the worker would fetch nothing")
	case o.Slots < 0 || o.Slots > 10_000:
		return nil, fmt.Errorf("queue: %d slots; give 1 to 10000", o.Slots)
	}
	if err := o.Mux.check(); err != nil {
		return nil, err
	}
	for state, d := range o.Keep {
		if !state.Final() || d < 0 {
			return nil, fmt.Errorf("queue: Keep has %s for %q; give 0 or more for final states", d, state)
		}
	}
	if len(o.Queues) == 0 {
		o.Queues = []string{task.DefaultQueue}
	}
	for _, q := range o.Queues {
		if err := task.CheckName("queue", q); err != nil {
			return nil, err
		}
	}
	o.Queues = slices.Clone(o.Queues)
	o.Slots = cmp.Or(o.Slots, 10)
	o.Prefetch = max(cmp.Or(o.Prefetch, 1000), 0)
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.StopGrace <= 0 {
		o.StopGrace = DefaultStopGrace
	}
	o.Grace, o.StopGrace = min(o.Grace, longestGrace), min(o.StopGrace, longestGrace)
	if o.Keep == nil {
		o.Keep = Retention
	}
	log := aside.Logger(o.Log)
	return &Worker{o: o, log: log, told: newListener(o.Listen, log)}, nil
}

// errIdle is returned for a worker that works under no lease yet.
var errIdle = errors.New("the worker has no lease yet")

// describe says what this worker is, for the fleet's record.
func (w *Worker) describe(context.Context) (fleet.Process, error) {
	ref := w.ref.Load()
	if ref == nil {
		return fleet.Process{}, errIdle
	}
	return fleet.Process{Lease: *ref, Host: w.o.Holder.Host, PID: w.o.Holder.PID, Queues: w.o.Queues, Slots: w.o.Slots, Draining: w.draining.Load()}, nil
}

// keepPresent keeps the worker on record until the returned function is called.
func (w *Worker) keepPresent(ctx context.Context) (end func()) {
	w.draining.Store(false)
	w.ref.Store(nil)
	w.presence = fleet.NewReporter(fleet.ReporterOptions{Store: w.o.Fleet, Keeper: w.o.Keeper, Describe: w.describe, TimeOfDay: clock.System.Wall, Log: w.log})
	present, leave := context.WithCancel(context.WithoutCancel(ctx))
	told := context.AfterFunc(ctx, func() {
		w.draining.Store(true)
		w.presence.Changed()
	})
	var presence sync.WaitGroup
	presence.Go(func() { w.presence.Run(present) })
	return func() {
		told()
		leave()
		presence.Wait()
		w.presence.End(context.WithoutCancel(ctx))
	}
}

// Run works until ctx ends, then stops gracefully: it fetches nothing more, hands back what has not begun, lets
// running tasks end within Grace, and returns nil. It returns nil for no other reason. If its lease is lost, or the
// store is unavailable, it stops its tasks as it must, and begins again under another lease as soon as it can. It
// returns an error for a failure that waiting does not cure, and ErrStuck if tasks do not end although their context
// did.
func (w *Worker) Run(ctx context.Context) error {
	defer aside.Flush(w.log)
	defer w.told.queue.Flush(aside.FlushTime)
	w.tally = counters.New(w.o.Store)
	defer w.tally.Close()
	defer w.keepPresent(ctx)()
	for pause := time.Duration(0); ; {
		if !wait(ctx, pause) {
			return nil
		}
		begun := time.Now()
		err := w.session(ctx)
		if time.Since(begun) > w.o.Keeper.Margin().TTL {
			pause = 0 // it went well for a while
		}
		pause = min(max(2*pause, 250*time.Millisecond), 5*time.Second)
		switch {
		case errors.Is(err, ErrStuck):
			return err
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, lease.ErrLost), errors.Is(err, ErrStale):
			w.log.Warn("the worker's lease is lost; its tasks were stopped, and it starts again", "event", "worker-lost", "error", err)
		case errors.Is(err, ErrUnavailable):
			w.log.Error("the store is not available; no tasks run", "error", err)
		case err == nil:
			return errors.New("the worker ended unexpectedly")
		default:
			return err
		}
	}
}

func (w *Worker) heldBack(d time.Duration) {
	if w.o.OnHeldBack != nil {
		w.o.OnHeldBack(d)
		return
	}
	w.log.Warn(lease.HoldBackText(d), "event", "held-back", "wait", d.Round(time.Millisecond))
}

// session works under one lease, until ctx ends or the lease is lost.
func (w *Worker) session(ctx context.Context) error {
	l, err := w.o.Keeper.Acquire(ctx, lease.Want{Key: lease.OnceKey(), Holder: w.o.Holder, OnHeldBack: w.heldBack})
	if err != nil {
		return err
	}
	ref := l.Ref()
	w.ref.Store(&ref)
	w.presence.Under(ref)
	s := newSession(w, l)
	if err := s.join(ctx); err != nil {
		_ = l.Release(ctx)
		return err
	}
	w.log.Info("working", "queues", w.o.Queues, "slots", w.o.Slots, "worker", l.Ref().Owner)
	guard := lease.Guard{Keeper: w.o.Keeper, OnOverrun: func(*lease.Lease) { s.overrun() }}
	if err := guard.Hold(context.WithoutCancel(ctx), l, func(work context.Context, _ *lease.Lease) error {
		return s.run(ctx, work)
	}); err != nil {
		l.Drop() // it lapses by itself, and its tasks are rescued then, not sooner
		return err
	}
	return s.leave(ctx)
}

// wait sleeps, and reports whether ctx let it.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
