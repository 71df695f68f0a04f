// Package lease lets one process at a time hold a key, for a bounded time that the holder keeps extending. The lease
// is kept in a store that the fleet already runs, and each grant carries a fencing token.
//
// A program opens a store and makes one [Keeper] for it. The Keeper renews all leases of the process in one request
// per heartbeat, and sends concurrent acquires and releases together. [Guard.Run] does the rest: it acquires the
// lease, runs a function under it, and releases it. If the lease is lost, the function's context ends before the key
// can be granted to anybody else.
//
//	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
//	…
//	guard := lease.Guard{Keeper: keeper}
//	err = guard.Run(ctx, lease.Want{Key: "reports"}, func(ctx context.Context, l *lease.Lease) error {
//		return writeReports(ctx, l.Token()) // refuse smaller tokens where you write
//	})
//
// An error that wraps [ErrHeld] names the holder of the key, and one that wraps [ErrUnavailable] means that the
// store does not answer: in both cases the work did not run. [ErrLost] means that the work was stopped.
// [Keeper.Acquire] returns a [Lease] without running a function under it.
//
// [MarginFor] computes how long the store may be silent before work is stopped. Choose the TTL for that, never for
// the length of the job: a job may run for days under a 15-second lease.
//
// # For maintainers
//
// [Store] is the contract for stores. Comments name the rules that the code keeps, such as L1; docs/why/rules.md has
// them. Requests carry a store instant after which the store refuses them (L1). Deadlines are counted on the boot
// clock, from the sending of an answered request (L4). No wall clock of a client decides anything.
package lease
