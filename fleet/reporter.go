package fleet

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/build"
	"github.com/dibs-run/dibs/lease"
)

// again is how soon a report that failed is repeated.
const again = 5 * time.Second

// A Reporter keeps this process on record. It delays nothing: a report that the store does not take is repeated, and
// logged at DEBUG.
type Reporter struct {
	o    ReporterOptions
	wake chan struct{}

	mu   sync.Mutex
	last Process
}

// ReporterOptions configure a Reporter. All are required but TimeOfDay.
type ReporterOptions struct {
	// Store keeps the record; nil: there is none.
	Store  Store
	Keeper *lease.Keeper
	// Describe describes the process as it is now; the Reporter fills in ID, Version, ClockOffset, Since and Seen.
	// After an error the report is tried again soon.
	Describe func(ctx context.Context) (Process, error)
	// TimeOfDay is this host's clock, for ClockOffset; nil: that is unknown.
	TimeOfDay func() time.Time
	Log       *slog.Logger
}

// NewReporter returns a Reporter, which reports nothing before Run.
func NewReporter(o ReporterOptions) *Reporter {
	return &Reporter{o: o, wake: make(chan struct{}, 1), last: Process{ID: lease.NewNonce(), Version: build.Version()}}
}

// Run reports at once, every minute, and after each call of Changed, until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	for r.o.Store != nil && ctx.Err() == nil {
		wait := Every - rand.N(Every/10)
		if err := r.report(ctx); err != nil && ctx.Err() == nil {
			r.o.Log.Debug("this process could not be put on record", "error", err)
			wait = again
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-r.wake:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// Changed makes Run report soon.
func (r *Reporter) Changed() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Under is Changed for a process that is on record under another lease, or not at all.
func (r *Reporter) Under(l lease.Ref) {
	r.mu.Lock()
	same := r.last.Lease == l
	r.mu.Unlock()
	if !same {
		r.Changed()
	}
}

// End reports that the process has ended, if it was ever reported. Call it after Run has returned.
func (r *Reporter) End(ctx context.Context) {
	r.mu.Lock()
	p := r.last
	r.mu.Unlock()
	if p.Since.IsZero() {
		return
	}
	p.Ended = true
	if err := r.send(ctx, p, r.o.Keeper.Margin().RPCTimeout/2); err != nil { // the process waits for it
		r.o.Log.Debug("the end of this process could not be put on record", "error", err)
	}
}

func (r *Reporter) report(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, r.o.Keeper.Margin().TTL) // a new lease may have to wait
	defer cancel()
	p, err := r.o.Describe(bounded)
	if err != nil {
		return err
	}
	r.mu.Lock()
	since := r.last.Since
	r.mu.Unlock()
	if since.IsZero() {
		now, err := r.o.Keeper.Now(bounded)
		if err != nil {
			return err
		}
		since = now.UTC().Truncate(time.Microsecond)
	}
	if d, ok := Offset(r.o.Keeper, r.o.TimeOfDay); ok {
		p.ClockOffset = &d
	}
	r.mu.Lock()
	p.ID, p.Version, p.Since = r.last.ID, r.last.Version, since
	r.last = p
	r.mu.Unlock()
	return r.send(ctx, p, r.o.Keeper.Margin().RPCTimeout)
}

func (r *Reporter) send(ctx context.Context, p Process, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return r.o.Store.Report(ctx, p)
}

// ClockBound is how far a host's clock may differ from the store's before somebody should look at it. Ticks and leases
// follow the store's clock: a wrong host clock spoils only logs, and the times at which the host's own cron fires.
const ClockBound = time.Second

// Offset returns how far a host's clock is ahead of the store's; ok is false if that is not known well enough to
// compare it with ClockBound.
func Offset(k *lease.Keeper, timeOfDay func() time.Time) (d time.Duration, ok bool) {
	if timeOfDay == nil {
		return 0, false
	}
	now, within, ok := k.Estimate()
	if !ok || within > ClockBound/2 {
		return 0, false
	}
	return timeOfDay().Sub(now), true
}
