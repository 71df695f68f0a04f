package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// A far store is one whose messages take their time, up to it and back. It notes by when each request had to be there,
// counted from the instant at which it was sent; negative: it had no bound.
type far struct {
	lease.Store
	up, down time.Duration

	mu     sync.Mutex
	bounds map[string][]time.Duration
}

func (s *far) way(what string, notAfter time.Time, carryOut func() (lease.Reply, error)) (lease.Reply, error) {
	s.mu.Lock()
	bound := time.Duration(-1)
	if !notAfter.IsZero() {
		bound = max(time.Until(notAfter), 0)
	}
	s.bounds[what] = append(s.bounds[what], bound)
	s.mu.Unlock()
	time.Sleep(s.up)
	r, err := carryOut()
	time.Sleep(s.down)
	return r, err
}

func (s *far) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	return s.way("read", time.Time{}, func() (lease.Reply, error) { return s.Store.Read(ctx, keys) })
}

func (s *far) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	return s.way("acquire", reqs[0].NotAfter, func() (lease.Reply, error) { return s.Store.Acquire(ctx, reqs) })
}

func (s *far) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	return s.way("renew", reqs[0].NotAfter, func() (lease.Reply, error) { return s.Store.Renew(ctx, reqs) })
}

// over is a Keeper over a store in memory, through s.
func (s *far) over(t *testing.T, up, down time.Duration) (*lease.Keeper, clock.Virtual) {
	t.Helper()
	s.Store, s.up, s.down, s.bounds = memory.New(memory.Options{}).Store().Leases, up, down, map[string][]time.Duration{}
	c := clock.Virtual{Start: time.Now().Add(-time.Hour)}
	k, err := lease.NewKeeper(lease.Options{Store: s, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k, c
}

// Wherever a request spends its time, on the way there or back.
var ways = []struct{ up, down time.Duration }{{0, 0}, {1500 * time.Millisecond, 0}, {0, 1500 * time.Millisecond}}

// A request for a lease, or for more of it, says by when it must be carried out: one rpc timeout after it was sent, by
// the store's clock as early as that can be.
// Holds: L1.
func TestWhateverAsksForALeaseIsBounded(t *testing.T) {
	for _, way := range ways {
		synctest.Test(t, func(t *testing.T) {
			s := new(far)
			k, _ := s.over(t, way.up, way.down)
			l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * k.Margin().Heartbeat)
			if err := l.BusyFor(time.Second); err != nil {
				t.Error(err)
			}
			_ = l.Release(t.Context())
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, what := range []string{"acquire", "renew"} {
				if len(s.bounds[what]) == 0 {
					t.Errorf("no %s was sent", what)
				}
				for _, bound := range s.bounds[what] {
					if bound < 0 || bound > k.Margin().RPCTimeout {
						t.Errorf("%s up, %s down: an %s was good for %s; want at most %s", way.up, way.down, what, bound, k.Margin().RPCTimeout)
					}
				}
			}
		})
	}
}

// A holder never counts on more than what the store has granted, less what the clocks may drift.
// Holds: L4.
func TestAHolderCountsFromTheSending(t *testing.T) {
	for _, way := range ways {
		synctest.Test(t, func(t *testing.T) {
			s := new(far)
			k, c := s.over(t, way.up, way.down)
			l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			m := k.Margin()
			for range 200 {
				safe := l.SafeUntil() - c.Boot() // before the look: a renewal may come between them
				r, err := s.Store.Read(t.Context(), []lease.Key{"k"})
				if err != nil {
					t.Fatal(err)
				}
				granted := r.Answers[0].Record.Expires.Sub(r.Now) - time.Duration(m.Rho*float64(m.TTL))
				if safe > granted {
					t.Fatalf("%s up, %s down: it counts on %s, and %s is certain", way.up, way.down, safe, granted)
				}
				time.Sleep(100 * time.Millisecond)
			}
			_ = l.Release(t.Context())
		})
	}
}

// Rule L2: a refusal that comes when the work is being stopped with grace, after a silence, ends the grace.
// Holds: L2.
func TestARefusalAfterASilenceEndsTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		l := p.acquire(t, "k")
		p.link.Cut(true)
		<-l.Lost()
		if l.Loss().Kill == 0 {
			t.Fatal("a silence leaves no grace")
		}
		if _, _, ok, err := q.Break(t.Context(), lease.Ref{Key: "k"}, lease.Broken{By: "ann", Why: "dead", Now: true}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		p.link.Cut(false)
		time.Sleep(p.Margin().Heartbeat + time.Second)
		if left := l.Loss().Kill; left != 0 {
			t.Errorf("the work may go on until %s", left)
		}
		l.Drop()
	})
}

// Rule L2: work that overruns such a grace is told to have overrun at the refusal, not at the end that it had before.
// Holds: L2.
func TestARefusalBringsTheOverrunForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		l := p.acquire(t, "k")
		end, overrun := make(chan struct{}), make(chan time.Duration, 1)
		g := lease.Guard{Keeper: p.Keeper, OnOverrun: func(*lease.Lease) { overrun <- p.clock.Boot() }}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = g.Hold(t.Context(), l, func(context.Context, *lease.Lease) error { <-end; return nil })
		}()
		p.link.Cut(true)
		<-l.Lost()
		before := l.Loss().Kill
		if _, _, ok, err := q.Break(t.Context(), lease.Ref{Key: "k"}, lease.Broken{By: "ann", Why: "dead", Now: true}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		p.link.Cut(false)
		if at := <-overrun; at > before-time.Second {
			t.Errorf("it is told %s before the end of the grace that a refusal ended", before-at)
		}
		close(end)
		<-ended
	})
}

// Rule L2: a lease that lapsed before its renewal came may be anybody's: nothing of its margin is left.
// Holds: L2.
func TestALapseThatIsToldLeavesNoMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		b := memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		p := newProcess(t, b, 1)
		l := p.acquire(t, "k")
		time.Sleep(3 * time.Second)
		ahead.Store(int64(time.Minute)) // the store's clock jumps past the lease, and nobody has it
		<-l.Lost()
		if loss := l.Loss(); loss.Kill != 0 || !errors.Is(loss.Err, lease.ErrLost) {
			t.Errorf("the work may go on until %s: %v", loss.Kill, loss.Err)
		}
		l.Drop()
	})
}

// Rule L9: the time for which a store holds back is nobody's waiting.
// Holds: L9.
func TestAHoldBackLeavesTheWait(t *testing.T) {
	for range 20 { // both wake at one instant, and half of the times the other one is second
		synctest.Test(t, func(t *testing.T) {
			b := memory.New(memory.Options{HoldBack: true})
			first, second := newProcess(t, b, 1), newProcess(t, b, 2)
			const work = 10 * time.Second
			var others sync.WaitGroup
			others.Go(func() { // it is held back as well, and then holds the key for longer than a heartbeat
				l, err := first.Acquire(t.Context(), lease.Want{Key: "k", Wait: -1})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(work)
				_ = l.Release(t.Context())
			})
			time.Sleep(100 * time.Millisecond)
			l, err := second.Acquire(t.Context(), lease.Want{Key: "k", Wait: work + 2*time.Second})
			if err != nil {
				t.Fatalf("it gave up, although it would have waited for %s more: %v", work, err)
			}
			_ = l.Release(t.Context())
			others.Wait()
		})
	}
}

// A process that was suspended past its deadline, and whose work has ended meanwhile, knows of the loss at once: no
// timer has fired in it, and no heartbeat was sent.
func TestWorkThatEndsInASuspendIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := jumpy{clock.Virtual{Start: time.Now().Add(-time.Hour)}, new(atomic.Int64)}
		b := memory.New(memory.Options{Clock: c.store})
		k, err := lease.NewKeeper(lease.Options{Clock: c, Store: b.Store().Leases})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		guard := lease.Guard{Keeper: k}
		err = guard.Hold(t.Context(), l, func(context.Context, *lease.Lease) error {
			c.sleep(time.Minute)
			return nil
		})
		if !errors.Is(err, lease.ErrLost) {
			t.Errorf("the work ended with %v, a minute after its last renewal", err)
		}
		l.Drop()
	})
}

// A key that is broken at once may be anybody's at once.
// Holds: L5.
func TestABreakAtOnceLeavesNoMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		l := p.acquire(t, "k")
		if _, _, ok, err := q.Break(t.Context(), lease.Ref{Key: "k"}, lease.Broken{By: "ann", Why: "a test", Now: true}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		<-l.Lost()
		if left := l.Loss().Kill; left != 0 {
			t.Errorf("the work may go on until %s", left)
		}
		l.Drop()
	})
}

// A holder whose request may be at work elsewhere is neither proven gone nor ended.
// Holds: L8.
func TestTheBusyAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		l := p.acquire(t, "k")
		if err := l.BusyFor(time.Minute); err != nil {
			t.Fatal(err)
		}
		_, err := q.Acquire(t.Context(), lease.Want{Key: "k", Gone: func(context.Context, lease.Record, func() bool) bool {
			t.Error("it was asked for, while a request may be at work")
			return false
		}})
		if !errors.Is(err, lease.ErrHeld) {
			t.Error(err)
		}
		_ = l.Release(t.Context())
	})
}

// changed is a store whose answers are changed on their way.
type changed struct {
	lease.Store
	acquire func(lease.Reply, error) (lease.Reply, error)
	renew   func(n int) time.Duration // how long the n-th answer takes
	trims   atomic.Int64
	renewed atomic.Int64
}

func (s *changed) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	if s.acquire == nil {
		return s.Store.Acquire(ctx, reqs)
	}
	return s.acquire(s.Store.Acquire(ctx, reqs))
}

func (s *changed) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	r, err := s.Store.Renew(ctx, reqs)
	if n := s.renewed.Add(1); s.renew != nil {
		time.Sleep(s.renew(int(n)))
	}
	return r, err
}

func (s *changed) Trim(ctx context.Context, keys []lease.Key) error {
	s.trims.Add(1)
	return s.Store.Trim(ctx, keys)
}

func keeperOver(t *testing.T, s lease.Store) *lease.Keeper {
	t.Helper()
	k, err := lease.NewKeeper(lease.Options{Store: s, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// What a holder counts on only moves forward, in whatever order its renewals are answered.
func TestAnOlderAnswerTakesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &changed{Store: memory.New(memory.Options{}).Store().Leases, renew: func(n int) time.Duration {
			if n == 2 {
				return 0
			}
			return 1500 * time.Millisecond
		}}
		k := keeperOver(t, s)
		l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(k.Margin().Heartbeat + time.Second) // the first renewal is on its way
		l.Check()                                      // and this one is answered before it
		last := l.SafeUntil()
		for range 20 {
			time.Sleep(50 * time.Millisecond)
			if now := l.SafeUntil(); now < last {
				t.Errorf("it counted on %s, and then on %s", last, now)
			}
			last = l.SafeUntil()
		}
		_ = l.Release(t.Context())
	})
}

// A client does not forget a newer epoch of the store for an older one.
// Holds: L9.
func TestAnOlderEpochIsNotTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		epoch := lease.Epoch(9)
		k := keeperOver(t, &changed{Store: memory.New(memory.Options{}).Store().Leases, acquire: func(r lease.Reply, err error) (lease.Reply, error) {
			r.Epoch = epoch
			return r, err
		}})
		for _, e := range []lease.Epoch{9, 4, 7} {
			epoch = e
			l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Release(t.Context())
			if got := k.Epoch(); got != 9 {
				t.Errorf("after the epoch %d the highest is %d", e, got)
			}
		}
	})
}

// Rule L12: by a clock that has not been watched for a minute nobody's hold is shortened.
// Holds: L12.
func TestAClockThatJustSteppedShortensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		ahead.Store(int64(time.Hour))
		b := memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		newProcess(t, b, 1).acquire(t, "k").Drop() // it dies, and its hold lasts until the clock has caught up
		ahead.Store(0)
		s := &changed{Store: b.Store().Leases}
		k := keeperOver(t, s)
		if _, err := k.Acquire(t.Context(), lease.Want{Key: "k", Wait: 30 * time.Second}); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("within half a minute: %v", err)
		}
		if n := s.trims.Load(); n != 0 {
			t.Errorf("it was shortened %d times", n)
		}
	})
}

// The result of an unanswered acquire is known only when it can no longer be carried out.
// Holds: L1.
func TestAnAcquireThatIsCarriedOutLaterIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{}).Store().Leases
		k := keeperOver(t, &later{Store: b})
		l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatalf("the store has granted it, and nobody has it: %v", err)
		}
		_ = l.Release(t.Context())
	})
}

// later is a store that carries out acquires a second after it has refused to answer them.
type later struct{ lease.Store }

func (s *later) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	time.AfterFunc(time.Second, func() { _, _ = s.Store.Acquire(context.WithoutCancel(ctx), reqs) })
	return lease.Reply{}, lease.ErrUnavailable
}

// deafToTrims is a store at which the first calls fail by which holds of the dead are shortened.
type deafToTrims struct {
	lease.Store
	lists, trims atomic.Int64 // how many of each are still to fail
}

func (s *deafToTrims) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	if s.lists.Add(-1) >= 0 {
		return lease.Reply{}, lease.ErrUnavailable
	}
	return s.Store.List(ctx, prefix, all)
}

func (s *deafToTrims) Trim(ctx context.Context, keys []lease.Key) error {
	if s.trims.Add(-1) >= 0 {
		return lease.ErrUnavailable
	}
	return s.Store.Trim(ctx, keys)
}

// Rule L12: a dead process's own key, for which nobody contends, is free soon after a clock that was fast, also where
// the first tries to shorten its hold fail.
// Holds: L12.
func TestAShorteningThatFailsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fast atomic.Int64
		b := memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(fast.Load())) }})
		s := &deafToTrims{Store: b.Store().Leases}
		s.lists.Store(2)
		s.trims.Store(1)
		fast.Store(int64(100 * 24 * time.Hour))
		dead := lease.OnceKey()
		if _, err := s.Acquire(t.Context(), []lease.AcquireRequest{{Key: dead, TTL: lease.DefaultTTL, Holder: lease.Holder{ID: lease.NewNonce()}}}); err != nil {
			t.Fatal(err)
		}
		fast.Store(0)
		k := keeperOver(t, s)
		l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4*lease.StepQuiet + 3*lease.DefaultTTL)
		r, err := s.Read(t.Context(), []lease.Key{dead})
		if err != nil || r.Answers[0].Record.Live(r.Now) {
			t.Errorf("it is live still: %+v, %v", r, err)
		}
		_ = l.Release(t.Context())
	})
}

// Rule L12: a hold that a clock wrote which was fast for a moment ends for those, too, who do not wait for it and
// whose Keeper never saw that.
// Holds: L12.
func TestWhoDoesNotWaitGetsTheLeaseOfAFastClock(t *testing.T) {
	for _, turn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var fast atomic.Int64
			b := memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(fast.Load())) }})
			st := b.Store().Leases
			k := keeperOver(t, st)
			l, err := k.Acquire(t.Context(), lease.Want{Key: "own"})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Release(t.Context())
			time.Sleep(2*lease.StepQuiet + 700*time.Millisecond) // no heartbeat goes out at that instant
			fast.Store(int64(2 * time.Hour))
			if _, err := st.Acquire(t.Context(), []lease.AcquireRequest{{Key: "k", TTL: lease.DefaultTTL, Holder: lease.Holder{ID: lease.NewNonce()}}}); err != nil {
				t.Fatal(err)
			}
			fast.Store(0)
			asks := func() bool {
				if turn {
					mine, err := k.Turn(t.Context(), lease.Want{Key: "k"}, time.Second)
					if err != nil {
						t.Fatal(err)
					}
					return mine
				}
				l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
				return err == nil && l.Release(t.Context()) == nil
			}
			begin := time.Now()
			for !asks() {
				if time.Since(begin) > 2*lease.DefaultTTL {
					t.Fatalf("turn %t: it is held still", turn)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// A mute store answers no release. It notes how long each one waited for it.
type mute struct {
	lease.Store
	waited chan time.Duration
}

func (s mute) Release(ctx context.Context, _ []lease.Ref) (lease.Reply, error) {
	began := time.Now()
	<-ctx.Done()
	s.waited <- time.Since(began)
	return lease.Reply{}, context.Cause(ctx)
}

// A request waits for its answer for one rpc timeout, or up to a twentieth less where another request was sent shortly
// before it; also after many, and after a pause.
func TestARequestIsBoundedAlsoBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mute{memory.New(memory.Options{}).Store().Leases, make(chan time.Duration, 100)}
		k, err := lease.NewKeeper(lease.Options{Store: s, Clock: clock.Virtual{Start: time.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		most := k.Margin().RPCTimeout
		for _, pause := range []time.Duration{0, most / 40, most / 20, most/20 + 1, most, 10 * most} {
			for i := range 5 { // each acquire is a request before it
				l, err := k.Acquire(t.Context(), lease.Want{Key: lease.Key(fmt.Sprint(pause, i))})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(pause)
				_ = l.Release(t.Context())
				if waited := <-s.waited; waited > most || waited < most-most/20 {
					t.Errorf("%s after the request before it, a release waited for %s, want %s", pause, waited, most)
				}
			}
		}
	})
}

// A slow store answers acquires one second after they came. It counts how many of them it has at once.
type slow struct {
	lease.Store
	now, most atomic.Int64
}

func (s *slow) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	time.Sleep(time.Second)
	return s.Store.Acquire(ctx, reqs)
}

type slowAndOverlapping struct{ *slow }

func (slowAndOverlapping) AcquiresAtOnce() int { return 2 }

// As many batches of acquires are under way as the store says it is worth; one where it says nothing.
func TestAcquiresOverlapWhereTheStoreSaysSo(t *testing.T) {
	for _, want := range []int64{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{Store: memory.New(memory.Options{}).Store().Leases}
			var store lease.Store = s
			if want == 2 {
				store = slowAndOverlapping{s}
			}
			k, err := lease.NewKeeper(lease.Options{Store: store, Clock: clock.Virtual{Start: time.Now()}})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			var all sync.WaitGroup
			for i := range 5 {
				all.Go(func() {
					if _, err := k.Acquire(t.Context(), lease.Want{Key: lease.Key(fmt.Sprint(i))}); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			all.Wait()
			if s.most.Load() != want {
				t.Errorf("%d batches of acquires were under way at once, want %d", s.most.Load(), want)
			}
		})
	}
}
