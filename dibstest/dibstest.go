// Package dibstest lets a program's tests run what it registered with package dibs in memory: a tick of a scheduled
// function by hand, the tasks of a queue until there are none left, or all of it in virtual time.
//
//	func TestReports(t *testing.T) {
//		k := dibstest.New(t, dibs.Options{App: "shop"})
//		register(k.Client) // the program's own function with its Cron and Handle calls
//		err := k.Tick("reports", time.Date(2028, 2, 29, 4, 15, 0, 0, time.UTC))
//		…
//		k.Work()
//	}
//
// In a testing/synctest bubble time is the bubble's: start Client.Run there and sleep for a day, and a day's
// ticks have run when the test goes on, a moment later.
package dibstest

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/queue/queuetest"
	"github.com/dibs-run/dibs/store"
)

// A Kit is a Client on a store in memory.
type Kit struct {
	*dibs.Client
	// Store is where everything is, for a second Client, or to look at.
	Store *store.Store

	t     testing.TB
	queue *queuetest.Kit
}

// New makes a Kit, which ends with the test. Where o names no App it is "test", and where it names no Keeper
// the Kit has one, whose clock is that of a bubble where the test runs in one.
func New(t testing.TB, o dibs.Options) *Kit {
	t.Helper()
	k := &Kit{t: t, queue: queuetest.New(t)}
	k.Store = k.queue.Store
	if o.App == "" {
		o.App = "test"
	}
	if o.Keeper == nil {
		keeper, err := lease.NewKeeper(lease.Options{Store: k.Store.Leases, Notify: k.Store.Notify, Clock: clock.Virtual{Start: time.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(keeper.Close)
		o.Keeper = keeper
	}
	c, err := dibs.New(k.Store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	k.Client = c
	return k
}

// Tick runs a scheduled function for an instant, whatever time it is: with its retries, and under its lease. It
// returns what Client.Trigger does: nil where the function did at last.
func (k *Kit) Tick(name string, at time.Time) error {
	k.t.Helper()
	return k.Trigger(k.t.Context(), name, at)
}

// Work has the handlers of the Client do whatever is due in the queues (default: "default"), until nothing that
// they know is. Tasks for later stay. A task that a handler enqueues meanwhile is done as well.
func (k *Kit) Work(queues ...string) {
	k.t.Helper()
	k.queue.Work(k.Mux(), queues...)
}

// Tasks are those of a kind, by id, in whatever state they are; "" is any kind.
func (k *Kit) Tasks(kind string) []driver.Task {
	k.t.Helper()
	return k.queue.Tasks(kind)
}
