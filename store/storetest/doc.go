// Package storetest is the one conformance suite of all stores: one named subtest per promise, in
// a namespace of its own. A store's own test is three lines:
//
//	func TestStore(t *testing.T) { storetest.Run(t, OpenConfig, testserver.Redis(t)) }
//
// One whose tasks join transactions of its callers passes RunTransactions as well.
//
// It calls nothing but the contracts, and adapts to nothing but what the store declares. "Another
// process" is another Open of the same namespace. Nothing waits for a length of time: a lease is
// made to lapse by renewing it for a moment, and the store's own clock tells when it has. Where a task
// must become due or expire, it is by that clock too.
package storetest
