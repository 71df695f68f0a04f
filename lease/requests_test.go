package lease_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// A recorder is a store that counts the requests of one Keeper and checks each of them: how long it may take, by when
// it must be carried out, and whether it may still be sent.
type recorder struct {
	lease.Store
	t *testing.T
	m lease.Margin

	mu    sync.Mutex
	calls map[string]int
	held  map[lease.Ref]time.Time // what was granted and neither released nor dropped, with the latest BusyUntil sent
	asked map[lease.Nonce]bool
	epoch lease.Epoch
	fail  func(what string) error // after it was carried out; nil: never
}

func newRecorder(t *testing.T, s lease.Store) (*recorder, *lease.Keeper) {
	t.Helper()
	r := &recorder{Store: s, t: t, calls: map[string]int{}, held: map[lease.Ref]time.Time{}, asked: map[lease.Nonce]bool{}}
	k := keeperOver(t, r)
	r.m = k.Margin()
	return r, k
}

// came checks what holds for every request. Call it with the mutex held.
func (r *recorder) came(ctx context.Context, what string, items int) {
	if r.calls[what]++; r.calls[what] > 100_000 {
		panic("a storm of requests: " + what) // in virtual time it would never end
	}
	if at, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(at) > r.m.RPCTimeout {
		r.t.Errorf("%s: its context ends in %s (%v), %v; want within %s", what, time.Until(at), ok, ctx.Err(), r.m.RPCTimeout)
	}
	if items < 1 || items > 500 {
		r.t.Errorf("%s of %d items", what, items)
	}
}

func (r *recorder) bounded(what string, notAfter time.Time) {
	if good := time.Until(notAfter); good <= 0 || good > r.m.RPCTimeout {
		r.t.Errorf("%s is good for %s, want up to %s", what, good, r.m.RPCTimeout)
	}
}

func (r *recorder) answer(what string, reply lease.Reply, err error) (lease.Reply, error) {
	if r.fail != nil {
		if failed := r.fail(what); failed != nil {
			return lease.Reply{}, failed
		}
	}
	return reply, err
}

func (r *recorder) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "acquire", len(reqs))
	keys := map[lease.Key]bool{}
	for _, q := range reqs {
		r.bounded("an acquire", q.NotAfter)
		if keys[q.Key] || q.Holder.ID == (lease.Nonce{}) || q.TTL != r.m.TTL || q.Seen != r.epoch {
			r.t.Errorf("an acquire of %q by %s, ttl %s, seen %d; twice %v", q.Key, q.Holder.ID, q.TTL, q.Seen, keys[q.Key])
		}
		keys[q.Key], r.asked[q.Holder.ID] = true, true
	}
	reply, err := r.Store.Acquire(ctx, reqs)
	for _, a := range reply.Answers {
		if a.Status == lease.OK {
			r.held[a.Record.Ref()] = time.Time{}
		}
	}
	if reply, err = r.answer("acquire", reply, err); err == nil {
		r.epoch = max(r.epoch, reply.Epoch)
	}
	return reply, err
}

func (r *recorder) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "renew", len(reqs))
	for i, q := range reqs {
		r.bounded("a renewal", q.NotAfter)
		if i > 0 && q.Key <= reqs[i-1].Key {
			r.t.Errorf("renewals are not in the order of their keys, or name one twice: %q after %q", q.Key, reqs[i-1].Key)
		}
		busy, ok := r.held[q.Ref]
		if !ok || q.TTL != r.m.TTL || q.BusyUntil.Before(busy) {
			r.t.Errorf("a renewal of %v, which is held: %v; ttl %s, busy until %s after %s", q.Ref, ok, q.TTL, q.BusyUntil, busy)
		}
		r.held[q.Ref] = q.BusyUntil
	}
	reply, err := r.Store.Renew(ctx, reqs)
	return r.answer("renew", reply, err)
}

func (r *recorder) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "release", len(refs))
	for _, ref := range refs {
		if _, ok := r.held[ref]; !ok {
			r.t.Errorf("a release of %v, which is not held", ref)
		}
		delete(r.held, ref)
	}
	reply, err := r.Store.Release(ctx, refs)
	return r.answer("release", reply, err)
}

func (r *recorder) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "read", max(len(keys), 1))
	reply, err := r.Store.Read(ctx, keys)
	return r.answer("read", reply, err)
}

func (r *recorder) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "list", 1)
	reply, err := r.Store.List(ctx, prefix, all)
	return r.answer("list", reply, err)
}

func (r *recorder) Trim(ctx context.Context, keys []lease.Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "trim", len(keys))
	return r.Store.Trim(ctx, keys)
}

// since returns how often each call came since the last time.
func (r *recorder) since() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = map[string]int{}
	return calls
}

func (r *recorder) failing(f func(what string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = f
}

// Each request of a Keeper is one that it may send, whatever answers are lost; and while nothing happens, there are
// renewals and nothing else.
// Holds: promise 2, L1, L4, L8, L9.
func TestEachRequestOfAKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, k := newRecorder(t, memory.New(memory.Options{}).Store().Leases)
		const n = 1100 // three chunks
		all := make([]*lease.Lease, n)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				var err error
				if all[i], err = k.Acquire(t.Context(), lease.Want{Key: key(i)}); err != nil {
					t.Error(err)
				}
			})
		}
		if wg.Wait(); t.Failed() {
			return
		}
		if len(r.asked) != n {
			t.Errorf("%d nonces for %d acquires", len(r.asked), n)
		}
		time.Sleep(k.Margin().Heartbeat / 4)
		r.since()
		time.Sleep(10 * k.Margin().Heartbeat)
		if calls := r.since(); !maps.Equal(calls, map[string]int{"renew": 30}) {
			t.Errorf("in ten heartbeats of %d leases: %v", n, calls)
		}
		for i, l := range all[:50] {
			wg.Go(func() {
				for range 3 { // the latest counts, and stays with every renewal
					if err := l.BusyFor(time.Duration(i) * time.Second); err != nil {
						t.Error(err)
					}
					time.Sleep(700 * time.Millisecond)
				}
			})
		}
		for round := range 20 {
			r.failing(func(what string) error {
				if round%2 == 0 || what == "release" {
					return nil
				}
				return fmt.Errorf("%w: the answer was lost", lease.ErrUnavailable)
			})
			for _, l := range all[50*round : 50*round+25] {
				wg.Go(func() { time.Sleep(3100 * time.Millisecond); _ = l.Release(t.Context()) })
			}
			time.Sleep(k.Margin().Heartbeat)
		}
		wg.Wait()
		r.failing(nil)
		time.Sleep(5 * k.Margin().Heartbeat)
		for _, l := range all {
			if err := l.Loss().Err; err != nil {
				t.Fatal(err)
			}
		}
		r.since()
		for i, l := range all {
			if i >= 1000 || i%50 >= 25 {
				wg.Go(func() { _ = l.Release(t.Context()) })
			}
		}
		wg.Wait()
		time.Sleep(10 * k.Margin().Heartbeat)
		if calls := r.since(); calls["renew"] > 0 {
			t.Errorf("after the last release: %v", calls)
		}
	})
}

// A notifier says what a test has it say, or closes its channels at once.
type notifier struct {
	mu     sync.Mutex
	closes bool
	watch  []context.Context
	speaks []chan struct{}
}

func (n *notifier) Watch(ctx context.Context, _ lease.Key) (<-chan struct{}, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := make(chan struct{}, 1)
	if n.closes {
		close(c)
	}
	n.watch, n.speaks = append(n.watch, ctx), append(n.speaks, c)
	return c, nil
}

// say has the first who watches hear that the key may be free.
func (n *notifier) say() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.speaks[0] <- struct{}{}
}

// An acquire that waits watches its key once, polls beside that, and leaves no watch behind. A channel that was closed
// is no storm of news.
// Holds: promise 26.
func TestAWaitWatchesOnce(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := memory.New(memory.Options{})
			held := newProcess(t, b, 1).acquire(t, "k")
			r, n := &recorder{Store: b.Store().Leases, t: t, calls: map[string]int{}, held: map[lease.Ref]time.Time{}, asked: map[lease.Nonce]bool{}}, &notifier{closes: closes}
			k, err := lease.NewKeeper(lease.Options{Store: r, Notify: n, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			r.m = k.Margin()
			const wait = time.Minute
			if _, err := k.Acquire(t.Context(), lease.Want{Key: "k", Wait: wait}); !errors.Is(err, lease.ErrHeld) {
				t.Fatal(err)
			}
			if calls := r.since(); calls["acquire"] < 100 || calls["acquire"] > 400 {
				t.Errorf("closed %v: while it waited for %s: %v", closes, wait, calls)
			}
			if len(n.watch) != 1 {
				t.Fatalf("closed %v: it watched %d times", closes, len(n.watch))
			}
			if synctest.Wait(); n.watch[0].Err() == nil {
				t.Errorf("closed %v: the watch goes on after the wait", closes)
			}
			_ = held.Release(t.Context())
		})
	}
}

// News that a key may be free is followed at once, each time that it comes.
func TestNewsOfAKeyIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p := newProcess(t, b, 1)
		held := p.acquire(t, "k")
		n := &notifier{}
		k, err := lease.NewKeeper(lease.Options{Store: b.Store().Leases, Notify: n, Clock: p.clock})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		got := make(chan time.Time, 1)
		go func() {
			l, err := k.Acquire(t.Context(), lease.Want{Key: "k", Wait: -1})
			if err != nil {
				t.Error(err)
				return
			}
			got <- time.Now()
			_ = l.Release(t.Context())
		}()
		time.Sleep(10 * time.Second)
		n.say() // which was wrong
		time.Sleep(time.Microsecond)
		_ = held.Release(t.Context())
		released := time.Now()
		n.say()
		if d := (<-got).Sub(released); d != 0 {
			t.Errorf("it was had %s after it was free", d)
		}
	})
}

// A wait ends exactly when it is over, and not before the key was looked at once more at that instant: a lease that
// lapses then is had.
// Holds: promise 6.
func TestAWaitLooksOnceMoreAtItsEnd(t *testing.T) {
	for _, c := range []struct {
		after time.Duration // the wait ends so much after the lapse
		want  error
	}{{-time.Millisecond, lease.ErrHeld}, {0, nil}, {time.Millisecond, nil}} {
		synctest.Test(t, func(t *testing.T) {
			b := memory.New(memory.Options{})
			p, q := newProcess(t, b, 1), newProcess(t, b, 2)
			held := p.acquire(t, "k")
			held.Drop()
			if err := q.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			begun, left := time.Now(), time.Until(held.Record().Expires)
			l, err := q.Acquire(t.Context(), lease.Want{Key: "k", Wait: left + c.after})
			if !errors.Is(err, c.want) || time.Since(begun).Truncate(time.Microsecond) != min(left, left+c.after) {
				t.Errorf("a wait of %s for a lease with %s left: %v after %s", left+c.after, left, err, time.Since(begun))
			}
			if err == nil {
				_ = l.Release(t.Context())
			}
		})
	}
}

// An acquire that is called off leaves nothing, wherever it is then: the key is free at once for anybody else.
// Holds: promise 6.
func TestAnAcquireThatIsCalledOffLeavesNothing(t *testing.T) {
	for name, lost := range map[string]bool{"granted late": false, "granted, and the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := memory.New(memory.Options{})
				s := &late{Store: b.Store().Leases, takes: time.Second}
				s.lost.Store(lost)
				k, q := keeperOver(t, s), newProcess(t, b, 2)
				if err := k.Sync(t.Context()); err != nil { // else it asks for the store's time first, and never for the key
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				off := errors.New("called off")
				time.AfterFunc(10*time.Millisecond, func() { cancel(off) })
				if _, err := k.Acquire(ctx, lease.Want{Key: "k"}); !errors.Is(err, off) {
					t.Errorf("it ended with %v", err)
				}
				if n := s.grants.Load(); n != 1 {
					t.Fatalf("%d leases were granted: this shows nothing", n)
				}
				_ = q.acquire(t, "k").Release(t.Context())
				time.Sleep(time.Minute)
				if n := s.renewals.Load(); n > 0 {
					t.Errorf("what was called off was renewed %d times", n)
				}
			})
		})
	}
	for _, at := range []time.Duration{0, 10 * time.Millisecond, 3 * time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) { // while it waits for another holder
			b := memory.New(memory.Options{})
			p, q := newProcess(t, b, 1), newProcess(t, b, 2)
			held := p.acquire(t, "k")
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			time.AfterFunc(at, func() { _ = held.Release(t.Context()) })
			if _, err := q.Acquire(ctx, lease.Want{Key: "k", Wait: -1}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("called off after %s: %v", at, err)
			}
			_ = held.Release(t.Context())
			_ = newProcess(t, b, 3).acquire(t, "k").Release(t.Context())
		})
	}
}

// late is a store that carries out acquires at once, and answers them later, or the first one never.
type late struct {
	lease.Store
	takes            time.Duration
	lost             atomic.Bool
	grants, renewals atomic.Int64
}

func (s *late) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	r, err := s.Store.Acquire(ctx, reqs)
	if err == nil && r.Answers[0].Status == lease.OK {
		s.grants.Add(1)
	}
	if s.lost.Swap(false) {
		<-ctx.Done()
		return lease.Reply{}, ctx.Err()
	}
	time.Sleep(s.takes)
	return r, err
}

func (s *late) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	s.renewals.Add(1)
	return s.Store.Renew(ctx, reqs)
}

// A suspend takes time from the margin: work is told when the machine wakes, and counts from the last answer, not from
// the waking, by when it must be gone. What began to listen too late is reported at once.
// Holds: promise 3, L2.
func TestASuspendLeavesWhatIsLeftOfTheMargin(t *testing.T) {
	for _, asleep := range []time.Duration{5 * time.Second, 9 * time.Second, 12 * time.Second, 13850 * time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := jumpy{clock.Virtual{Start: time.Now().Add(-time.Hour)}, new(atomic.Int64)}
			b := memory.New(memory.Options{Clock: c.store})
			s := &behindASuspend{Store: b.Store().Leases}
			k, err := lease.NewKeeper(lease.Options{Clock: c, Store: s})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			m := k.Margin()
			kill, over := l.SafeUntil()-m.Kill, make(chan time.Duration, 1)
			guard := lease.Guard{Keeper: k, OnOverrun: func(*lease.Lease) { over <- c.Boot() }}
			s.cut.Store(true)
			err = guard.Hold(t.Context(), l, func(ctx context.Context, l *lease.Lease) error {
				time.Sleep(100 * time.Millisecond) // the heartbeat waits for its time
				c.sleep(asleep)
				woke := c.Boot()
				<-ctx.Done()
				if told, term := c.Boot(), kill-m.LostGrace; told > max(term, woke)+m.Kill {
					t.Errorf("%s asleep: told %s after the waking, %s after its time", asleep, told-woke, told-term)
				}
				if got := l.Loss().Kill; got != kill {
					t.Errorf("%s asleep: to be gone by %s, want %s", asleep, got, kill)
				}
				if at := <-over; at < kill || at > max(kill, woke+m.Kill)+100*time.Millisecond {
					t.Errorf("%s asleep: the overrun was told %s after the kill", asleep, at-kill)
				}
				return nil
			})
			if !errors.Is(err, lease.ErrLost) {
				t.Errorf("%s asleep: %v", asleep, err)
			}
			l.Drop()
		})
	}
}

// A machine that sleeps while work has its grace wakes with less of it: the kill is by the boot clock.
// Holds: promise 3, L2.
func TestASuspendInTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := jumpy{clock.Virtual{Start: time.Now().Add(-time.Hour)}, new(atomic.Int64)}
		s := &behindASuspend{Store: memory.New(memory.Options{Clock: c.store}).Store().Leases}
		k, err := lease.NewKeeper(lease.Options{Clock: c, Store: s})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan time.Duration, 1)
		s.cut.Store(true)
		guard := lease.Guard{Keeper: k, OnOverrun: func(*lease.Lease) { over <- c.Boot() }}
		_ = guard.Hold(t.Context(), l, func(ctx context.Context, l *lease.Lease) error {
			<-ctx.Done()
			time.Sleep(500 * time.Millisecond)
			c.sleep(4 * time.Second)
			if late := <-over - l.Loss().Kill; late < 0 || late > 100*time.Millisecond {
				t.Errorf("the overrun was told %s after the kill", late)
			}
			return nil
		})
		l.Drop()
	})
}

// behindASuspend is a store that does not answer renewals once it is cut off.
type behindASuspend struct {
	lease.Store
	cut atomic.Bool
}

func (s *behindASuspend) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	if s.cut.Load() {
		<-ctx.Done()
		return lease.Reply{}, fmt.Errorf("%w: %w", lease.ErrUnavailable, ctx.Err())
	}
	return s.Store.Renew(ctx, reqs)
}

// Under a lease that must be told to stop, no work starts: at TERM, but not before.
// Holds: promise 3.
func TestNoWorkStartsAtTerm(t *testing.T) {
	for left, starts := range map[time.Duration]bool{1: true, 0: false, -1: false, -time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			c := jumpy{clock.Virtual{Start: time.Now().Add(-time.Hour)}, new(atomic.Int64)}
			k, err := lease.NewKeeper(lease.Options{Clock: c, Store: memory.New(memory.Options{Clock: c.store}).Store().Leases})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			term, _ := l.Deadlines()
			c.sleep(term - c.Boot() - left)
			began := false
			err = lease.Guard{Keeper: k}.Hold(t.Context(), l, func(context.Context, *lease.Lease) error { began = true; return nil })
			if began != starts || errors.Is(err, lease.ErrLost) == starts {
				t.Errorf("with %s left: began %v, %v", left, began, err)
			}
			_ = l.Release(t.Context())
		})
	}
}

// The holds of the dead that a fast clock wrote are shortened, also where they are more than two requests take.
// Holds: L12.
func TestAllHoldsOfAFastClockAreShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fast atomic.Int64
		b := memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(fast.Load())) }})
		fast.Store(int64(24 * time.Hour))
		var dead []lease.AcquireRequest
		for range 1100 {
			dead = append(dead, lease.AcquireRequest{Key: lease.OnceKey(), TTL: lease.DefaultTTL, Holder: lease.Holder{ID: lease.NewNonce()}})
		}
		for part := range slices.Chunk(dead, 500) {
			if _, err := b.Store().Leases.Acquire(t.Context(), part); err != nil {
				t.Fatal(err)
			}
		}
		fast.Store(0)
		r, k := newRecorder(t, b.Store().Leases)
		l, err := k.Acquire(t.Context(), lease.Want{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(lease.StepQuiet + 2*k.Margin().Heartbeat + lease.DefaultTTL)
		list, err := b.Store().Leases.List(t.Context(), "", false)
		if err != nil || len(list.Answers) != 1 {
			t.Errorf("%d are live still, %v", len(list.Answers), err)
		}
		if calls := r.since(); calls["trim"] != 3 || calls["list"] != 1 {
			t.Errorf("that took %v", calls)
		}
		_ = l.Release(t.Context())
	})
}

// A proof that a holder is gone is for that hold: an acquire that was late with it does not take the next holder's.
// Holds: L6.
func TestAReclaimIsForTheHoldThatWasProven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		newProcess(t, b, 1).acquire(t, "k").Drop()
		other := &overtaking{Store: b.Store().Leases, t: t}
		k := keeperOver(t, other)
		proofs := 0
		gone := func(context.Context, lease.Record, func() bool) bool {
			proofs++
			other.next.Store(proofs == 1)
			return proofs == 1
		}
		_, err := k.Acquire(t.Context(), lease.Want{Key: "k", Gone: gone, Wait: 3 * time.Second})
		var held *lease.HeldError
		if !errors.As(err, &held) || held.Record.Owner != other.owner.Ref().Owner || proofs < 3 {
			t.Errorf("asked %d times whether the holder is gone: %v", proofs, err)
		}
		if sent := slices.DeleteFunc(other.reclaims, func(r lease.Ref) bool { return r == lease.Ref{} }); len(sent) != 1 {
			t.Errorf("one proof was sent as %v", sent)
		}
		_ = other.owner.Release(t.Context())
	})
}

// overtaking is a store at which somebody else gets the key before the one with the proof.
type overtaking struct {
	lease.Store
	t        *testing.T
	next     atomic.Bool
	owner    *lease.Lease
	reclaims []lease.Ref
}

func (s *overtaking) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	s.reclaims = append(s.reclaims, reqs[0].Reclaim)
	if s.next.Swap(false) {
		var err error
		s.owner, err = keeperOver(s.t, s.Store).Acquire(ctx, lease.Want{Key: "k", Gone: gone})
		if err != nil {
			s.t.Error(err)
		}
	}
	return s.Store.Acquire(ctx, reqs)
}
