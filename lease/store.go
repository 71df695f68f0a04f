package lease

import (
	"context"
	"time"
)

// Store is the contract that a technology fulfils to keep leases. Its users go through a Keeper.
//
// Atomicity: each item of a batch is atomic by itself; items are independent, and one that is
// refused does not touch the others. Keys within one call are distinct, and stores lock them in
// sorted order.
//
// Clock: the store's own decides what has expired, and nothing else does. Every reply carries it, but that of a
// release need not: no clock decides there.
//
// Retries: a store never retries. An error of the call means that nothing is known of any item;
// the caller reads back, after not_after has passed (rule L1).
//
// Concurrency: all methods are safe for concurrent use by any number of goroutines and processes.
type Store interface {
	// Acquire grants each key whose record is free: never taken, released, or past its BusyUntil
	// (unless Unguarded) and either lapsed or exactly the Reclaim hold. The death of a supervisor
	// proves nothing of a request that works elsewhere, so Reclaim waits for BusyUntil as a lapsed
	// hold does, and is answered Held until then (rule L8). The granted token is
	// max(previous + 1, store time in µs) (rule L10). An owner that already holds the key
	// (a repeated request) is answered OK with its own record, unchanged.
	// Answers: OK, Held, Late, HeldBack, TooLong. Grants are never held back for longer than max_ttl from
	// now, whatever the record of it says: a store whose clock was ahead when it wrote that mends it here.
	//
	// A client knows the longest max_ttl that it was told of. A store that can lose its data under its clients
	// compares that with its own in Acquire and Renew: a shorter one is of a record that was made anew by
	// somebody who knew less. It takes the longer one over, and holds grants back for it, before it grants
	// anything (rule L9).
	Acquire(ctx context.Context, reqs []AcquireRequest) (Reply, error)

	// Renew sets expires = store now + TTL where the record is still this hold's, has not
	// lapsed and is not broken: a lapsed lease is never revived, even if nobody took it
	// (rule L1). Answers: OK (its record carries Wanted), Gone, Late.
	Renew(ctx context.Context, reqs []RenewRequest) (Reply, error)

	// Release frees each record that is still this hold's, keeping it and its token.
	// Answers: OK (also for a lapsed hold that nobody took), Gone.
	Release(ctx context.Context, refs []Ref) (Reply, error)

	// RequestRelease writes a Replace request on the record, if it is still live, held by ref and declared
	// Replaceable; the newest request stands. Answers: OK, Gone (also when not replaceable).
	RequestRelease(ctx context.Context, ref Ref, by Holder) (Reply, error)

	// Break forbids further renewals of the hold that is there and leaves expires alone; with
	// b.Now it frees the record at once, which is unsafe (rule L5). b.At is set by the store.
	// With a non-zero ref.Owner only that hold is broken. Answers: OK (the record as it now
	// stands, Broken set), Gone (nothing is held, or another hold).
	Break(ctx context.Context, ref Ref, b Broken) (Reply, error)

	// Trim shortens each hold that lasts longer than a renewal now would make it, by more than MaxStep: expires
	// becomes store now + its TTL. Such a hold was renewed while the store's clock was further ahead than now (rule
	// L12). Its holder has renewed since, or stops within its TTL from that renewal. BusyUntil stays.
	Trim(ctx context.Context, keys []Key) error

	// Read returns the records of keys, one answer each (Gone and a zero record where there is none). It never
	// acquires. Without keys it answers the store's time and nothing else.
	Read(ctx context.Context, keys []Key) (Reply, error)

	// List returns the records whose key begins with prefix, sorted by key, 10,000 at most: live ones only, or with
	// all also free ones.
	List(ctx context.Context, prefix string, all bool) (Reply, error)
}

// Overlapping is a Store that waits for more than its processor before it answers an acquire, such as for a disk.
// While one batch waits, another can be carried out.
type Overlapping interface {
	// AcquiresAtOnce is how many batches of acquires are worth having under way.
	AcquiresAtOnce() int
}

// AcquireRequest asks for one key.
type AcquireRequest struct {
	Key    Key
	Holder Holder // Holder.ID is the owner
	TTL    time.Duration
	// NotAfter is the store instant past which the store must refuse (Late); zero: no bound.
	NotAfter time.Time
	// Reclaim names a live hold whose supervisor is proven dead; it may be taken over (rule L6),
	// once its BusyUntil is past.
	Reclaim Ref
	// Unguarded disregards BusyUntil (`on_lost_request: proceed`, rule L8).
	Unguarded bool
	// Seen is the highest Reply.Epoch that the asker knows of this namespace; 0: none. A store with a lower epoch has
	// lost a part of its history: it is an old primary, a stale replica or a backup. It holds grants back as after a
	// change of its identity, and goes on with an epoch above Seen (rule L9).
	Seen Epoch
}

// An Epoch numbers the spans of a namespace's history: it grows with each change of the store's identity
// (rule L9). It is max(previous + 1, store time in µs), at most MaxEpoch.
type Epoch int64

// MaxEpoch is the highest epoch: the largest integer that every store keeps exactly. A higher one is taken for it.
const MaxEpoch Epoch = 1<<53 - 1

// Seen is the highest epoch that the askers of a batch know.
func Seen(reqs []AcquireRequest) (e Epoch) {
	for _, r := range reqs {
		e = max(e, min(r.Seen, MaxEpoch))
	}
	return e
}

// RenewRequest asks for more time.
type RenewRequest struct {
	Ref
	TTL      time.Duration
	NotAfter time.Time
	// BusyUntil, where not zero, is stored with the record (rule L8), unless a later one is there:
	// a renewal never lowers it. While the hold lasts, also lapsed, the greatest one stands;
	// a release clears it.
	BusyUntil time.Time
}

// Reply answers a batch: answer i for item i, and the store's time at which it was carried out.
type Reply struct {
	Now     time.Time // zero where a Release read no clock
	Answers []Answer
	// Epoch, of an Acquire, is that of the namespace; 0 where the store has none, since it cannot be replaced by
	// an older state of itself.
	Epoch Epoch
}

// Answer is what a store says to one item.
type Answer struct {
	Status Status
	// Record is the record as it stands after the operation; for Held the holder's.
	Record Record
	// Until: for HeldBack when grants resume; for TooLong Until − Now is the longest TTL.
	Until time.Time
}

// Status is how one item of a batch ended.
type Status uint8

// The statuses of an Answer.
const (
	// OK: done.
	OK Status = iota + 1
	// Held: another hold is live, or its last request may still be at work (BusyUntil).
	Held
	// Gone: not, or no longer, this hold's: lapsed, taken, released or broken.
	Gone
	// Late: the request arrived past its NotAfter (rule L1). Nothing was done.
	Late
	// HeldBack: the store's identity changed, and nothing is granted until Until (rule L9).
	HeldBack
	// TooLong: the TTL is longer than the store's max_ttl (rule L9).
	TooLong
)

func (s Status) String() string {
	return [...]string{"none", "ok", "held", "gone", "late", "held back", "ttl too long"}[min(int(s), 6)]
}

// A Notifier tells when a key may have become free. It is a hint that may be missing or wrong, so a waiter polls as
// well.
type Notifier interface {
	// Watch returns a channel that receives after each release or break of key, until ctx ends.
	Watch(ctx context.Context, key Key) (<-chan struct{}, error)
}
