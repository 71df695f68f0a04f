// Package memory keeps leases, ticks, history and queues in this process's memory. It is the reference:
// the other stores mean what its decisions say, and simulations wrap it. It excludes within one
// process only and forgets everything with it, so it is for tests.
//
// Each decision is a small function on one record and the instant of the store's clock; the
// methods of the contracts lock, read the clock once, and apply the decision item by item.
package memory
