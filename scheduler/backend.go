package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// A Backend is where a job's lease, claims and history live, all three together (rule T9): the
// host's own directory for jobs of scope host, the shared store for those of scope global.
type Backend struct {
	// Name is what people know it by: "host", or the store's address without its password.
	Name    string
	Keeper  *lease.Keeper
	Book    *tick.Book
	Ticks   tick.Store
	History history.Store
	// Self describes this process as a holder.
	Self lease.Holder
	// Descriptor and Detach are the directory's: see store.Store. Nil elsewhere.
	Descriptor func(lease.Ref) (*os.File, error)
	Detach     func(lease.Ref) error
	// Gone proves that a dead holder's work on this host is gone, so that its lease can be had
	// at once (rule L6), as lease.Want's does: who wants the lease waits for its answer. Nil: never.
	Gone func(ctx context.Context, r lease.Record, held func() bool) bool
	// OnHeldBack hears that the store grants nothing for a while (rule L9). Nobody waits for it. Nil: Log has one line
	// for each time, and history an event.
	OnHeldBack func(time.Duration)
	// OnHeld hears of the holder that a fire waits for, once per holder. Nobody waits for it.
	OnHeld func(*lease.HeldError)
	// OnOverrun is lease.Guard's. Nobody waits for it.
	OnOverrun func(*lease.Lease)
	// Spool keeps outcomes that could not be delivered, for any later dibs on this host (rule T9). A run that
	// has ended holds its lease for a TTL at most while an outcome is put there.
	Spool Spool
	// Hooks are told what happens to jobs. Nobody waits for them: what they do not take in time is not told, and the
	// log has a line for each. Nil: nobody is told.
	Hooks Hooks
	// TimeOfDay is this host's own clock, to be compared with the store's; nothing is decided by it. It is read like a
	// clock, and returns at once. Nil: it is not compared.
	TimeOfDay func() time.Time
	// Log takes one line per event. Nobody waits for it: lines that it does not take in time are dropped, and
	// counted in a line of their own. Default slog.Default().
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

// Deliver tells the store what it could not be told before: this host's spool. It stops at the first
// item that the store does not take, and when ctx ends: then it returns ErrEnough. An event of which more may come
// is kept for a minute.
func (b *Backend) Deliver(ctx context.Context) error { return b.parts().outbox.deliver(ctx, false) }

// DeliverAll tells it all of that, for somebody who looks at it now.
func (b *Backend) DeliverAll(ctx context.Context) error { return b.parts().outbox.deliver(ctx, true) }

// Event records something that nobody should have to guess; history may be down, the log is not. Of
// many that are alike the first is written at once, and the others are counted.
func (b *Backend) Event(ctx context.Context, e history.Event) { b.parts().recorder.event(ctx, e) }

// Record is Event without the line in the log.
func (b *Backend) Record(ctx context.Context, e history.Event) { b.parts().recorder.record(ctx, e) }

// Tell records one event at once, or says why it could not; nothing is told where the store keeps no history.
func (b *Backend) Tell(ctx context.Context, e history.Event) error {
	return b.parts().recorder.recordNow(ctx, e)
}

// FlushHooks waits until the hooks have taken what happened before, but no longer than within, and reports
// whether they have. Call it before you close what they tell on. Server.Run and Fire have waited so for a
// second when they return.
func (b *Backend) FlushHooks(within time.Duration) bool {
	return b.parts().notifier.queue.Flush(within)
}

// ClockStepped records that this process saw the store's clock step (rule L12).
func (b *Backend) ClockStepped(step time.Duration) { b.parts().recorder.clockStepped(step) }

// HeldBack records that this process waits for a store that is new or was restarted (rule L9).
func (b *Backend) HeldBack(wait time.Duration) { b.parts().recorder.recordHeldBack(wait) }

// Conclude settles what is left of a job that ends now, by the schedules of its definitions: the ticks that nobody
// claimed get their outcome (rule T11). It returns the removal that may then be made: of the generation that was
// concluded, at the instant up to which it was. An error leaves the job as far as it has come; the next call goes on.
func (b *Backend) Conclude(ctx context.Context, known tick.Job) (removal tick.JobRequest, err error) {
	return b.parts().concluder.conclude(ctx, known)
}

// KeepOutput keeps what a run printed. Its lease is released by then.
func (b *Backend) KeepOutput(ctx context.Context, r run.Record, output []byte) error {
	return b.parts().pruner.keepOutput(ctx, r, output)
}

// Retain forgets what history does not keep: what is older than 90 days, and what a job's runs printed beyond
// the newest 1,000, of the jobs that printed here. It takes at most so many steps of the store, and ends with
// ctx; what is left is for the next one. Nothing that runs waits for it.
func (b *Backend) Retain(ctx context.Context, steps int) error {
	return b.parts().pruner.retain(ctx, steps)
}
