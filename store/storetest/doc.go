// Package storetest is the conformance suite of all stores: one named subtest per promise, each in its own
// namespace. A store's own test is three lines:
//
//	func TestStore(t *testing.T) { storetest.Run(t, OpenConfig, testserver.Redis(t)) }
//
// A store whose tasks can join its callers' transactions passes RunTransactions as well.
//
// The suite calls only the contracts, and adapts only to what the store declares. "Another process" is another Open
// of the same namespace. Nothing waits for a length of time: a lease is made to lapse by renewing it for a moment,
// and the store's own clock tells when it has. Tasks become due or expire by that clock too.
package storetest
