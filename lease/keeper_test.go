package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/test/sim"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// process is a simulated process: a Keeper with its own clock and its own link to the store.
type process struct {
	*lease.Keeper
	link  *sim.Link
	clock clock.Clock
}

func newProcess(t *testing.T, b *memory.Backend, seed uint64) process {
	t.Helper()
	link := sim.NewLink(b.Store().Leases, seed)
	c := clock.Virtual{Start: time.Now().Add(-time.Hour), WallOffset: time.Duration(seed) * time.Minute}
	k, err := lease.NewKeeper(lease.Options{Store: link, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return process{k, link, c}
}

func (p process) acquire(t *testing.T, key lease.Key) *lease.Lease {
	t.Helper()
	l, err := p.Acquire(t.Context(), lease.Want{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Holds: promise 2.
func TestALeaseLastsForAsLongAsItIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		l := p.acquire(t, "k")
		time.Sleep(time.Hour)
		select {
		case <-l.Lost():
			t.Fatal(l.Loss().Err)
		default:
		}
		var held *lease.HeldError
		if _, err := q.Acquire(t.Context(), lease.Want{Key: "k"}); !errors.As(err, &held) {
			t.Fatalf("a second holder: %v", err)
		}
		if held.Record.Owner != l.Ref().Owner {
			t.Errorf("the error names %v", held.Record)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m := q.acquire(t, "k"); m.Token() <= l.Token() {
			t.Errorf("token %d after %d", m.Token(), l.Token())
		}
	})
}

// Rule L2 and promise 3: silence stops the work before the store can grant the key elsewhere.
// Holds: promise 3, L2.
func TestSilenceStopsTheWorkBeforeTheLeaseCanExpireElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		m := p.Margin()
		var told, overran, granted time.Time
		var cut time.Time
		over := make(chan time.Time, 1)
		guard := lease.Guard{Keeper: p.Keeper, OnOverrun: func(*lease.Lease) { over <- time.Now() }}
		done := make(chan error)
		go func() {
			done <- guard.Run(t.Context(), lease.Want{Key: "k"}, func(ctx context.Context, _ *lease.Lease) error {
				time.Sleep(20 * time.Second) // renewed meanwhile
				p.link.Cut(true)
				cut = time.Now()
				<-ctx.Done()
				told = time.Now()
				if !errors.Is(context.Cause(ctx), lease.ErrLost) {
					t.Errorf("cause: %v", context.Cause(ctx))
				}
				time.Sleep(time.Minute) // does not listen
				return nil
			})
		}()
		time.Sleep(time.Second)
		l, err := q.Acquire(t.Context(), lease.Want{Key: "k", Wait: -1})
		if err != nil {
			t.Fatal(err)
		}
		granted = time.Now()
		if err := <-done; !errors.Is(err, lease.ErrLost) {
			t.Errorf("the work ended with %v", err)
		}
		if early := told.Sub(cut); early < m.Outage()-m.Heartbeat || early > m.TermAfter() {
			t.Errorf("told to stop %s after the cut; outage %s, term %s", early, m.Outage(), m.TermAfter())
		}
		if overran = <-over; !overran.Before(granted) {
			t.Errorf("overrun at %s, granted at %s", overran, granted)
		}
		if d := overran.Sub(told); d < m.LostGrace-100*time.Millisecond || d > m.LostGrace+m.Kill {
			t.Errorf("grace was %s", d)
		}
		_ = l.Release(t.Context())
	})
}

// An outage that is shorter than the margin promises touches nothing.
func TestAShortOutageIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.New(memory.Options{}), 1)
		l := p.acquire(t, "k")
		for range 20 {
			time.Sleep(7 * time.Second)
			p.link.Cut(true)
			time.Sleep(p.Margin().Outage() - p.Margin().Heartbeat - 200*time.Millisecond)
			p.link.Cut(false)
		}
		select {
		case <-l.Lost():
			t.Fatal(l.Loss().Err)
		default:
		}
	})
}

// Rule L5: a broken holder stops within its margin, and nobody is granted before.
// Holds: promise 5, L5.
func TestABreakLetsTheHolderStopFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		l := p.acquire(t, "k")
		if _, _, ok, err := q.Break(t.Context(), lease.Ref{Key: "k"}, lease.Broken{By: "ann", Why: "hangs"}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if _, err := q.Acquire(t.Context(), lease.Want{Key: "k"}); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("granted while the holder had not stopped: %v", err)
		}
		start := time.Now()
		<-l.Lost()
		if d := time.Since(start); d > p.Margin().Heartbeat+p.Margin().RPCTimeout {
			t.Errorf("the holder learnt of it after %s", d)
		}
		if loss := l.Loss(); !strings.Contains(loss.Err.Error(), "broken by ann: hangs") || loss.Kill <= p.clock.Boot() {
			t.Errorf("loss %+v at %s", loss, p.clock.Boot())
		}
		_ = l.Release(t.Context())
		q.acquire(t, "k")
	})
}

// Rule L2: after a refusal there is no margin left to use.
// Holds: L2.
func TestARefusalKillsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		l := p.acquire(t, "k")
		if _, _, ok, err := q.Break(t.Context(), lease.Ref{Key: "k"}, lease.Broken{By: "ann", Why: "dead", Now: true}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		q.acquire(t, "k")
		<-l.Lost()
		if loss := l.Loss(); loss.Kill != 0 {
			t.Errorf("loss %+v", loss)
		}
	})
}

// Rule L4: one round trip per 500 leases and heartbeat, whatever their number.
// Holds: promise 2, L4.
func TestHeartbeatsAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.New(memory.Options{}), 1)
		p.link.Latency = 10 * time.Millisecond
		var wg sync.WaitGroup
		for i := range 1200 {
			wg.Go(func() { p.acquire(t, lease.Key(fmt.Sprint("k", i))) })
		}
		wg.Wait()
		if n := p.link.Calls("acquire"); n > 10 {
			t.Errorf("%d round trips for 1200 concurrent acquires", n)
		}
		time.Sleep(10*p.Margin().Heartbeat + 50*time.Millisecond)
		if n := p.link.Calls("renew"); n < 27 || n > 30 {
			t.Errorf("%d renewals in ten heartbeats of 1200 leases; want 3 per heartbeat", n)
		}
	})
}

// Rule L1: an acquire whose answer was lost is settled by reading back, and never forgotten.
// Holds: L1.
func TestAnUnansweredAcquireIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := 0
		for seed := range uint64(200) {
			b := memory.New(memory.Options{})
			p := newProcess(t, b, seed)
			if err := p.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.link.Loss = 0.4
			l, err := p.Acquire(t.Context(), lease.Want{Key: "k"})
			p.link.Loss = 0
			if err != nil {
				if !errors.Is(err, lease.ErrUnavailable) {
					t.Fatalf("seed %d: %v", seed, err)
				}
				continue
			}
			got++
			if _, r, err := p.Read(t.Context(), "k"); err != nil || r.Owner != l.Ref().Owner {
				t.Fatalf("seed %d: the Keeper holds what the store gave to %v (%v)", seed, r, err)
			}
			_ = l.Release(t.Context())
		}
		if got < 80 {
			t.Errorf("only %d of 200 acquires were settled in our favour", got)
		}
	})
}

// One stalled request costs its timeout and no more; a store that stays silent is told of.
func TestAStallOfTheStoreIsSurvivedByAnAcquire(t *testing.T) {
	for _, c := range []struct {
		stall time.Duration
		want  error
	}{{time.Second, nil}, {time.Hour, lease.ErrUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			p := newProcess(t, memory.New(memory.Options{}), 1)
			if err := p.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.link.Cut(true)
			time.AfterFunc(c.stall, func() { p.link.Cut(false) })
			start := time.Now()
			if _, err := p.Acquire(t.Context(), lease.Want{Key: "k"}); !errors.Is(err, c.want) {
				t.Errorf("after a stall of %s: %v, want %v", c.stall, err, c.want)
			}
			if d := time.Since(start); d > 2*p.Margin().RPCTimeout+p.Margin().RPCTimeout/2 {
				t.Errorf("it took %s", d)
			}
		})
	}
}

// One who waits outlives silences that are apart: what is granted later is as good as any.
func TestAWaitOutlivesShortSilences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		holder, waiter := newProcess(t, b, 1), newProcess(t, b, 2)
		held := holder.acquire(t, "k")
		time.AfterFunc(90*time.Second, func() { _ = held.Release(context.Background()) })
		for _, after := range []time.Duration{10 * time.Second, 30 * time.Second, 50 * time.Second} {
			time.AfterFunc(after, func() { waiter.link.Cut(true) })
			time.AfterFunc(after+time.Second, func() { waiter.link.Cut(false) })
		}
		l, err := waiter.Acquire(t.Context(), lease.Want{Key: "k", Wait: -1})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-l.Lost():
			t.Errorf("it was granted and lost: %v", l.Loss().Err)
		case <-time.After(waiter.Margin().Heartbeat / 2):
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// slowCommit is a store whose first acquire is answered by nobody and seen by no read until it is
// asked again: its commit was under way.
type slowCommit struct {
	lease.Store
	asked int
}

func (s *slowCommit) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	r, err := s.Store.Acquire(context.WithoutCancel(ctx), reqs)
	if s.asked++; s.asked > 1 {
		return r, err
	}
	<-ctx.Done()
	return lease.Reply{}, ctx.Err()
}

func (s *slowCommit) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	r, err := s.Store.Read(ctx, keys)
	if s.asked == 1 {
		for i := range r.Answers {
			r.Answers[i] = lease.Answer{Status: lease.Gone}
		}
	}
	return r, err
}

// Rule L4: a grant that was asked for twice counts from the first request, whose grant it is.
// Holds: L4.
func TestAGrantThatWasAskedForTwiceCountsFromTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Virtual{Start: time.Now().Add(-time.Hour)}
		k, err := lease.NewKeeper(lease.Options{Store: &slowCommit{Store: memory.New(memory.Options{}).Store().Leases}, Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		asked := c.Boot()
		l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if safe := l.SafeUntil(); safe > asked+k.Margin().Safe() {
			t.Errorf("it counts as safe for %s from the first request, and %s is certain", safe-asked, k.Margin().Safe())
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A silence says nothing about a later grant: what is granted after a hold-back counts from its own request.
// Holds: promise 1.
func TestAGrantAfterASilenceAndAHoldBackIsAWholeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.New(memory.Options{HoldBack: true}), 1)
		if err := p.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.link.Cut(true)
		time.AfterFunc(time.Second, func() { p.link.Cut(false) })
		l, err := p.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		if left := l.SafeUntil() - p.clock.Boot(); left < p.Margin().Safe()-time.Second {
			t.Errorf("it was granted just now, and is safe for %s more", left)
		}
		worked := false
		guard := lease.Guard{Keeper: p.Keeper}
		if err := guard.Hold(t.Context(), l, func(context.Context, *lease.Lease) error { worked = true; return nil }); err != nil || !worked {
			t.Errorf("worked: %t, %v", worked, err)
		}
		_ = l.Release(t.Context())
	})
}

// jumpy is a boot clock that a suspend moves and timers do not follow, and the store's clock beside it.
type jumpy struct {
	clock.Virtual
	asleep *atomic.Int64
}

func (c jumpy) Boot() time.Duration   { return c.Virtual.Boot() + time.Duration(c.asleep.Load()) }
func (c jumpy) store() time.Time      { return time.Now().Add(time.Duration(c.asleep.Load())) }
func (c jumpy) sleep(d time.Duration) { c.asleep.Add(int64(d)) }

// suspended is a store on the way of whose first grant the asking machine sleeps.
type suspended struct {
	lease.Store
	sleep func()
}

func (s *suspended) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	r, err := s.Store.Acquire(ctx, reqs)
	if s.sleep != nil {
		s.sleep()
		s.sleep = nil
	}
	return r, err
}

// A lease that grew old before it could be handed out is renewed first, or had anew: nobody begins work under
// one that is as good as lost.
// Holds: promise 1.
func TestALeaseThatGrewOldOnTheWayIsMadeNew(t *testing.T) {
	for _, asleep := range []time.Duration{7 * time.Second, 12 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := jumpy{clock.Virtual{Start: time.Now().Add(-time.Hour)}, new(atomic.Int64)}
			b := memory.New(memory.Options{Clock: c.store})
			k, err := lease.NewKeeper(lease.Options{Clock: c,
				Store: &suspended{b.Store().Leases, func() { c.sleep(asleep) }}})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
			if err != nil {
				t.Fatal(asleep, err)
			}
			if left := l.SafeUntil() - c.Boot(); left < k.Margin().Safe()-time.Second {
				t.Errorf("after %s asleep it was handed out with %s left", asleep, left)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(asleep, err)
			}
		})
	}
}

// behind is the address of a store behind which the server changes.
type behind struct {
	lease.Store // not asked
	now         *atomic.Pointer[lease.Store]
}

func (s behind) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	return (*s.now.Load()).Acquire(ctx, reqs)
}

func (s behind) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	return (*s.now.Load()).Renew(ctx, reqs)
}

func (s behind) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	return (*s.now.Load()).Release(ctx, refs)
}

func (s behind) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	return (*s.now.Load()).Read(ctx, keys)
}

func (s behind) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	return (*s.now.Load()).List(ctx, prefix, all)
}

func (s behind) Trim(ctx context.Context, keys []lease.Key) error {
	return (*s.now.Load()).Trim(ctx, keys)
}

// Rule L9: clients that were on a promoted replica are pointed back to the old primary, which knows nothing of the
// replica's leases and has no reason to doubt itself. Its clients tell it.
// Holds: promise 1, L9.
func TestAFailBackToAnOldPrimaryIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		address := behind{now: new(atomic.Pointer[lease.Store])}
		failTo := func(b *memory.Backend) { s := b.Store().Leases; address.now.Store(&s) }
		primary := memory.New(memory.Options{})
		failTo(primary)
		var all []process
		for seed := range uint64(2) {
			link := sim.NewLink(address, seed)
			c := clock.Virtual{Start: time.Now().Add(-time.Hour)}
			k, err := lease.NewKeeper(lease.Options{Store: link, Clock: c})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(k.Close)
			all = append(all, process{k, link, c})
		}
		holder, waiter := all[0], all[1]
		_ = holder.acquire(t, "before").Release(t.Context())
		time.Sleep(time.Second)

		failTo(memory.New(memory.Options{HoldBack: true}))
		held := holder.acquire(t, "k")
		if _, err := waiter.Acquire(t.Context(), lease.Want{Key: "k"}); !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)

		failTo(primary)
		back := time.Now()
		l := waiter.acquire(t, "k")
		if d := time.Since(back); d < waiter.Margin().TTL {
			t.Errorf("the old primary granted the key %s after it was back", d)
		}
		select {
		case <-held.Lost():
		default:
			t.Error("two hold the key")
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Two holders never work at once, under every fault that the network has: nobody works while another does.
// Holds: promises 1, 4.
func TestNoTwoWorkAtOnceUnderFaults(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { faults(t, seed) })
	}
}

func faults(t *testing.T, seed uint64) {
	b := memory.New(memory.Options{})
	var (
		mu      sync.Mutex
		working int
		last    lease.Token
		grants  int
	)
	enter := func(l *lease.Lease) {
		mu.Lock()
		defer mu.Unlock()
		if working++; working > 1 {
			t.Errorf("seed %d: %d at work at once", seed, working)
		}
		if l.Token() <= last {
			t.Errorf("seed %d: token %d after %d", seed, l.Token(), last)
		}
		last = l.Token()
		grants++
	}
	leave := func() { mu.Lock(); working--; mu.Unlock() }
	end := time.Now().Add(10 * time.Minute)
	var wg sync.WaitGroup
	for i := range uint64(4) {
		p := newProcess(t, b, seed*10+i)
		p.link.Latency, p.link.Loss = 500*time.Millisecond, 0.05
		rng := rand.New(rand.NewPCG(seed, i))
		wg.Go(func() { // the network
			for time.Now().Before(end) {
				time.Sleep(time.Duration(rng.Int64N(int64(30 * time.Second))))
				p.link.Cut(rng.IntN(2) == 0)
			}
			p.link.Cut(false)
		})
		wg.Go(func() { // the process
			r := rand.New(rand.NewPCG(seed, i+100))
			guard := lease.Guard{Keeper: p.Keeper, OnOverrun: func(*lease.Lease) { t.Errorf("seed %d: overrun", seed) }}
			for time.Now().Before(end) {
				err := guard.Run(t.Context(), lease.Want{Key: "k", Wait: 20 * time.Second}, func(ctx context.Context, l *lease.Lease) error {
					enter(l)
					defer leave()
					select {
					case <-time.After(time.Duration(r.Int64N(int64(time.Minute)))):
					case <-ctx.Done(): // stops when it is told to, within the grace
						time.Sleep(time.Duration(r.Int64N(int64(p.Margin().LostGrace))))
					}
					return nil
				})
				if err != nil {
					time.Sleep(time.Second)
				}
			}
		})
	}
	wg.Wait()
	if grants < 5 {
		t.Errorf("seed %d: only %d grants in ten minutes", seed, grants)
	}
}

// Holds: promise 25.
func TestAMarginThatDoesNotHoldIsRefusedWithItsNumbers(t *testing.T) {
	m := lease.MarginFor(lease.DefaultTTL)
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	if m.Outage() != 6850*time.Millisecond {
		t.Errorf("survivable outage %s, want 6.85s (rule L3)", m.Outage())
	}
	if m.Survives() != 4850*time.Millisecond {
		t.Errorf("survivable outage, counted from its start, %s, want 4.85s (rule L3)", m.Survives())
	}
	m.LostGrace = 8 * time.Second
	_, err := lease.NewKeeper(lease.Options{Store: memory.New(memory.Options{}).Store().Leases, Margin: m})
	if !errors.Is(err, lease.ErrMargin) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"ttl 15s", "lost grace 8s", "17.15s"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	for ttl := time.Second; ttl < 5*time.Minute; ttl = ttl * 3 / 2 {
		if err := lease.MarginFor(ttl).Check(); err != nil {
			t.Errorf("the default margin for %s: %v", ttl, err)
		}
	}
}

// Rule L9 is neither "held" nor "down": it is waited out.
// Holds: L9.
func TestAHeldBackStoreIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.New(memory.Options{HoldBack: true}), 1)
		start, heard := time.Now(), make(chan time.Duration, 1)
		l, err := p.Acquire(t.Context(), lease.Want{Key: "k", OnHeldBack: func(d time.Duration) { heard <- d }})
		if err != nil {
			t.Fatal(err)
		}
		if d, said := time.Since(start), <-heard; d < 15*time.Second || d > 16*time.Second || said < 14*time.Second {
			t.Errorf("granted after %s; it was said to take %s", d, said)
		}
		_ = l.Release(t.Context())
	})
}

// A lease never waits for its listeners.
// Holds: promise 27.
func TestNobodyWaitsForAListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{HoldBack: true})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		goOn := make(chan struct{})
		begun := time.Now()
		l, err := p.Acquire(t.Context(), lease.Want{Key: "k", OnHeldBack: func(time.Duration) { <-goOn }})
		if took := time.Since(begun); err != nil || took > 16*time.Second {
			t.Fatalf("after %s: %v", took, err)
		}
		guard := lease.Guard{Keeper: p.Keeper, OnOverrun: func(*lease.Lease) { <-goOn }}
		done := make(chan error, 1)
		go func() {
			done <- guard.Hold(t.Context(), l, func(ctx context.Context, _ *lease.Lease) error {
				<-ctx.Done()
				time.Sleep(time.Minute) // does not listen
				return nil
			})
		}()
		time.Sleep(time.Minute)
		p.link.Cut(true)
		l, err = q.Acquire(t.Context(), lease.Want{Key: "k", Wait: -1, OnHeld: func(*lease.HeldError) { <-goOn }})
		if took := time.Since(begun); err != nil || took > 2*time.Minute {
			t.Fatalf("after %s: %v", took, err)
		}
		if err := <-done; !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
		if took := time.Since(begun); took > 3*time.Minute {
			t.Errorf("the work ended after two minutes, and this was heard of after %s", took)
		}
		close(goOn)
		_ = l.Release(t.Context())
	})
}

// muteNotifier is that of a store which went silent between an answer and the next question.
type muteNotifier struct{}

func (muteNotifier) Watch(ctx context.Context, _ lease.Key) (<-chan struct{}, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestAWaitIsBoundedAlsoWhereNotificationHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		holder := newProcess(t, b, 1)
		l := holder.acquire(t, "k")
		k, err := lease.NewKeeper(lease.Options{Store: b.Store().Leases, Notify: muteNotifier{}, Clock: holder.clock})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		for _, wait := range []time.Duration{time.Second, 10 * time.Second} {
			start := time.Now()
			_, err := k.Acquire(t.Context(), lease.Want{Key: "k", Wait: wait})
			if took := time.Since(start); !errors.Is(err, lease.ErrHeld) || took < wait || took > wait+time.Second {
				t.Errorf("waiting %s for a held lease: %v after %s", wait, err, took)
			}
		}
		_ = l.Release(t.Context())
	})
}

// Rule T5: a holder that died costs at most one TTL; one that lives is proven to by its renewal.
// Holds: promise 6, T5.
func TestProveTellsADeadHolderFromALiveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		p.acquire(t, "k")
		time.Sleep(10 * time.Second)
		start := time.Now()
		if _, err := q.Acquire(t.Context(), lease.Want{Key: "k", Prove: true}); !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		if d := time.Since(start); d > p.Margin().Heartbeat+time.Second {
			t.Errorf("a live holder was proven after %s", d)
		}
		p.link.Cut(true) // as good as dead
		start = time.Now()
		l, err := q.Acquire(t.Context(), lease.Want{Key: "k", Prove: true})
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > p.Margin().TTL+time.Second {
			t.Errorf("a dead holder cost %s", d)
		}
		_ = l.Release(t.Context())
	})
}
