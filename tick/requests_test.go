package tick_test

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
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// A recorder is a store that counts the requests of one Book and checks each of them: how long it may take, by when
// it must be carried out, and under which lease it is made.
type recorder struct {
	tick.Store
	t      *testing.T
	leases lease.Store
	most   time.Duration

	mu     sync.Mutex
	calls  map[string]int
	answer func(what string) tick.Status // instead of the store's own; 0: its own
	silent func(what string) bool        // the answer is lost
}

// recorded is a process whose ticks go through a recorder.
func recorded(t *testing.T, b *memory.Backend) (*recorder, process) {
	t.Helper()
	st := b.Store()
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	r := &recorder{Store: st.Ticks, t: t, leases: st.Leases, most: k.Margin().RPCTimeout, calls: map[string]int{}}
	return r, process{Book: tick.NewBook(r, k, lease.Holder{PID: 7}), keeper: k}
}

func (r *recorder) came(ctx context.Context, what string, items int) {
	r.calls[what]++
	if at, ok := ctx.Deadline(); ctx.Err() != nil || !ok || time.Until(at) > r.most {
		r.t.Errorf("%s: its context ends in %s (%v), %v", what, time.Until(at), ok, ctx.Err())
	}
	if items < 1 || items > 500 {
		r.t.Errorf("%s of %d items", what, items)
	}
}

func (r *recorder) bounded(what string, notAfter time.Time) {
	if good := time.Until(notAfter); good <= 0 || good > r.most {
		r.t.Errorf("%s is good for %s", what, good)
	}
}

// live checks that a request is made under a lease that is held.
func (r *recorder) live(what string, ref lease.Ref) {
	reply, err := r.leases.Read(context.Background(), []lease.Key{ref.Key})
	if err != nil || reply.Answers[0].Record.Ref() != ref || !reply.Answers[0].Record.Live(reply.Now) {
		r.t.Errorf("%s under %v, of which the store knows %v, %v", what, ref, reply.Answers, err)
	}
}

func (r *recorder) says(what string, as []tick.Answer, err error) ([]tick.Answer, error) {
	if r.answer != nil {
		if s := r.answer(what); s != 0 {
			for i := range as {
				as[i].Status = s
			}
		}
	}
	if r.silent != nil && r.silent(what) {
		return nil, fmt.Errorf("%w: the answer was lost", lease.ErrUnavailable)
	}
	return as, err
}

func (r *recorder) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "claim", len(reqs))
	once := map[tick.Spot]bool{}
	for _, q := range reqs {
		r.bounded("a claim", q.NotAfter)
		r.live("a claim", q.Lease)
		if spot := (tick.Spot{Job: q.Job, At: q.At}); once[spot] || q.Claimant.ID != q.Lease.Owner || q.Claimant.PID != 7 || q.Ahead != tick.Ahead {
			r.t.Errorf("a claim of %v, twice %v: %+v", spot, once[spot], q)
		}
		once[tick.Spot{Job: q.Job, At: q.At}] = true
	}
	as, err := r.Store.Claim(ctx, reqs)
	return r.says("claim", as, err)
}

func (r *recorder) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "start", len(reqs))
	for _, q := range reqs {
		r.bounded("a start", q.NotAfter)
		r.live("a start", q.Lease)
	}
	as, err := r.Store.Start(ctx, reqs)
	return r.says("start", as, err)
}

func (r *recorder) Take(ctx context.Context, q tick.TakeRequest) (tick.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "take", 1)
	r.bounded("a take", q.NotAfter)
	r.live("a take", q.Lease)
	if q.Claimant.ID != q.Lease.Owner || q.From == q.Lease {
		r.t.Errorf("%+v", q)
	}
	a, err := r.Store.Take(ctx, q)
	as, err := r.says("take", []tick.Answer{a}, err)
	if err != nil {
		return tick.Answer{}, err
	}
	return as[0], nil
}

func (r *recorder) Close(ctx context.Context, reqs []tick.CloseRequest) ([]tick.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "close", len(reqs))
	as, err := r.Store.Close(ctx, reqs)
	return r.says("close", as, err)
}

func (r *recorder) Jobs(ctx context.Context, q tick.JobQuery) ([]tick.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came(ctx, "jobs", 1)
	return r.Store.Jobs(ctx, q)
}

func (r *recorder) since() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = map[string]int{}
	return calls
}

func (r *recorder) set(answer func(string) tick.Status, silent func(string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer, r.silent = answer, silent
}

// Each request of a Book is one that it may send, and a refusal is answered by few others: of a claim two, under a
// lease that was acquired anew, or by the store's time that was asked again.
// Holds: L1, L4, T2.
func TestEachRequestOfABook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := recorded(t, memory.New(memory.Options{}))
		at := time.Now()
		want := func(n int) tick.Want {
			return tick.Want{Job: fmt.Sprintf("j%04d", n), At: at, StartBy: at.Add(time.Hour)}
		}
		var all sync.WaitGroup
		for n := range 1100 { // and each one twice: its answer is the same
			for range 2 {
				all.Go(func() {
					if a, err := p.Claim(t.Context(), want(n)); err != nil || a.Status != tick.Won {
						t.Errorf("%d: %v, %v", n, a.Status, err)
					}
				})
			}
		}
		all.Wait()
		r.since()
		for _, refuses := range []tick.Status{tick.Late, tick.Lapsed} {
			r.set(func(string) tick.Status { return refuses }, nil)
			if a, err := p.Claim(t.Context(), want(2000)); !errors.Is(err, lease.ErrUnavailable) {
				t.Errorf("always %v: %v, %v", refuses, a.Status, err)
			}
			if calls := r.since(); calls["claim"] != 3 {
				t.Errorf("always %v: %v", refuses, calls)
			}
		}
		r.set(nil, nil)
		if a := p.claim(t, want(2001)); a.Status != tick.Won {
			t.Errorf("after the refusals: %v", a.Status)
		}
		for what, try := range map[string]func(context.Context) error{
			"claim": func(ctx context.Context) error { _, err := p.Claim(ctx, want(2002)); return err },
			"take":  func(ctx context.Context) error { _, err := p.Take(ctx, tick.Tick{Job: "x", At: at}, false); return err },
		} {
			r.since()
			r.set(nil, func(string) bool { return true })
			if err := try(t.Context()); !errors.Is(err, lease.ErrUnavailable) {
				t.Errorf("%s without an answer: %v", what, err)
			}
			if calls := r.since(); calls[what] != 2 {
				t.Errorf("%s without an answer: %v", what, calls)
			}
			r.set(nil, nil)
		}
	})
}

// A start is repeated while it may still count: for one TTL, and no longer than its lease or its caller lasts.
// Holds: promise 10, T1.
func TestHowLongAStartIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		ends  func(p process, l *lease.Lease, cancel func()) // after three seconds
		after time.Duration
	}{
		"for a TTL":                 {func(process, *lease.Lease, func()) {}, lease.DefaultTTL},
		"until its caller has gone": {func(_ process, _ *lease.Lease, cancel func()) { cancel() }, 3 * time.Second},
		"until its lease is lost": {func(p process, l *lease.Lease, _ func()) {
			if _, _, ok, err := p.keeper.Break(context.Background(), l.Ref(), lease.Broken{By: "ann"}); !ok || err != nil {
				panic(err)
			}
			l.Check()
		}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, p := recorded(t, memory.New(memory.Options{}))
				at := time.Now()
				a := p.claim(t, tick.Want{Job: "j", At: at, StartBy: at.Add(time.Hour)})
				l, err := p.keeper.Acquire(t.Context(), lease.Want{Key: "j"})
				if err != nil {
					t.Fatal(err)
				}
				r.set(nil, func(what string) bool { return what == "start" })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(3*time.Second, func() { c.ends(p, l, cancel) })
				begun := time.Now()
				if _, err := p.Start(ctx, a.Tick.Lease, recordOf(l, at), l, time.Time{}); !errors.Is(err, lease.ErrUnavailable) {
					t.Errorf("it ended with %v", err)
				}
				if d := time.Since(begun); d < c.after || d > c.after+time.Second {
					t.Errorf("it was repeated for %s, want %s", d, c.after)
				}
				// 50, 100 … ms apart, and then a heartbeat: some twelve in a TTL.
				if n := r.since()["start"]; n > 16 || n < 6 {
					t.Errorf("%d starts in %s", n, c.after)
				}
				l.Drop()
			})
		})
	}
}

// A claim that only records an outcome waits for nobody: whoever has the tick, it has another end.
// Holds: T2, T11.
func TestAnOutcomeWaitsForNoClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p := newProcess(t, b, 1)
		r, q := recorded(t, b)
		w := tick.Want{Job: "j", At: time.Now(), StartBy: time.Now().Add(time.Hour)}
		first := p.claim(t, w)
		closing := w
		closing.Outcome, closing.Reason = run.Missed, "nobody runs it"
		begun := time.Now()
		if a := q.claim(t, closing); a.Status != tick.Taken || a.Tick.Lease != first.Tick.Lease {
			t.Errorf("it is %v, of %v", a.Status, a.Tick.Lease)
		}
		if d, calls := time.Since(begun), r.since(); d != 0 || calls["claim"] != 1 {
			t.Errorf("that took %s, and %v", d, calls)
		}
		p.link.Cut(true) // and once the claim has lapsed
		time.Sleep(time.Minute)
		if a := q.claim(t, closing); a.Status != tick.Taken || r.since()["take"] > 0 {
			t.Errorf("after its claimant's death it is %v", a.Status)
		}
	})
}

// A tick may be claimed up to the last instant at which it may start, and not after it. A claim that lapsed is taken
// over before that instant.
// Holds: T2, T4.
func TestTheLastInstantOfATick(t *testing.T) {
	for _, c := range []struct {
		left time.Duration
		want error
	}{{µs, nil}, {0, nil}, {-µs, tick.ErrTooLate}} {
		synctest.Test(t, func(t *testing.T) {
			r, p := recorded(t, memory.New(memory.Options{}))
			if _, err := p.Server(t.Context()); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			a, err := p.Claim(t.Context(), tick.Want{Job: "j", At: now.Add(-time.Minute), StartBy: now.Add(c.left)})
			if !errors.Is(err, c.want) || err == nil && a.Status != tick.Won || r.since()["claim"] > 0 != (c.want == nil) {
				t.Errorf("with %s left: %v, %v", c.left, a.Status, err)
			}
		})
	}
}

// A loser looks at most twice a second, and for one TTL; then it says who has the tick. Of a tick that has begun or
// ended meanwhile it says so at once.
// Holds: T2.
func TestHowALoserLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p := newProcess(t, b, 1)
		r, q := recorded(t, b)
		at := time.Now()
		w := tick.Want{Job: "j", At: at, StartBy: at.Add(5 * time.Second)} // less than a TTL
		p.claim(t, w)
		begun := time.Now()
		if a := q.claim(t, w); a.Status != tick.Taken || a.Tick.Claimant.PID != 1 {
			t.Errorf("%v, of %v", a.Status, a.Tick.Claimant)
		}
		if d, n := time.Since(begun), r.since()["claim"]; d < 5*time.Second || d > 6*time.Second || n < 10 || n > 12 {
			t.Errorf("it looked %d times in %s", n, d)
		}
		w.Job, w.StartBy = "other", at.Add(time.Hour)
		first := p.claim(t, w)
		time.AfterFunc(3*time.Second, func() {
			l, err := p.keeper.Acquire(t.Context(), lease.Want{Key: "other"})
			if err != nil {
				t.Error(err)
				return
			}
			rec := recordOf(l, at)
			rec.Job = "other"
			if a, err := p.Start(t.Context(), first.Tick.Lease, rec, l, time.Time{}); err != nil || a.Status != tick.Won {
				t.Error(a.Status, err)
			}
		})
		begun = time.Now()
		if a := q.claim(t, w); a.Status != tick.Taken || a.Tick.State != tick.Started {
			t.Errorf("%v, %v", a.Status, a.Tick.State)
		}
		if d := time.Since(begun); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("it was told %s after it asked", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		w.Job = "third"
		p.claim(t, w)
		if _, err := q.Claim(ctx, w); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("called off: %v", err)
		}
	})
}

// A Book that was released, or has lost its lease, claims under another one, and neither keeps nor renews the old
// one.
// Holds: T2.
func TestABookHasOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		s := &renewing{Store: b.Store().Leases, refs: map[lease.Ref]bool{}}
		r := &recorder{Store: b.Store().Ticks, t: t, leases: s, calls: map[string]int{}}
		k := keeperOf(t, s)
		r.most = k.Margin().RPCTimeout
		p := process{Book: tick.NewBook(r, k, lease.Holder{PID: 7}), keeper: k}
		at, seen := time.Now(), map[lease.Ref]bool{}
		for n, ends := range []func(l *lease.Lease){
			func(*lease.Lease) { _ = p.Release(t.Context()); _ = p.Release(t.Context()) },
			func(l *lease.Lease) {
				_, _, _, _ = p.keeper.Break(t.Context(), l.Ref(), lease.Broken{By: "ann", Now: true})
				<-l.Lost()
			},
			func(*lease.Lease) {},
		} {
			a := p.claim(t, tick.Want{Job: fmt.Sprint("j", n), At: at, StartBy: at.Add(time.Hour)})
			l, err := p.Server(t.Context())
			if err != nil || a.Tick.Lease != l.Ref() || seen[l.Ref()] {
				t.Errorf("%d: under %v, %v, seen before %v: %v", n, a.Tick.Lease, l.Ref(), seen[l.Ref()], err)
			}
			seen[l.Ref()] = true
			again, err := p.Server(t.Context())
			if err != nil || again != l {
				t.Errorf("%d: asked once more it has another: %v", n, err)
			}
			ends(l)
		}
		s.since()
		time.Sleep(time.Minute + time.Second) // at this instant no heartbeat goes out
		if renewed := s.since(); len(renewed) != 1 {
			t.Errorf("%d leases are renewed", len(renewed))
		}
		if err := p.Release(t.Context()); err != nil {
			t.Error(err)
		}
		held, err := s.List(t.Context(), "", false)
		if time.Sleep(time.Minute); err != nil || len(held.Answers) != 0 || len(s.since()) != 0 {
			t.Errorf("after its release %d are held: %v", len(held.Answers), err)
		}
	})
}

// renewing is a store that notes which leases are renewed.
type renewing struct {
	lease.Store
	mu   sync.Mutex
	refs map[lease.Ref]bool
}

func (s *renewing) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	s.mu.Lock()
	for _, q := range reqs {
		s.refs[q.Ref] = true
	}
	s.mu.Unlock()
	return s.Store.Renew(ctx, reqs)
}

func (s *renewing) since() map[lease.Ref]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	refs := s.refs
	s.refs = map[lease.Ref]bool{}
	return refs
}
