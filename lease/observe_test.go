package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/test/sim"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/store/memory"
)

// An observer hears of each grant, with how long it was asked for, of each request, answered or not, and of a loss,
// once.
func TestAKeeperIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := sim.NewLink(memory.New(memory.Options{}).Store().Leases, 1)
		link.Latency = 20 * time.Millisecond
		var mu sync.Mutex
		var all []observe.Event
		keeper := func(o observe.Func) *lease.Keeper {
			k, err := lease.NewKeeper(lease.Options{Store: link, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}, Observe: o})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(k.Close)
			return k
		}
		k := keeper(func(e observe.Event) { mu.Lock(); all = append(all, e); mu.Unlock() })
		heard := func(what ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			var got []string
			for _, e := range all {
				got = append(got, fmt.Sprint(e.On, e.Of, e.Name, e.Outcome))
				if e.Of == observe.Request && e.Took <= 0 || e.Of == observe.Lease && e.Wait <= 0 {
					t.Errorf("it took no time: %+v", e)
				}
			}
			if !slices.Equal(got, what) {
				t.Errorf("heard %q, want %q", got, what)
			}
			all = nil
		}
		asked := func(name string) string { return fmt.Sprint(observe.Ended, observe.Request, name, "succeeded") }
		l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		heard(asked("acquire"), fmt.Sprint(observe.Started, observe.Lease, "k", ""))
		if _, err := k.Acquire(t.Context(), lease.Want{Key: "k"}); !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		heard(asked("acquire")) // the store answered, and nothing was granted
		time.Sleep(k.Margin().Heartbeat + time.Second)
		heard(asked("renew"))
		link.Cut(true)
		<-l.Lost()
		synctest.Wait()
		mu.Lock()
		lost, failed := 0, 0
		for _, e := range all {
			if e.On == observe.Lost && e.Of == observe.Lease && e.Name == "k" && e.Reason != "" {
				lost++
			}
			if e.Name == "renew" && e.Outcome == "failed" && e.Reason != "" {
				failed++
			}
		}
		if lost != 1 || failed == 0 || lost+failed != len(all) {
			t.Errorf("%+v", all)
		}
		all = nil
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		if slices.ContainsFunc(all, func(e observe.Event) bool { return e.On == observe.Lost }) {
			t.Errorf("it was lost again: %+v", all)
		}
		all = nil
		mu.Unlock()
		link.Cut(false)
		// Work that has ended under a lease that another step releases loses nothing.
		l, err = k.Acquire(t.Context(), lease.Want{Key: "ending"})
		if err != nil {
			t.Fatal(err)
		}
		l.Ending()
		if _, err := link.Release(t.Context(), []lease.Ref{l.Ref()}); err != nil {
			t.Fatal(err)
		}
		<-l.Lost() // by the refusal of the next renewal
		l.Drop()
		synctest.Wait()
		mu.Lock()
		if slices.ContainsFunc(all, func(e observe.Event) bool { return e.On == observe.Lost }) {
			t.Errorf("a lease was lost at its end: %+v", all)
		}
		all = nil
		mu.Unlock()
		// What is waited for is part of the grant.
		other, err := keeper(nil).Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Second, func() { _ = other.Release(context.Background()) })
		if _, err := k.Acquire(t.Context(), lease.Want{Key: "k", Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if last := all[len(all)-1]; last.On != observe.Started || last.Wait < 10*time.Second || last.Wait > 20*time.Second {
			t.Errorf("%+v", all)
		}
	})
}
