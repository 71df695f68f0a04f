package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// Rule L12: a holder dies, and the store's clock steps back by an hour. Its key is free a minute and one TTL later:
// for who waits for it, and, of those for which nobody waits, by any process that has lived through the step. A
// holder that lives keeps its key.
// Holds: L12.
func TestADeadHoldersKeyAfterAStepBack(t *testing.T) {
	for name, see := range map[string]func(lease.Store) lease.Store{
		"listed":     func(s lease.Store) lease.Store { return s },
		"waited for": func(s lease.Store) lease.Store { return unlisted{s} },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { stepBack(t, see, name == "listed") }) })
	}
}

// unlisted is a store that lists nothing.
type unlisted struct{ lease.Store }

func (unlisted) List(context.Context, string, bool) (lease.Reply, error) {
	return lease.Reply{}, lease.ErrUnavailable
}

func stepBack(t *testing.T, see func(lease.Store) lease.Store, listed bool) {
	begun := time.Now()
	var back time.Duration
	b := memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(-back) }})
	keeper := func() *lease.Keeper {
		k, err := lease.NewKeeper(lease.Options{Store: see(b.Store().Leases), Clock: clock.Virtual{Start: begun}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Close)
		return k
	}
	acquire := func(k *lease.Keeper, key lease.Key, wait time.Duration) (*lease.Lease, error) {
		return k.Acquire(t.Context(), lease.Want{Key: key, Wait: wait})
	}
	living, dead := keeper(), keeper()
	held, err := acquire(living, "living", 0)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(90 * time.Second) // it has seen the clock keep to its line
	for _, key := range []lease.Key{"dead", "waited for"} {
		l, err := acquire(dead, key, 0)
		if err != nil {
			t.Fatal(err)
		}
		l.Drop()
	}
	back = time.Hour
	at := time.Now()
	waiter := keeper()
	l, err := acquire(waiter, "waited for", 2*time.Minute)
	if err != nil {
		t.Fatalf("after %s: %v", time.Since(at), err)
	}
	if took := time.Since(at); took < lease.DefaultTTL {
		t.Errorf("it was granted after %s, before its holder's work is certainly gone", took)
	}
	_ = l.Release(t.Context())
	time.Sleep(10 * time.Second)
	if l, err = acquire(keeper(), "dead", 0); err != nil && listed {
		t.Errorf("after %s: %v", time.Since(at), err)
	} else if err == nil {
		_ = l.Release(t.Context())
	}
	if _, err := acquire(waiter, "living", 3*time.Minute); err == nil {
		t.Error("the key of a holder that lives was granted")
	}
	select {
	case <-held.Lost():
		t.Errorf("the holder that lives lost it: %v", held.Loss().Err)
	default:
	}
	_ = held.Release(context.Background())
}
