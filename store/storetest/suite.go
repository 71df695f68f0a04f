package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/store"
)

// Open is how the store under test is opened.
type Open = func(context.Context, store.Config) (*store.Store, error)

// A promise is one subtest.
type promise struct {
	name string
	keep func(*world)
}

// Run checks that the store that open opens at url keeps every promise of the contracts that it
// declares. The first promise is the one that all the others lean on. What a server decides is no race of this
// process: the race round leaves that out, and make test has it.
func Run(t *testing.T, open Open, url string) {
	t.Helper()
	suite(t, open, url, !testsize.Raced())
}

// RunAgain is Run of a store whose server is reached in another way, such as by a caller's pool, a pooler or a
// cluster. What the server decides, Run has checked. So this keeps to what travels there and back, and to random walks
// through all operations; a long round runs all of the suite.
func RunAgain(t *testing.T, open Open, url string) {
	t.Helper()
	suite(t, open, url, testsize.Long())
}

func suite(t *testing.T, open Open, url string, whole bool) {
	t.Helper()
	sample := newWorld(t, open, url).s
	if sample.Leases == nil {
		t.Fatal("a store without leases is of no use: Leases is nil")
	}
	whole = whole || sample.Properties.Reach != store.Fleet // there is no server: this process decides
	// decisions are promises about what the server decides.
	decisions := func(lists ...[]promise) []promise {
		if whole {
			return slices.Concat(lists...)
		}
		return nil
	}
	group(t, "leases", open, url, slices.Concat(leasePromises, timePromises, breakPromises, batchPromises, longLeases))
	group(t, "keys", open, url, keyPromises)
	group(t, "opening", open, url, openPromises)
	if sample.Notify != nil {
		group(t, "notification", open, url, notifyPromises)
	}
	if sample.Ticks != nil {
		group(t, "ticks", open, url, slices.Concat(claimPromises, startPromises, closePromises, takePromises,
			decisions(orphanPromises), tickBatchPromises, tablePromises, longTicks))
		group(t, "registry", open, url, slices.Concat(jobPromises, pausePromises, settlePromises, fillPromises))
	}
	if sample.Queue != nil && !sample.Properties.Session { // session locks change nothing about tasks
		group(t, "queue", open, url, slices.Concat(enqueuePromises, fetchPromises,
			decisions(uniquePromises, limitPromises, fencePromises, repeatPromises, verdictPromises, backlogPromises)))
		group(t, "queue-workers", open, url, slices.Concat(decisions(rescuePromises, tendPromises), walkPromises, twinPromises))
		group(t, "queue-operators", open, url, slices.Concat(decisions(queuePausePromises, actPromises), listPromises))
		if whole {
			group(t, "queue-gotchas", open, url, gotchaPromises)
		}
	}
	if sample.History != nil {
		group(t, "history", open, url, historyPromises)
	}
	if sample.Fleet != nil {
		group(t, "fleet", open, url, fleetPromises)
	}
}

// group runs promises side by side, after the first, which is alone and so fails in plain sight.
func group(t *testing.T, name string, open Open, url string, promises []promise) {
	t.Run(name, func(t *testing.T) {
		for i, p := range promises {
			t.Run(p.name, func(t *testing.T) {
				if i > 0 {
					t.Parallel()
				}
				p.keep(newWorld(t, open, url))
			})
		}
	})
}
