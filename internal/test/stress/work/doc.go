// Package work holds one test: worker processes work off a queue as fast as they can while one of them is
// killed every second, and a ledger that is no store watches that each task's effect is applied once per token,
// that none is lost, that none is completed under another token than its last, and that a limit of one is never
// exceeded.
//
// The ledger is memory that all the processes share. A task's effect is an entry that only a larger
// token than the last may make, as whatever tasks write to should demand.
package work
