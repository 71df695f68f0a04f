// Package lease is exclusive hold of a key for a bounded time, with a fencing token, kept in a
// store that the fleet already runs.
//
// A Keeper, one per process and store, sends the heartbeats of all leases in one round trip and
// coalesces concurrent acquires and releases. A Guard puts a lease in front of a piece of work:
// it acquires, stops the work BEFORE the lease can expire elsewhere, and releases. The Store
// contract is what a technology fulfils to be used by them.
//
// The rules are numbered in docs/why/rules.md; comments here name the ones that they keep.
package lease
