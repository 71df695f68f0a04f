package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/dibs-run/dibs/run"
)

// A relay takes the signals of `dibs run`. Until the command runs, one that ends a program ends
// the wait; while it runs they are all the command's; after it, they end what is still to be done.
// None is swallowed in between.
type relay struct {
	// waiting ends, with a signaled as its cause, when a signal arrives before the command runs, or after it has
	// ended; working only after it has.
	waiting, working context.Context
	toCommand        chan os.Signal

	stop, hurry    context.CancelCauseFunc
	mu             sync.Mutex
	started, ended bool
	taken          os.Signal // arrived before the start
}

// newRelay installs the handlers; they come before any wait, so that no signal finds the default action.
func newRelay(ctx context.Context) *relay {
	r := &relay{toCommand: make(chan os.Signal, 16)}
	r.waiting, r.stop = context.WithCancelCause(ctx)
	r.working, r.hurry = context.WithCancelCause(ctx)
	from := make(chan os.Signal, 16)
	signal.Notify(from, forwarded()...)
	survivePipes()
	go func() {
		for sig := range from {
			r.take(sig)
		}
	}()
	return r
}

func (r *relay) take(sig os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended && sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2:
		r.stop(signaled{sig.(syscall.Signal)})
		r.hurry(run.ErrShutdown)
	case r.started:
		select {
		case r.toCommand <- sig:
		default: // it heeds none
		}
	case sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2:
		r.taken = sig
		r.stop(signaled{sig.(syscall.Signal)})
	}
}

// start says that the command runs now. What arrived too late to prevent that is its first signal.
func (r *relay) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
	if r.taken != nil {
		r.toCommand <- r.taken
	}
}

// over says that the command has ended.
func (r *relay) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}

// relayed is a command after which the signals are for this process again.
type relayed struct {
	run.Target
	signals *relay
}

func (t relayed) Attempt(ctx context.Context, c run.Call) run.Result {
	defer t.signals.over()
	return t.Target.Attempt(ctx, c)
}

// forwarded are the signals that reach the command. One that dibs was told to ignore stays ignored,
// for the command too: nohup(1) does that to SIGHUP.
func forwarded() []os.Signal {
	all := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	return slices.DeleteFunc(all, signal.Ignored)
}

// survivePipes keeps this process, though not its commands, alive when whoever read its output has
// gone: a supervisor does not die of a closed log.
func survivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// signaled is a signal that arrived before the command was started.
type signaled struct{ syscall.Signal }

func (s signaled) Error() string { return fmt.Sprintf("ended by signal: %s", s.Signal) }

// stopped are the contexts of the waiting and of the work. A signal that ends programs ends both;
// the work is then told to stop and gets its grace.
func stopped(ctx context.Context) (accept, work context.Context, stop func()) {
	survivePipes()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	accept, endAccept := context.WithCancelCause(ctx)
	work, endWork := context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		sig, ok := <-signals
		if ok {
			endAccept(signaled{sig.(syscall.Signal)})
			endWork(run.ErrShutdown)
		}
	}()
	return accept, work, func() { signal.Stop(signals); close(signals); endAccept(nil); endWork(nil) }
}

// stoppedTwice are the contexts of what is still to begin and of what runs. The first signal ends the
// one, the second the other.
func stoppedTwice(ctx context.Context) (accept, work context.Context, stop func()) {
	survivePipes()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	accept, endAccept := context.WithCancelCause(ctx)
	work, endWork := context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		if sig, ok := <-signals; ok {
			endAccept(signaled{sig.(syscall.Signal)})
		}
		if _, ok := <-signals; ok {
			endWork(run.ErrShutdown)
		}
	}()
	return accept, work, func() { signal.Stop(signals); close(signals); endAccept(nil); endWork(nil) }
}
