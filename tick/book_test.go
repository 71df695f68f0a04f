package tick_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/test/sim"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

type process struct {
	*tick.Book
	keeper *lease.Keeper
	link   *sim.Link
}

func newProcess(t *testing.T, b *memory.Backend, seed uint64) process {
	t.Helper()
	st := b.Store()
	link := sim.NewLink(st.Leases, seed)
	k, err := lease.NewKeeper(lease.Options{Store: link, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return process{tick.NewBook(st.Ticks, k, lease.Holder{PID: int(seed)}), k, link}
}

func (p process) claim(t *testing.T, w tick.Want) tick.Answer {
	t.Helper()
	a, err := p.Claim(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Rule T2: a claim that lapsed before anything was started is anyone's, within the deadline.
// Holds: T2.
func TestAClaimThatLapsedUnstartedIsTakenOver(t *testing.T) {
	for _, c := range []struct {
		startBy time.Duration
		want    tick.Status
	}{{time.Minute, tick.Won}, {10 * time.Second, tick.Taken}} {
		synctest.Test(t, func(t *testing.T) {
			b := memory.New(memory.Options{})
			p, q := newProcess(t, b, 1), newProcess(t, b, 2)
			w := tick.Want{Job: "j", At: time.Now(), StartBy: time.Now().Add(c.startBy)}
			first := p.claim(t, w)
			p.link.Cut(true) // it died
			start := time.Now()
			second := q.claim(t, w)
			if second.Status != c.want {
				t.Fatalf("the other got %s, want %s", second.Status, c.want)
			}
			if d := time.Since(start); d > p.keeper.Margin().TTL+time.Second {
				t.Errorf("it took %s", d)
			}
			if c.want != tick.Won {
				return
			}
			// The one that was thought dead starts nothing any more.
			p.link.Cut(false)
			l, err := p.keeper.Acquire(t.Context(), lease.Want{Key: "j"})
			if err != nil {
				t.Fatal(err)
			}
			rec := run.Record{ID: run.NewID(), Job: "j", Tick: w.At, Owner: l.Ref().Owner, Token: l.Token()}
			if a, err := p.Start(t.Context(), first.Tick.Lease, rec, l, time.Time{}); err != nil || a.Status == tick.Won {
				t.Errorf("the stale winner's start was answered %s, %v", a.Status, err)
			}
		})
	}
}

// forgetful is a store that carries requests out, or not, and answers every other one only.
type forgetful struct {
	tick.Store
	deaf  bool // does not carry out what it does not answer
	calls int
}

func (f *forgetful) stalls() bool {
	f.calls++
	return f.calls%2 == 1
}

func stalled[A any](f *forgetful, ctx context.Context, carryOut func() (A, error)) (none A, err error) {
	if !f.stalls() {
		return carryOut()
	}
	if !f.deaf {
		_, _ = carryOut()
	}
	<-ctx.Done()
	return none, ctx.Err()
}

func (f *forgetful) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	return stalled(f, ctx, func() ([]tick.Answer, error) { return f.Store.Claim(ctx, r) })
}

func (f *forgetful) Start(ctx context.Context, r []tick.StartRequest) ([]tick.Answer, error) {
	return stalled(f, ctx, func() ([]tick.Answer, error) { return f.Store.Start(ctx, r) })
}

func (f *forgetful) Take(ctx context.Context, r tick.TakeRequest) (tick.Answer, error) {
	return stalled(f, ctx, func() (tick.Answer, error) { return f.Store.Take(ctx, r) })
}

// A claim, a start or a takeover that went unanswered is asked for again, and is ours whether or
// not the first request was carried out.
func TestAStallOfTheStoreCostsNoTick(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New(memory.Options{}).Store()
			k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(k.Close)
			p := process{Book: tick.NewBook(&forgetful{Store: st.Ticks, deaf: deaf}, k, lease.Holder{PID: 1}), keeper: k}
			w := tick.Want{Job: "j", At: time.Now(), StartBy: time.Now().Add(time.Hour)}
			run1 := func(a tick.Answer) *lease.Lease {
				l, err := k.Acquire(t.Context(), lease.Want{Key: "j"})
				if err != nil {
					t.Fatal(err)
				}
				rec := run.Record{ID: run.NewID(), Job: "j", Tick: w.At, Owner: l.Ref().Owner, Token: l.Token()}
				if a, err := p.Start(t.Context(), a.Tick.Lease, rec, l, time.Time{}); err != nil || a.Status != tick.Won {
					t.Errorf("the start was answered %s, %v", a.Status, err)
				}
				return l
			}
			a := p.claim(t, w)
			if a.Status != tick.Won {
				t.Fatalf("the claim was answered %s", a.Status)
			}
			l := run1(a)
			if err := l.Release(t.Context()); err != nil { // it ended without a word, so it crashed
				t.Fatal(err)
			}
			a = p.claim(t, w)
			if a, err = p.Take(t.Context(), a.Tick, true); err != nil || a.Status != tick.Won {
				t.Fatalf("the takeover was answered %s, %v", a.Status, err)
			}
			run1(a)
		})
	}
}

// A loser looks again for at most one TTL, and then says who has it.
func TestALoserOfALivingWinnerIsToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		w := tick.Want{Job: "j", At: time.Now(), StartBy: time.Now().Add(time.Hour)}
		p.claim(t, w)
		start := time.Now()
		a := q.claim(t, w)
		if a.Status != tick.Taken || a.Tick.Claimant.PID != 1 {
			t.Errorf("got %s by %+v", a.Status, a.Tick.Claimant)
		}
		if d := time.Since(start); d < p.keeper.Margin().TTL || d > p.keeper.Margin().TTL+2*time.Second {
			t.Errorf("it was told after %s", d)
		}
		if a := p.claim(t, w); a.Status != tick.Won {
			t.Errorf("the winner, asking again, is told %s", a.Status)
		}
	})
}

// Holds: promise 10.
func TestUnclaimedTicksBecomeRanges(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(60*n), 0).UTC() }
	var due []time.Time
	for n := range 10 {
		due = append(due, at(n))
	}
	rows := []tick.Tick{{At: at(3)}, {At: at(5), Through: at(6), Count: 2}}
	want := []struct{ from, through, count int }{{0, 2, 3}, {4, 0, 1}, {7, 9, 3}}
	for range 2 { // in their order, and the latest first, as histories tell them
		got := tick.Unclaimed("j", due, rows, run.Missed, "")
		if len(got) != len(want) {
			t.Fatalf("%+v", got)
		}
		for i, w := range want {
			through := time.Time{}
			if w.through > 0 {
				through = at(w.through)
			}
			if g := got[i]; !g.At.Equal(at(w.from)) || !g.Through.Equal(through) || g.Count != w.count {
				t.Errorf("range %d: %+v", i, g)
			}
		}
		if left := tick.Unaccounted(due, rows); len(left) != 7 {
			t.Errorf("%s are not accounted for", left)
		}
		slices.Reverse(rows)
	}
}
