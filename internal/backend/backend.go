package backend

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// Options describe the process for which a backend is made. All have defaults but Log.
type Options struct {
	// Role is how others recognise the process: its Self.Command. Default none.
	Role string
	// Dir is a directory of this host. It keeps outcomes that could not be written to the store, and what is known
	// about the store. Default none: outcomes are kept in memory, and nothing is known.
	Dir string
	// Namespace separates users of the same store and the same Dir.
	Namespace string
	// TTL is the TTL of the leases. Default the store's longest.
	TTL time.Duration
	// Seen is the latest epoch of the store that is known (rule L9).
	Seen lease.Epoch
	// Reclaim kills the work of a dead supervisor of this host, so that its lease can be acquired at once. Without
	// it, only a lease whose work is gone is acquired at once, and another one must expire (rule L6).
	Reclaim bool
	// Keeper keeps the leases; the caller still owns it. Default a new one, which Close ends.
	Keeper *lease.Keeper
	// OnOverrun is the backend's.
	OnOverrun func(*lease.Lease)
	// Observe is the backend's and, unless Keeper is set, its keeper's. Default none.
	Observe observe.Func
	Log     *slog.Logger
}

// Silent returns o without a log, and unobserved.
func (o Options) Silent() Options {
	o.Log, o.Observe = slog.New(slog.DiscardHandler), nil
	return o
}

// A Backend is the scheduler's Backend, and the store behind it. It is safe for concurrent use.
type Backend struct {
	*scheduler.Backend
	Store *store.Store

	own      bool         // the keeper
	ends     func()       // what else Close does
	backTold atomic.Int64 // when the hold-back ends of which was told last, by the boot clock
}

// New makes the backend of an opened store, which the caller still owns. It sends no request to the store. A store
// that keeps no ticks has leases only.
func New(st *store.Store, o Options) (*Backend, error) {
	self := command.Self()
	self.Command = o.Role
	if st.Properties.Reach == store.Host {
		self.HostID = st.Properties.InstallationID // rule H1
	}
	p := &scheduler.Backend{Name: st.URL, Keeper: o.Keeper, Ticks: st.Ticks, History: st.History, Fleet: st.Fleet, Self: self, Descriptor: st.Descriptor,
		Detach: st.Detach, Gone: gone(self, o.Reclaim), OnOverrun: o.OnOverrun, TimeOfDay: clock.System.Wall, Observe: o.Observe, Log: o.Log}
	b := &Backend{Backend: p, Store: st, own: o.Keeper == nil, ends: func() {}}
	if b.own {
		k, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify, Seen: o.Seen, OnStep: b.stepped, Observe: o.Observe,
			Margin: lease.MarginFor(cmp.Or(o.TTL, st.Properties.MaxTTL, lease.DefaultTTL))})
		if err != nil {
			return nil, err
		}
		p.Keeper = k
	}
	p.OnHeldBack = b.heldBack
	p.Book = tick.NewBook(st.Ticks, p.Keeper, self)
	p.Book.OnHeldBack = b.heldBack
	if o.Dir != "" {
		p.Spool = spool.In(o.Dir, st.Properties.InstallationID, o.Namespace)
	}
	return b, nil
}

// Close ends the leases of the keeper that New made. It does not close the store, unless Open opened it.
func (b *Backend) Close() {
	if b.own {
		b.Keeper.Close()
	}
	b.ends()
}

// heldBack reports once each time that the store grants nothing yet: every lock and role that waits calls it.
func (b *Backend) heldBack(d time.Duration) {
	end := b.Keeper.Boot() + d
	if before := time.Duration(b.backTold.Swap(int64(end))); before != 0 && end-before < time.Second {
		return
	}
	b.Log.Warn(lease.HoldBackText(d), "event", "held-back", "wait", d.Round(time.Millisecond), "store", b.Name)
	if b.History != nil {
		go b.HeldBack(d)
	}
}

func (b *Backend) stepped(d time.Duration) {
	b.Log.Warn("the store's clock stepped", "event", "clock-step", "step", d, "store", b.Name)
	if b.History != nil {
		b.ClockStepped(d)
	}
}

// gone proves that the work of a holder on this host is gone (rule L6).
func gone(self lease.Holder, reclaim bool) func(context.Context, lease.Record, func() bool) bool {
	return func(ctx context.Context, r lease.Record, held func() bool) bool {
		if command.WorkGone(r.Key, r.Holder) || command.EarlierBoot(self, r.Holder) {
			return true
		}
		if !reclaim {
			return false
		}
		done, err := command.KillOrphaned(ctx, r.Key, r.Holder, held)
		return err == nil && done
	}
}
