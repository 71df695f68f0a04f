package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Guard runs work under a lease: nothing runs without it, and the work is told to stop before the lease can be
// granted elsewhere.
type Guard struct {
	Keeper *Keeper
	// OnOverrun is called when work was told to stop because its lease is lost, and has not returned by the instant
	// at which it must have stopped. Go cannot kill a function: from then on only the token excludes others (rule
	// L8). The dibs binary exits with status 79. OnOverrun runs on its own goroutine and delays nothing. Nil:
	// nothing is called.
	OnOverrun func(l *Lease)
}

// Work is the function that a Guard runs. If the lease is lost, ctx ends with a cause that wraps ErrLost. Work must
// then return before Lease.Loss().Kill on the boot clock.
type Work func(ctx context.Context, l *Lease) error

// Run acquires the lease, does the work and releases the lease, even if the work panics. If the acquire failed, the
// work did not run, and the error is the acquire's (*HeldError, ErrUnavailable, ErrClosed). Otherwise the error
// joins the work's own error with ErrLost or ErrNotReleased, if there are any. It is safe for concurrent use.
func (g Guard) Run(ctx context.Context, w Want, work Work) (err error) {
	l, err := g.Keeper.Acquire(ctx, w)
	if err != nil {
		return err
	}
	defer func() {
		switch rerr := l.Release(ctx); {
		case rerr == nil || errors.Is(err, ErrLost):
		case errors.Is(rerr, ErrLost):
			err = errors.Join(rerr, err)
		default: // the cause is told and not wrapped: ErrUnavailable would mean that nothing ran
			err = errors.Join(err, fmt.Errorf("%w, and expires by itself: %v", ErrNotReleased, rerr))
		}
	}()
	return g.Hold(ctx, l, work)
}

// Hold does the work under a lease that is already acquired. The caller releases it. If the lease is already lost,
// the work is not started.
func (g Guard) Hold(ctx context.Context, l *Lease, work Work) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	select {
	case <-l.Lost():
		return fmt.Errorf("lease %q: %w", l.Key(), l.Loss().Err)
	default:
	}
	// A machine that was suspended since the acquire starts nothing: the timers that would
	// have noticed were suspended too.
	if term, _ := l.Deadlines(); l.keeper.clock.Boot() >= term {
		return fmt.Errorf("lease %q: %w: it was too old to start work under", l.Key(), ErrLost)
	}
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		g.watch(l, cancel, done)
	}()
	defer func() { // also when the work panics
		close(done)
		<-watched
	}()
	err := work(ctx, l)
	// A process that was suspended past its deadline may learn of that from the end of its work, which the guardian
	// brought about, before any timer fires here. That is a loss all the same.
	l.silent(l.keeper.clock.Boot())
	select {
	case <-l.Lost():
		return errors.Join(fmt.Errorf("lease %q: %w", l.Key(), l.Loss().Err), err)
	default:
		return err
	}
}

// watch cancels the work on loss and reports an overrun.
func (g Guard) watch(l *Lease, cancel context.CancelCauseFunc, done <-chan struct{}) {
	select {
	case <-done:
		return
	case <-l.Lost():
	}
	cancel(l.Loss().Err)
	for {
		left := l.Loss().Kill - l.keeper.clock.Boot()
		if left <= 0 {
			break
		}
		// In steps: a later refusal brings the instant forward, and a suspend moves only the boot clock.
		t := time.NewTimer(min(left, 100*time.Millisecond))
		select {
		case <-done:
			t.Stop()
			return
		case <-t.C:
		}
	}
	select {
	case <-done:
	default:
		if g.OnOverrun != nil {
			go g.OnOverrun(l) // whoever waits for the end of the work does not wait for this
		}
	}
}
