package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// WorkerOptions make a Worker. Store, Keeper and Mux are required; Keeper is over the leases of the same store.
type WorkerOptions struct {
	Store  driver.Store
	Keeper *lease.Keeper
	Mux    *Mux
	// Queues are those that it works, fairly in turn. Default: "default".
	Queues []string
	// Slots is how many tasks run at the same time. Default 10.
	Slots int
	// Prefetch bounds how many tasks wait in this process for a slot. They are fetched only as far
	// ahead as the tasks are short, and handed back when one waits for more than a second. Default
	// 1,000; negative: none.
	Prefetch int
	// Grace is what running tasks get to end by themselves when the worker is told to stop; then
	// they are canceled, and what has not succeeded is handed back without using an attempt.
	// Default 12 s, which with StopGrace is over within the 30 s that Kubernetes gives.
	Grace time.Duration
	// StopGrace is what canceled tasks then get to return, before Run gives up with ErrStuck. Default 10 s.
	StopGrace time.Duration
	// Hurry ends the grace at once when it is closed.
	Hurry <-chan struct{}
	// Poll is how often an idle worker looks where the store does not tell it. Default 1 s where
	// the store notifies, else 100 ms.
	Poll time.Duration
	// Keep is how long finished tasks are kept. Default Retention.
	Keep map[task.State]time.Duration
	// Holder describes the process, for people.
	Holder lease.Holder
	// OnOverrun is called when work has not ended by the instant at which it must, because the worker's lease
	// is lost: from then on only tokens exclude (rule L8). Nobody waits for it. It is logged in any case.
	OnOverrun func()
	// OnHeldBack hears that the store grants nothing for a while, since it is new or was restarted (rule L9).
	// Nobody waits for it. Nil: Log has a line.
	OnHeldBack func(wait time.Duration)
	// Listen is told what happens to the worker's tasks: of an end once the store has it, so of each at most once in
	// the fleet. It is called on a goroutine of its own, one call after the other and in order, and nobody waits for
	// it: about 1 MiB of what happens meanwhile waits, what comes beyond that is not told, and each time the log says
	// so. A panic in it is logged.
	Listen func(Happening)
	// Log says what the worker does: at WARN each attempt that failed, panicked or took too long. Nobody waits for it:
	// lines that it does not take in time are dropped, and counted
	// in a line of their own. Default: nothing.
	Log *slog.Logger
}

// Retention is how long final tasks are kept where nobody says otherwise: successes for a day, the others
// for thirty, since somebody may want to look.
var Retention = map[task.State]time.Duration{
	task.Succeeded: 24 * time.Hour, task.Canceled: 30 * 24 * time.Hour, task.Discarded: 30 * 24 * time.Hour,
	task.Failed: 30 * 24 * time.Hour, task.Crashed: 30 * 24 * time.Hour,
}

// What a worker's tasks get at its end by default: together less than the 30 s that Kubernetes gives, so that what
// they leave can be reported, and the lease given back.
const (
	DefaultGrace     = 12 * time.Second
	DefaultStopGrace = 10 * time.Second
)

// A Worker works the tasks of queues until it is told to stop. All its tasks are under one lease of
// its process: when that is lost, they are told to stop before anybody else can be given them.
type Worker struct {
	o     WorkerOptions
	log   *slog.Logger
	tally *counters.Tally
	told  *listener
}

// NewWorker makes a Worker. It does nothing until Run.
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
	if o.Keep == nil {
		o.Keep = Retention
	}
	log := aside.Logger(o.Log)
	return &Worker{o: o, log: log, told: newListener(o.Listen, log)}, nil
}

// Run works until ctx ends, then stops gracefully: it fetches nothing more, hands back what has not
// begun, lets running tasks end within Grace, and returns nil. It returns nil for no other reason. If its lease is
// lost, or the store is away, it stops its tasks as it must, and begins anew under another lease as soon as it can. It
// returns an error for what waiting does not cure, and ErrStuck for tasks that do not end although their context did.
func (w *Worker) Run(ctx context.Context) error {
	defer aside.Flush(w.log)
	defer w.told.queue.Flush(aside.FlushTime)
	w.tally = counters.New(w.o.Store)
	defer w.tally.Close()
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
