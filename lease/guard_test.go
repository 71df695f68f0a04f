package lease_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// Work that does not return properly frees its lease all the same.
func TestWorkThatPanicsFreesItsLease(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("work") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memory.New(memory.Options{})
				p, q := newProcess(t, b, 1), newProcess(t, b, 2)
				var held *lease.Lease
				guard := lease.Guard{Keeper: p.Keeper, OnOverrun: func(*lease.Lease) { t.Error("watched after its end") }}
				done := make(chan any)
				go func() {
					defer func() { done <- recover() }()
					_ = guard.Run(t.Context(), lease.Want{Key: "k"}, func(_ context.Context, l *lease.Lease) error {
						held = l
						end()
						return nil
					})
				}()
				if got := <-done; name == "panic" && got != "work" {
					t.Errorf("recovered %v", got)
				}
				l := q.acquire(t, "k")
				_ = l.Release(t.Context())
				time.Sleep(time.Minute) // nobody watches what nobody renews
				if loss := held.Loss(); loss.Err != nil {
					t.Errorf("lost after its release: %v", loss.Err)
				}
			})
		})
	}
}

// ErrUnavailable says that nothing ran, so that the caller may try again.
func TestAFailedReleaseDoesNotLookLikeAFailedAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.New(memory.Options{}), 1)
		failed := errors.New("the work's own")
		for _, own := range []error{nil, failed} {
			err := lease.Guard{Keeper: p.Keeper}.Run(t.Context(), lease.Want{Key: "k", Wait: -1}, func(context.Context, *lease.Lease) error {
				p.link.Cut(true)
				return own
			})
			p.link.Cut(false)
			if !errors.Is(err, lease.ErrNotReleased) || errors.Is(err, lease.ErrUnavailable) || own != nil && !errors.Is(err, own) {
				t.Errorf("work that ended with %v: %v", own, err)
			}
			if !strings.Contains(err.Error(), "the message was lost") {
				t.Errorf("%q does not tell the cause", err)
			}
		}
	})
}

func TestALostLeaseStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.New(memory.Options{}), 1)
		l := p.acquire(t, "k")
		p.Close()
		err := lease.Guard{Keeper: p.Keeper}.Hold(t.Context(), l, func(context.Context, *lease.Lease) error {
			t.Error("worked")
			return nil
		})
		if !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
	})
}
