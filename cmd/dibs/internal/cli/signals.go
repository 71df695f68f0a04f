package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

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
	asked          int       // how many signals asked this process to end, before the command or after it
	passed         bool      // one was passed on to the command
	force          *time.Timer
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

// take passes a signal on to the command while it runs. Before and after that, one ends what is waited for, and a
// second one this process, whatever it waits for.
func (r *relay) take(got os.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sig, ends := got.(syscall.Signal), got != syscall.SIGUSR1 && got != syscall.SIGUSR2
	if r.started && !r.ended {
		r.passed = true
		select {
		case r.toCommand <- sig:
		default: // it heeds none
		}
		return
	}
	if !ends {
		return
	}
	if r.asked++; r.asked > 1 {
		die(sig)
		return // in tests
	}
	r.stop(signaled{sig})
	if r.ended {
		r.hurry(run.ErrShutdown)
		r.force = time.AfterFunc(forcedAfter, func() { die(sig) })
		return
	}
	r.taken = sig
}

// start says that the command runs now. What arrived too late to prevent that is its first signal.
func (r *relay) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = true
	if r.taken != nil {
		r.passed = true
		r.toCommand <- r.taken
	}
}

// untouched reports whether this process has got no signal.
func (r *relay) untouched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.passed && r.asked == 0
}

// over says that the command has ended.
func (r *relay) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended, r.asked = true, 0
	}
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

// endings are the signals that end programs.
var endings = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// stopped are the contexts of the waiting and of the work. A signal that ends programs ends both; the work is
// then told to stop and gets its grace. A second one ends this process after last.
func stopped(ctx context.Context, last func() time.Duration) (accept, work context.Context, stop func()) {
	accept, work, stop, acts := contexts(ctx)
	return accept, work, listen(endings, stop, last, func(sig syscall.Signal) { acts[0](sig); acts[1](sig) }, func(syscall.Signal) {})
}

// stoppedTwice are the contexts of what is still to begin and of what runs. The first signal ends the
// one, the second the other, and, after last, this process.
func stoppedTwice(ctx context.Context, last func() time.Duration, signals ...os.Signal) (accept, work context.Context, stop func()) {
	accept, work, stop, acts := contexts(ctx)
	return accept, work, listen(signals, stop, last, acts...)
}

func contexts(ctx context.Context) (accept, work context.Context, stop func(), acts []func(syscall.Signal)) {
	accept, endAccept := context.WithCancelCause(ctx)
	work, endWork := context.WithCancelCause(context.WithoutCancel(ctx))
	return accept, work, func() { endAccept(nil); endWork(nil) }, []func(syscall.Signal){
		func(sig syscall.Signal) { endAccept(signaled{sig}) },
		func(syscall.Signal) { endWork(run.ErrShutdown) },
	}
}

// listen attends to signals until the returned function is called, which calls stop as well.
func listen(which []os.Signal, stop func(), last func() time.Duration, acts ...func(syscall.Signal)) func() {
	survivePipes()
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, which...)
	go attend(signals, last, die, acts...)
	return func() { signal.Stop(signals); close(signals); stop() }
}

// attend acts on one signal after the other, until there are no more. Whatever waits, here or in a library, or
// for a disk or a log that does not answer: the second signal ends this process once last has passed, and
// the third at once. It waits for nothing itself.
func attend(signals <-chan os.Signal, last func() time.Duration, die func(syscall.Signal), acts ...func(syscall.Signal)) {
	var force *time.Timer
	for n := 0; ; n++ {
		got, ok := <-signals
		if !ok {
			if force != nil {
				force.Stop()
			}
			return
		}
		sig := got.(syscall.Signal)
		if n < len(acts) {
			acts[n](sig)
		}
		switch n {
		case 0:
		case 1:
			force = time.AfterFunc(last(), func() { die(sig) })
		default:
			die(sig)
		}
	}
}

// forcedAfter is what a process gets, after the grace of its work, to release its leases and to end.
const forcedAfter = 10 * time.Second

// exit is a test's to replace.
var exit = os.Exit

// die ends this process, and does not wait for anybody to read that. Its guardians kill what runs; its leases
// lapse by themselves.
func die(sig syscall.Signal) {
	said := make(chan struct{})
	go func() {
		fmt.Fprintf(os.Stderr, "dibs: ending now after several signals (%s); running work is killed, and its leases expire\n", sig)
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(100 * time.Millisecond):
	}
	exit(128 + int(sig))
}

// dieOf ends this process by a signal, as it would have without a handler: a shell ends its loop, or its script, only
// if the command that it waits for died of the interrupt. A signal that was ignored from the start does nothing, nor
// does one that has no handler in process 1 of a container.
func dieOf(sig syscall.Signal) {
	signal.Reset(sig)
	if os.Getpid() == 1 || signal.Ignored(sig) || syscall.Kill(os.Getpid(), sig) != nil {
		return
	}
	time.Sleep(time.Second) // it is on its way
}
