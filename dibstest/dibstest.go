// Package dibstest runs in memory, for a program's tests, what the program registered with package dibs: a tick of a
// scheduled function by hand, the tasks of a queue until there are none left, or everything in virtual time.
//
//	func TestReports(t *testing.T) {
//		k := dibstest.New(t, dibs.Options{App: "shop"})
//		register(k.Client) // the program's own function with its Cron and Handle calls
//		err := k.Tick("reports", time.Date(2028, 2, 29, 4, 15, 0, 0, time.UTC))
//		…
//		k.Work()
//	}
//
// In a testing/synctest bubble, time is the bubble's: start Client.Run there and sleep for a day, and a day's ticks
// have run when the test continues, a moment later.
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
	// Store is the store itself, to inspect, or for a second Client.
	Store *store.Store

	t     testing.TB
	queue *queuetest.Kit
}

// New creates a Kit, which ends with the test. If o.App is empty, it is "test". If o.Keeper is nil, the Kit creates
// one; in a synctest bubble its clock is the bubble's.
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

// Tick runs a scheduled function for an instant, whatever the time is, with its retries and under its lease. Like
// Client.Trigger, it returns nil if the function succeeded in the end.
func (k *Kit) Tick(name string, at time.Time) error {
	k.t.Helper()
	return k.Trigger(k.t.Context(), name, at)
}

// Work has the Client's handlers do all due tasks in the queues (default: "default") until no task that they handle
// is due. Tasks for later stay. Tasks that a handler enqueues meanwhile are done as well.
func (k *Kit) Work(queues ...string) {
	k.t.Helper()
	k.queue.Work(k.Mux(), queues...)
}

// Tasks returns the tasks of a kind, by id, in any state; "" is any kind.
func (k *Kit) Tasks(kind string) []driver.Task {
	k.t.Helper()
	return k.queue.Tasks(kind)
}
