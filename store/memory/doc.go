// Package memory keeps leases, ticks, history and queues in this process's memory: the store for tests.
//
//	st := memory.New(memory.Options{}).Store()
//
// Several clients of one [Backend] share its data, as processes share a server. It excludes within one process only
// and forgets everything when the process ends.
//
// It is also the reference: the other stores mean what its decisions say, and simulations wrap it. Each decision is a
// small function on one record and the instant of the store's clock. The methods of the contracts lock, read the
// clock once, and apply the decision item by item.
package memory
