package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// Nobody watches over the leases of a closed Keeper: its work stops before they lapse.
func TestCloseStopsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		var told time.Time
		over := make(chan time.Time, 1)
		guard := lease.Guard{Keeper: p.Keeper, OnOverrun: func(*lease.Lease) { over <- time.Now() }}
		started, done := make(chan struct{}), make(chan error)
		go func() {
			done <- guard.Run(t.Context(), lease.Want{Key: "k"}, func(ctx context.Context, _ *lease.Lease) error {
				close(started)
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour):
				}
				told = time.Now()
				if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrLost) || !errors.Is(cause, lease.ErrClosed) {
					t.Errorf("cause: %v", cause)
				}
				time.Sleep(time.Minute) // does not listen
				return nil
			})
		}()
		<-started
		time.Sleep(time.Second)
		closed := time.Now()
		p.Close()
		l, err := q.Acquire(t.Context(), lease.Want{Key: "k", Wait: -1})
		if err != nil {
			t.Fatal(err)
		}
		granted := time.Now()
		if err := <-done; !errors.Is(err, lease.ErrLost) || errors.Is(err, lease.ErrUnavailable) {
			t.Errorf("the work ended with %v", err)
		}
		if d := told.Sub(closed); d != 0 {
			t.Errorf("told to stop %s after the Keeper was closed", d)
		}
		if overran := <-over; !overran.Before(granted) {
			t.Errorf("overrun at %s, granted elsewhere at %s", overran, granted)
		}
		_ = l.Release(t.Context())
	})
}

func TestALeaseThatIsReleasedBeforeCloseIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.New(memory.Options{}), 1)
		l := p.acquire(t, "k")
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.Close()
		if loss := l.Loss(); loss.Err != nil {
			t.Errorf("lost: %v", loss.Err)
		}
	})
}

func TestALeaseThatIsGrantedDuringCloseIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		if err := p.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.link.Latency = 200 * time.Millisecond
		done := make(chan error)
		go func() {
			_, err := p.Acquire(t.Context(), lease.Want{Key: "k"})
			done <- err
		}()
		synctest.Wait() // on its way
		p.Close()
		if err := <-done; !errors.Is(err, lease.ErrClosed) {
			t.Errorf("an acquire during Close: %v", err)
		}
		if n := p.link.Calls("acquire"); n != 1 {
			t.Fatalf("%d acquires reached the store", n)
		}
		l := q.acquire(t, "k") // at once, without waiting for the TTL
		_ = l.Release(t.Context())

		start := time.Now()
		if _, err := p.Acquire(t.Context(), lease.Want{Key: "k"}); !errors.Is(err, lease.ErrClosed) || time.Since(start) != 0 {
			t.Errorf("an acquire after Close: %v after %s", err, time.Since(start))
		}
	})
}
