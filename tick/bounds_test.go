package tick_test

import (
	"context"
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

// noting is a store that notes by when each request must be carried out, counted from the instant at which it came;
// negative: it has no bound. It answers every other request only, so that each is asked for again.
type noting struct {
	forgetful
	mu     sync.Mutex
	bounds map[string][]time.Duration
}

func (n *noting) note(what string, notAfter time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	bound := time.Duration(-1)
	if !notAfter.IsZero() {
		bound = max(time.Until(notAfter), 0)
	}
	n.bounds[what] = append(n.bounds[what], bound)
}

func (n *noting) Claim(ctx context.Context, reqs []tick.ClaimRequest) ([]tick.Answer, error) {
	for _, r := range reqs {
		n.note("claim", r.NotAfter)
	}
	return n.forgetful.Claim(ctx, reqs)
}

func (n *noting) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	for _, r := range reqs {
		n.note("start", r.NotAfter)
	}
	return n.forgetful.Start(ctx, reqs)
}

func (n *noting) Take(ctx context.Context, r tick.TakeRequest) (tick.Answer, error) {
	n.note("take", r.NotAfter)
	return n.forgetful.Take(ctx, r)
}

// over is a process whose ticks go through n.
func (n *noting) over(t *testing.T) process {
	t.Helper()
	st := memory.New(memory.Options{}).Store()
	n.forgetful.Store, n.bounds = st.Ticks, map[string][]time.Duration{}
	k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return process{Book: tick.NewBook(n, k, lease.Holder{PID: 1}), keeper: k}
}

func recordOf(l *lease.Lease, at time.Time) run.Record {
	return run.Record{ID: run.NewID(), Job: "j", Tick: at, Owner: l.Ref().Owner, Token: l.Token()}
}

// Rule L1: claim, take and start say by when they must be carried out, at the first try and at the second: one
// rpc timeout after they were sent.
// Holds: L1.
func TestWhateverChangesATickIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(noting)
		p := n.over(t)
		at := time.Now()
		a := p.claim(t, tick.Want{Job: "j", At: at, StartBy: at.Add(time.Hour)})
		l, err := p.keeper.Acquire(t.Context(), lease.Want{Key: "j"})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := p.Start(t.Context(), a.Tick.Lease, recordOf(l, at), l, time.Time{}); err != nil || a.Status != tick.Won {
			t.Fatalf("the start was answered %s, %v", a.Status, err)
		}
		if err := l.Release(t.Context()); err != nil { // it ended without a word, so it crashed
			t.Fatal(err)
		}
		a = p.claim(t, tick.Want{Job: "j", At: at, StartBy: at.Add(time.Hour)})
		if a, err = p.Take(t.Context(), a.Tick, true); err != nil || a.Status != tick.Won {
			t.Fatalf("the takeover was answered %s, %v", a.Status, err)
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, what := range []string{"claim", "start", "take"} {
			if len(n.bounds[what]) < 2 {
				t.Errorf("%d times a %s was sent; want two", len(n.bounds[what]), what)
			}
			for _, bound := range n.bounds[what] {
				if most := p.keeper.Margin().RPCTimeout; bound <= 0 || bound > most {
					t.Errorf("a %s was good for %s; want at most %s", what, bound, most)
				}
			}
		}
	})
}

// mute is a store that answers no start, and notes by when each was to be carried out.
type mute struct {
	tick.Store
	bounds []time.Time
}

func (m *mute) Start(_ context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	for _, r := range reqs {
		m.bounds = append(m.bounds, r.NotAfter)
	}
	return nil, lease.ErrUnavailable
}

// A start that is asked for again and again is not carried out when the tick's time to start is over.
func TestARepeatedStartEndsWithTheTicksTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{}).Store()
		k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		m := &mute{Store: st.Ticks}
		b, startBy := tick.NewBook(m, k, lease.Holder{PID: 1}), time.Now().Add(3*time.Second)
		l, err := k.Acquire(t.Context(), lease.Want{Key: "j"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Start(t.Context(), l.Ref(), recordOf(l, time.Now()), l, startBy); err == nil {
			t.Error("it was not answered, and is said to have begun")
		}
		for i, bound := range m.bounds {
			if i >= 2 && bound.After(startBy) {
				t.Errorf("the try %d was good for %s beyond the tick's time", i, bound.Sub(startBy))
			}
		}
		if len(m.bounds) < 5 {
			t.Errorf("%d tries", len(m.bounds))
		}
		_ = l.Release(t.Context())
	})
}

// A claim that lapsed is taken over by those alone who say until when the tick may start.
func TestWithoutATimeToStartNothingIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		w := tick.Want{Job: "j", At: time.Now()}
		p.claim(t, w)
		p.link.Cut(true) // it died
		if a := q.claim(t, w); a.Status != tick.Taken {
			t.Errorf("it is %s", a.Status)
		}
	})
}
