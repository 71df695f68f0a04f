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

func gone(context.Context, lease.Record, func() bool) bool { return true }

// A holder that is proven gone is taken over at once.
// Holds: L6.
func TestAHolderThatIsGoneIsReclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		p.acquire(t, "k").Drop()
		l, err := q.Acquire(t.Context(), lease.Want{Key: "k", Gone: gone})
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Release(t.Context())
	})
}

// Rule L8: a dead supervisor proves nothing about its request in an application.
// Holds: L8.
func TestARequestOutlivesItsSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		send := func() time.Time {
			l := p.acquire(t, "k")
			if err := l.BusyFor(time.Minute); err != nil {
				t.Fatal(err)
			}
			l.Drop() // dies
			return time.Now()
		}
		sent := send()
		if _, err := q.Acquire(t.Context(), lease.Want{Key: "k", Gone: gone}); !errors.Is(err, lease.ErrHeld) {
			t.Fatalf("beside a request: %v", err)
		}
		l, err := q.Acquire(t.Context(), lease.Want{Key: "k", Gone: gone, Wait: -1})
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(sent); d < time.Minute || d > time.Minute+time.Second {
			t.Errorf("granted %s after a request that may take a minute", d)
		}
		_ = l.Release(t.Context())

		send()
		l, err = q.Acquire(t.Context(), lease.Want{Key: "k", Gone: gone, Unguarded: true})
		if err != nil {
			t.Fatalf("unguarded: %v", err)
		}
		_ = l.Release(t.Context())
	})
}

// The holder can send a request until the very moment at which it is gone.
func TestARequestThatIsSentBeforeTheEndIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		l := p.acquire(t, "k")
		dies := func(context.Context, lease.Record, func() bool) bool {
			if err := l.BusyFor(time.Minute); err != nil {
				t.Error(err)
			}
			l.Drop()
			return true
		}
		if _, err := q.Acquire(t.Context(), lease.Want{Key: "k", Gone: dies}); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("beside a request: %v", err)
		}
	})
}

// claiming is a store whose records of holders speak of another key.
type claiming struct{ lease.Store }

func (s claiming) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	r, err := s.Store.Acquire(ctx, reqs)
	for i := range r.Answers {
		if r.Answers[i].Status == lease.Held {
			r.Answers[i].Record.Key = "victim"
		}
	}
	return r, err
}

// A reclaim asks only for the end of the key's own work.
// Holds: promise 6.
func TestARecordOfAnotherKeyReclaimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		l := newProcess(t, b, 1).acquire(t, "k")
		k, err := lease.NewKeeper(lease.Options{Store: claiming{b.Store().Leases}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		gone := func(_ context.Context, r lease.Record, _ func() bool) bool {
			t.Errorf("asked to prove, or end, the work of %q", r.Key)
			return false
		}
		if _, err := k.Acquire(t.Context(), lease.Want{Key: "k", Gone: gone}); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("acquire: %v", err)
		}
		_ = l.Release(t.Context())
	})
}
