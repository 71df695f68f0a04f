package tick_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// disowning is a store that has forgotten the first lease under which it was asked, and takes long to say so.
type disowning struct {
	tick.Store
	mu    sync.Mutex
	first lease.Ref
}

func (d *disowning) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	time.Sleep(100 * time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first == (lease.Ref{}) {
		d.first = r[0].Lease
	}
	answers, err := d.Store.Claim(ctx, slices.DeleteFunc(slices.Clone(r), d.knowsNot))
	for i := range r {
		if d.knowsNot(r[i]) {
			answers = slices.Insert(answers, i, tick.Answer{Status: tick.Lapsed})
		}
	}
	return answers, err
}

func (d *disowning) knowsNot(r tick.ClaimRequest) bool { return r.Lease == d.first }

// A process claims under one lease. Of many claims that were refused for an old one, the first gets another, and the
// others go under that one too: who dropped it again would let lapse what the first has claimed.
func TestALeaseIsRenewedOnceForAllClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{}).Store()
		k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Clock: clock.Virtual{Start: time.Now().Add(-time.Hour)}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Close)
		b := tick.NewBook(&disowning{Store: st.Ticks}, k, lease.Holder{PID: 1})
		at := time.Now()
		var answers [4]tick.Answer
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				var err error
				w := tick.Want{Job: string(rune('a' + i)), At: at, StartBy: at.Add(time.Hour)}
				if answers[i], err = b.Claim(t.Context(), w); err != nil || answers[i].Status != tick.Won {
					t.Errorf("claim %d was answered %s, %v", i, answers[i].Status, err)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		for i, a := range answers {
			if a.Tick.Lease != answers[0].Tick.Lease {
				t.Errorf("claim %d is under lease %v, the first under %v", i, a.Tick.Lease, answers[0].Tick.Lease)
			}
		}
	})
}
