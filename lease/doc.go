// Package lease lets one process at a time hold a key, for a bounded time that the holder keeps extending. The lease
// is kept in a store that the fleet runs anyway, and each grant carries a fencing token.
//
// A program opens a store and makes one [Keeper] for it. The Keeper renews all leases of the process in one request
// per heartbeat, and sends acquires and releases that come at the same time together. [Guard.Run] does the rest: it
// acquires the lease, runs a function under it, and releases it. If the lease is lost, the function's context ends
// before anybody else can be granted the key.
//
//	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
//	…
//	guard := lease.Guard{Keeper: keeper}
//	err = guard.Run(ctx, lease.Want{Key: "reports"}, func(ctx context.Context, l *lease.Lease) error {
//		return writeReports(ctx, l.Token()) // refuse smaller tokens where you write
//	})
//
// An error that wraps [ErrHeld] says who holds the key, [ErrUnavailable] that the store does not answer: the work did
// not run then. [ErrLost] says that the work was stopped. [Keeper.Acquire] gives a [Lease] without a function around
// it.
//
// [MarginFor] computes how long the store may be silent before work is stopped. The TTL is sized to that, never to
// the length of the job: a job may run for days under a 15-second lease.
//
// # For maintainers
//
// [Store] is the contract that a technology fulfils. Comments name the rules that the code keeps, such as L1;
// docs/why/rules.md has them. Requests carry a store instant after which the store refuses them (L1). Deadlines are
// counted on the boot clock, from the sending of an answered request (L4). No wall clock of a client decides
// anything.
package lease
