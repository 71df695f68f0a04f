package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// instant is a store that answers or fails without any delay, and counts what it is sent.
type instant struct {
	lease.Store
	mu    sync.Mutex
	fail  func([]lease.RenewRequest) error
	calls int
	items map[lease.Key]int
}

func (s *instant) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	s.mu.Lock()
	s.calls++
	for _, r := range reqs {
		s.items[r.Key]++
	}
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		if err := fail(reqs); err != nil {
			return lease.Reply{}, err
		}
	}
	return s.Store.Renew(ctx, reqs)
}

// failing sets how renewals fail from now on, and forgets what was counted.
func (s *instant) failing(f func([]lease.RenewRequest) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.calls, s.items = f, 0, map[lease.Key]int{}
}

func (s *instant) count(k lease.Key) (calls, items int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls, s.items[k]
}

// newInstant is a Keeper of n leases, key 0 and so on, just after a heartbeat.
func newInstant(t *testing.T, n int) (*instant, *lease.Keeper, []*lease.Lease) {
	t.Helper()
	s := &instant{Store: memory.New(memory.Options{}).Store().Leases}
	s.failing(nil)
	k, err := lease.NewKeeper(lease.Options{Store: s, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	all := make([]*lease.Lease, n)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			l, err := k.Acquire(t.Context(), lease.Want{Key: key(i)})
			if err != nil {
				t.Error(err)
			}
			all[i] = l
		})
	}
	if wg.Wait(); t.Failed() {
		t.FailNow()
	}
	time.Sleep(k.Margin().Heartbeat + k.Margin().Heartbeat/10)
	return s, k, all
}

func key(i int) lease.Key { return lease.Key(fmt.Sprintf("k%04d", i)) }

// A store that refuses connections fails at once: that is no reason to storm it.
func TestAStoreThatFailsAtOnceIsNotStormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k, all := newInstant(t, 1000) // two chunks
		s.failing(func([]lease.RenewRequest) error {
			return fmt.Errorf("%w: connection refused", lease.ErrUnavailable)
		})
		time.Sleep(3 * k.Margin().Heartbeat)
		if n, _ := s.count(key(0)); n < 3*2 || n > 3*2*4 {
			t.Errorf("%d renewals in three heartbeats of 1000 leases; want at most four times two per heartbeat", n)
		}
		s.failing(nil)
		time.Sleep(k.Margin().Heartbeat / 2)
		if n, _ := s.count(key(0)); n != 2 {
			t.Errorf("%d renewals once it answered again; want two", n)
		}
		for _, l := range all {
			if loss := l.Loss(); loss.Err != nil {
				t.Fatal(loss.Err)
			}
		}
	})
}

// Rule L4: one item that the store chokes on costs itself only, and few requests.
// Holds: L4.
func TestAnItemThatTheStoreChokesOnCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k, all := newInstant(t, 500)
		s.failing(func(reqs []lease.RenewRequest) error {
			for _, r := range reqs {
				if r.Key == key(123) {
					return errors.New("bad item")
				}
			}
			return nil
		})
		time.Sleep(10 * k.Margin().Heartbeat)
		calls, items := s.count(key(123))
		if calls > 10*20 || items > 10*10 {
			t.Errorf("%d renewals in ten heartbeats, %d of them with the bad item; want at most 20 and 10 per heartbeat", calls, items)
		}
		for i, l := range all {
			if lost := l.Loss().Err != nil; lost != (i == 123) {
				t.Errorf("%s: lost %v: %v", l.Key(), lost, l.Loss().Err)
			}
		}
	})
}

// A chunk that the store refuses, and takes its time for, is sent again in halves for one rpc timeout, and no longer:
// the others wait for their next heartbeat.
// Holds: L4.
func TestASlowRefusalHoldsUpNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k, all := newInstant(t, 1000) // two chunks
		slow := k.Margin().RPCTimeout / 4
		s.failing(func(reqs []lease.RenewRequest) error {
			if reqs[0].Key >= key(500) {
				return nil
			}
			time.Sleep(slow)
			return errors.New("bad item")
		})
		time.Sleep(time.Minute)
		for _, l := range all[500:] {
			if err := l.Loss().Err; err != nil {
				t.Fatalf("%s: %v", l.Key(), err)
			}
		}
		s.failing(nil)
		time.Sleep(time.Minute)
	})
}

// A lease that is refused stays so, and asking more often does not change it; nor does it hold up
// what is asked for the others.
func TestARefusedLeaseIsSentOncePerHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k, all := newInstant(t, 2)
		if _, _, ok, err := k.Break(t.Context(), all[0].Ref(), lease.Broken{By: "ann"}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		<-all[0].Lost()
		time.Sleep(k.Margin().Heartbeat / 10) // past the very instant of a heartbeat
		s.failing(nil)
		time.Sleep(4 * k.Margin().Heartbeat)
		if calls, items := s.count(key(0)); calls != 4 || items != 4 {
			t.Errorf("%d renewals in four heartbeats, %d of them of the refused lease", calls, items)
		}
		s.failing(func(reqs []lease.RenewRequest) error {
			if reqs[len(reqs)-1].Key == key(1) {
				return fmt.Errorf("%w: connection refused", lease.ErrUnavailable)
			}
			return nil
		})
		time.Sleep(3 * k.Margin().Heartbeat)
		_, refused := s.count(key(0))
		_, unanswered := s.count(key(1))
		if refused != 3 || unanswered < 9 {
			t.Errorf("in three heartbeats the refused lease was sent %d times and the unanswered one %d times", refused, unanswered)
		}
	})
}
