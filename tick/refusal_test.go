package tick_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// slowToRefuse is a store that refuses what asks for one job, and takes a while to say so: less than a silence is.
type slowToRefuse struct{ tick.Store }

func (s slowToRefuse) Claim(ctx context.Context, r []tick.ClaimRequest) ([]tick.Answer, error) {
	if slices.ContainsFunc(r, func(q tick.ClaimRequest) bool { return q.Job == "j17" }) {
		time.Sleep(700 * time.Millisecond)
		return nil, errors.New("a value that the store does not take")
	}
	time.Sleep(time.Millisecond)
	return s.Store.Claim(ctx, r)
}

// A refusal of many that there was no time to part is nobody's answer but that item's: the others are asked for
// again in small companies.
// Holds: L4.
func TestASlowRefusalIsOneItemsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Options{}).Store()
		b := tick.NewBook(slowToRefuse{st.Ticks}, keeperOf(t, st.Leases), lease.Holder{})
		at := time.Now()
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() {
				name := fmt.Sprintf("j%d", i)
				a, err := b.Claim(t.Context(), tick.Want{Job: name, At: at})
				if refused := err != nil; refused != (name == "j17") || !refused && a.Status != tick.Won {
					t.Errorf("%s: %v, %v", name, a.Status, err)
				}
			})
		}
		all.Wait()
	})
}
