package scheduler

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A Backend is where a job's lease, claims and history live, all three together (rule T9): the host's own directory
// for jobs of scope host, the shared store for those of scope global.
type Backend struct {
	// Name is for people: "host", or the store's address without its password.
	Name    string
	Keeper  *lease.Keeper
	Book    *tick.Book
	Ticks   tick.Store
	History history.Store
	// Fleet keeps on record that this process serves; nil: nothing does.
	Fleet fleet.Store
	// Self describes this process as a holder.
	Self lease.Holder
	// Descriptor and Detach are set only by the directory: see store.Store.
	Descriptor func(lease.Ref) (*os.File, error)
	Detach     func(lease.Ref) error
	// Gone proves that a dead holder's work on this host is gone, so that its lease can be taken at once (rule L6),
	// like lease.Want.Gone: acquiring the lease waits for its answer. Nil: never.
	Gone func(ctx context.Context, r lease.Record, held func() bool) bool
	// OnHeldBack is called when the store grants nothing for a while (rule L9). The call delays nothing. Nil: Log
	// has one line each time, and history an event.
	OnHeldBack func(time.Duration)
	// OnHeld is called with the holder that a fire waits for, once per holder. The call delays nothing.
	OnHeld func(*lease.HeldError)
	// OnOverrun is the same as lease.Guard.OnOverrun. The call delays nothing.
	OnOverrun func(*lease.Lease)
	// Spool keeps outcomes that could not be delivered, for any later dibs process on this host (rule T9). A run
	// that has ended holds its lease for a TTL at most while its outcome is put there.
	Spool Spool
	// Hooks are notified of what happens to jobs. They delay nothing: notifications that they do not accept in time
	// are dropped, with a line in the log for each. Nil: no notifications.
	Hooks Hooks
	// Observe receives what happens to ticks and runs. It is called on the path of the work, and must return at once.
	// Nil: nobody does.
	Observe observe.Func
	// TimeOfDay is this host's own clock, to compare with the store's; it decides nothing. It is read like a clock,
	// and returns at once. Nil: no comparison.
	TimeOfDay func() time.Time
	// Log takes one line per event. Logging delays nothing: lines that it does not take in time are dropped, and
	// their number is logged in a line of its own. Default slog.Default().
	Log *slog.Logger

	logOnce   sync.Once
	logger    *slog.Logger // Log, which nobody waits for
	partsOnce sync.Once
	made      parts
}

func (b *Backend) log() *slog.Logger {
	b.logOnce.Do(func() { b.logger = aside.Logger(cmp.Or(b.Log, slog.Default())) })
	return b.logger
}

// told reports whether somebody is told of outcomes, each of them once.
func (b *Backend) told() bool { return b.Hooks != nil || b.Observe != nil }

// Deliver delivers this host's spool to the store. It stops at the first item that the store does not accept, and
// when ctx ends: then it returns ErrEnough. An event that may still repeat is kept for a minute.
func (b *Backend) Deliver(ctx context.Context) error { return b.parts().outbox.deliver(ctx, false) }

// DeliverAll delivers those events too, for somebody who reads the history now.
func (b *Backend) DeliverAll(ctx context.Context) error { return b.parts().outbox.deliver(ctx, true) }

// Event records something that nobody should have to guess. It writes to the log, and to history if the store
// answers. Of many equal events the first is written at once, and the others are counted.
func (b *Backend) Event(ctx context.Context, e history.Event) { b.parts().recorder.event(ctx, e) }

// Record is Event without the line in the log.
func (b *Backend) Record(ctx context.Context, e history.Event) { b.parts().recorder.record(ctx, e) }

// Tell records one event at once, or returns why it could not. It does nothing if the store keeps no history.
func (b *Backend) Tell(ctx context.Context, e history.Event) error {
	return b.parts().recorder.recordNow(ctx, e)
}

// FlushHooks waits until the hooks have received what happened before, but no longer than within, and reports
// whether they have. Call it before you close what the hooks write to. Server.Run and Fire have already waited like
// this for a second when they return.
func (b *Backend) FlushHooks(within time.Duration) bool {
	return b.parts().notifier.queue.Flush(within)
}

// ClockStepped records that this process saw the store's clock step (rule L12).
func (b *Backend) ClockStepped(step time.Duration) { b.parts().recorder.clockStepped(step) }

// HeldBack records that this process waits for a store that is new or was restarted (rule L9).
func (b *Backend) HeldBack(wait time.Duration) { b.parts().recorder.recordHeldBack(wait) }

// Conclude settles what is left of a job that ends now, by the schedules of its definitions: the ticks that nobody
// claimed get their outcome (rule T11). It returns the removal that may then be made: of the concluded generation,
// at the instant up to which it was concluded. After an error, the next call continues from where this one stopped.
func (b *Backend) Conclude(ctx context.Context, known tick.Job) (removal tick.JobRequest, err error) {
	return b.parts().concluder.conclude(ctx, known)
}

// KeepOutput stores what a run printed. The run's lease is already released.
func (b *Backend) KeepOutput(ctx context.Context, r run.Record, output []byte) error {
	return b.parts().pruner.keepOutput(ctx, r, output)
}

// Retain deletes what history does not keep: what is older than 90 days, and the output of a job's runs beyond the
// newest 1,000, for the jobs that printed here. It takes at most the given number of store steps, and ends with ctx;
// the next call continues. Nothing that runs waits for it.
func (b *Backend) Retain(ctx context.Context, steps int) error {
	return b.parts().pruner.retain(ctx, steps)
}

// release releases what this process holds. If the store does not do so, that expires by itself, and nothing has
// failed: heard is false.
func (b *Backend) release(ctx context.Context) (heard bool, err error) {
	err = b.Book.Release(ctx)
	if errors.Is(err, lease.ErrUnavailable) {
		b.log().Warn("the store did not release what this process holds; it expires by itself", "event", "not-released", "error", err)
		return false, nil
	}
	return true, err
}
