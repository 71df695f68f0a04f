package tick_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// distant is a store that is far away, counts what it is asked, and chokes on one job.
type distant struct {
	tick.Store
	chokes string

	mu     sync.Mutex
	calls  map[string]int
	flying map[string]int
	most   int
}

func newDistant(s tick.Store) *distant {
	return &distant{Store: s, calls: map[string]int{}, flying: map[string]int{}}
}

func over[Q any](d *distant, what string, reqs []Q, job func(Q) string, do func() ([]tick.Answer, error)) ([]tick.Answer, error) {
	d.mu.Lock()
	d.calls[what]++
	d.flying[what]++
	d.most = max(d.most, d.flying[what])
	d.mu.Unlock()
	time.Sleep(80 * time.Millisecond)
	d.mu.Lock()
	d.flying[what]--
	d.mu.Unlock()
	if d.chokes != "" && slices.ContainsFunc(reqs, func(q Q) bool { return job(q) == d.chokes }) {
		return nil, errors.New("a value that the store does not take")
	}
	return do()
}

func (d *distant) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	return over(d, "claim", r, func(q tick.ClaimRequest) string { return q.Job }, func() ([]tick.Answer, error) { return d.Store.Claim(ctx, r) })
}

func (d *distant) Start(ctx context.Context, r []tick.StartRequest) ([]tick.Answer, error) {
	return over(d, "start", r, func(q tick.StartRequest) string { return q.Run.Job }, func() ([]tick.Answer, error) { return d.Store.Start(ctx, r) })
}

func (d *distant) Close(ctx context.Context, r []tick.CloseRequest) ([]tick.Answer, error) {
	return over(d, "close", r, func(q tick.CloseRequest) string { return q.Run.Job }, func() ([]tick.Answer, error) { return d.Store.Close(ctx, r) })
}

// begins claims, starts and closes the ticks of n jobs at once, and returns the errors by job.
func begins(t *testing.T, d *distant, k *lease.Keeper, n int) map[string]error {
	t.Helper()
	b := tick.NewBook(d, k, lease.Holder{})
	at, failed := time.Now(), map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			name := fmt.Sprintf("j%d", i)
			if err := begin(t.Context(), b, k, name, at); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[name] = err
			}
		})
	}
	all.Wait()
	return failed
}

func begin(ctx context.Context, b *tick.Book, k *lease.Keeper, name string, at time.Time) error {
	a, err := b.Claim(ctx, tick.Want{Job: name, At: at})
	if err != nil {
		return err
	}
	l, err := k.Acquire(ctx, lease.Want{Key: lease.Key(name)})
	if err != nil {
		return err
	}
	rec := run.Record{ID: run.NewID(), Job: name, Tick: at, Owner: l.Ref().Owner, Token: l.Token()}
	s, err := b.Start(ctx, a.Tick.Lease, rec, l, time.Time{})
	if err != nil {
		return err
	}
	rec.Outcome = run.Succeeded
	c, err := b.Close(ctx, tick.CloseRequest{Run: rec, Claim: l.Ref(), Release: l.Ref()})
	if err != nil {
		return err
	}
	if a.Status != tick.Won || s.Status != tick.Won || c.Status != tick.Won || c.Tick.Outcome != run.Succeeded {
		return fmt.Errorf("%v, %v, %v: %v", a.Status, s.Status, c.Status, c.Tick)
	}
	l.Drop()
	return nil
}

func keeperOf(t *testing.T, s lease.Store) *lease.Keeper {
	t.Helper()
	k, err := lease.NewKeeper(lease.Options{Store: s, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// Requests that are made at one time travel together, one request of a kind at a time.
// Holds: L4.
func TestManyTicksTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		st := memory.New(memory.Options{}).Store()
		d := newDistant(st.Ticks)
		if failed := begins(t, d, keeperOf(t, st.Leases), n); len(failed) > 0 {
			t.Fatalf("%d of %d failed: %v", len(failed), n, failed["j0"])
		}
		for what, calls := range d.calls {
			if calls > n/500*3 {
				t.Errorf("%d requests %s for %d ticks", calls, what, n)
			}
		}
		if d.most > 1 || len(d.calls) != 3 {
			t.Errorf("%d requests of a kind at once; %v", d.most, d.calls)
		}
	})
}

// An item on which the store chokes costs no other tick anything.
// Holds: L4.
func TestOneBadItemSpoilsNoBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{}).Store()
		d := newDistant(st.Ticks)
		d.chokes = "j17"
		failed := begins(t, d, keeperOf(t, st.Leases), 100)
		if len(failed) != 1 || failed["j17"] == nil {
			t.Errorf("%d failed: %v", len(failed), failed)
		}
	})
}

// lockedOut is a store where somebody else has a job's row: it does not answer in time what asks for that job,
// or says so at once.
type lockedOut struct {
	*distant
	says bool
}

func (l lockedOut) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	if slices.ContainsFunc(r, func(q tick.ClaimRequest) bool { return q.Job == "j17" }) {
		if !l.says {
			<-ctx.Done()
		}
		return nil, fmt.Errorf("%w: another transaction holds the row", lease.ErrUnavailable)
	}
	return l.distant.Claim(ctx, r)
}

// A claim that is not answered is parted from those that travelled with it: they are answered, whoever of them leaves
// first, and however many they are.
// Holds: L4.
func TestOneSilentClaimIsPartedFromTheOthers(t *testing.T) {
	for _, says := range []bool{false, true} {
		for _, n := range []int{20, 100, 1000} {
			synctest.Test(t, func(t *testing.T) {
				st := memory.New(memory.Options{}).Store()
				k := keeperOf(t, st.Leases)
				b := tick.NewBook(lockedOut{newDistant(st.Ticks), says}, k, lease.Holder{})
				at := time.Now()
				var mu sync.Mutex
				var all sync.WaitGroup
				late := time.Duration(0)
				for i := range n {
					all.Go(func() {
						name := fmt.Sprintf("j%d", i)
						a, err := b.Claim(t.Context(), tick.Want{Job: name, At: at})
						if name == "j17" {
							if !errors.Is(err, lease.ErrUnavailable) {
								t.Errorf("it was answered: %v, %v", a.Status, err)
							}
							return
						}
						if err != nil || a.Status != tick.Won {
							t.Errorf("%s: %v, %v", name, a.Status, err)
						}
						mu.Lock()
						defer mu.Unlock()
						late = max(late, time.Since(at))
					})
				}
				all.Wait()
				if late > 3*k.Margin().RPCTimeout {
					t.Errorf("the last of %d was claimed after %s", n, late)
				}
			})
		}
	}
}

// A store that answers nobody is not asked for each by itself, and whoever asks hears of it soon.
// Holds: L4.
func TestASilentStoreIsNotBesieged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{}).Store()
		k := keeperOf(t, st.Leases)
		s := &silentStore{Store: st.Ticks}
		b := tick.NewBook(s, k, lease.Holder{})
		at := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if _, err := b.Claim(t.Context(), tick.Want{Job: fmt.Sprintf("j%d", i), At: at}); !errors.Is(err, lease.ErrUnavailable) {
					t.Errorf("j%d: %v", i, err)
				}
			})
		}
		all.Wait()
		if d := time.Since(at); d > 5*k.Margin().RPCTimeout || s.most.Load() > 1+2+4 {
			t.Errorf("it took %s, %d requests at once", d, s.most.Load())
		}
	})
}

// silentStore answers no claim.
type silentStore struct {
	tick.Store
	flying, most atomic.Int32
}

func (m *silentStore) Claim(ctx context.Context, _ []tick.ClaimRequest) ([]tick.Answer, error) {
	m.most.Store(max(m.most.Load(), m.flying.Add(1)))
	defer m.flying.Add(-1)
	<-ctx.Done()
	return nil, ctx.Err()
}
