package lease

import (
	"context"
	"time"
)

// Store is what a technology implements to keep leases. Programs use it through a Keeper.
//
// Atomicity: each item of a batch is one atomic step. Items are independent: a refused one does not touch the
// others. The keys of one call are distinct, and a store locks them in sorted order.
//
// Clock: only the store's own clock decides what has expired. Each Reply has its time, except that a Release need
// not read the clock.
//
// Retries: a store never retries. If a call returns an error, the result of every item is unknown. The caller reads
// the records back after NotAfter has passed (rule L1).
//
// Concurrency: any number of goroutines and processes may call all methods at the same time.
type Store interface {
	// Acquire grants each key whose record is free. It is free if the key was never taken or was released, or if
	// its hold has lapsed or is the one that Reclaim names. A lapsed or reclaimed hold also waits for its
	// BusyUntil, unless Unguarded is set: the death of a supervisor proves nothing about a request that is at work
	// elsewhere (rule L8). The granted token is max(previous + 1, store time in µs) (rule L10). An owner that
	// already holds the key, as after a repeated request, gets OK and its own record, unchanged.
	//
	// Answers: OK, Held, Late, HeldBack, TooLong. No hold-back lasts longer than max_ttl from now: if the record
	// says so, because the store's clock was ahead when it was written, Acquire corrects it.
	//
	// A client remembers the longest max_ttl that it was told. A store that can lose its data under its clients
	// compares that with its own in Acquire and Renew. If its own is shorter, somebody who knew less has created
	// the record again: the store then adopts the longer one, and holds grants back for that long before it grants
	// anything (rule L9).
	Acquire(ctx context.Context, reqs []AcquireRequest) (Reply, error)

	// Renew sets Expires to the store's time + TTL, if the record is still this hold's, has not lapsed and is not
	// broken. A lapsed lease is never revived, even if nobody took it (rule L1). Answers: OK (its record has
	// Wanted), Gone, Late.
	Renew(ctx context.Context, reqs []RenewRequest) (Reply, error)

	// Release frees each record that is still this hold's. The record and its token stay. Answers: OK (also for a
	// lapsed hold that nobody took), Gone.
	Release(ctx context.Context, refs []Ref) (Reply, error)

	// RequestRelease writes a Replace request on the record, if it is live, held by ref and declared Replaceable. A
	// newer request replaces an older one. Answers: OK, Gone (also if it is not replaceable).
	RequestRelease(ctx context.Context, ref Ref, by Holder) (Reply, error)

	// Break forbids further renewals of the current hold, and leaves Expires as it is. With b.Now it frees the
	// record at once, which is unsafe (rule L5). The store sets b.At. If ref.Owner is not zero, only that hold is
	// broken. Answers: OK (with the record afterwards, Broken set), Gone (nothing is held, or another hold).
	Break(ctx context.Context, ref Ref, b Broken) (Reply, error)

	// Trim shortens each hold whose Expires is later, by more than MaxStep, than a renewal now would set it:
	// Expires becomes the store's time + its TTL. Such a hold was renewed while the store's clock was further ahead
	// (rule L12). Its holder has renewed since then, or stops within its TTL of that renewal. BusyUntil stays.
	Trim(ctx context.Context, keys []Key) error

	// Read returns the records of keys, one answer each (Gone and a zero record where there is none). It never
	// acquires. Without keys it answers the store's time and nothing else.
	Read(ctx context.Context, keys []Key) (Reply, error)

	// List returns the records whose keys begin with prefix, sorted by key, at most 10,000. It returns live ones
	// only; with all, also free ones. It answers the store's time, whether or not there are any.
	List(ctx context.Context, prefix string, all bool) (Reply, error)
}

// Overlapping is a Store whose acquires wait for more than its processor, such as for a disk. While one batch
// waits, another one can be carried out.
type Overlapping interface {
	// AcquiresAtOnce returns how many batches of acquires are worth sending at the same time.
	AcquiresAtOnce() int
}

// AcquireRequest asks for one key.
type AcquireRequest struct {
	Key    Key
	Holder Holder // Holder.ID is the owner
	TTL    time.Duration
	// NotAfter is the store instant past which the store must refuse (Late); zero: no bound.
	NotAfter time.Time
	// Reclaim names a live hold whose supervisor is proven dead. The request may take it over (rule L6) once its
	// BusyUntil has passed. Zero: none.
	Reclaim Ref
	// Unguarded disregards BusyUntil (`on_lost_request: proceed`, rule L8).
	Unguarded bool
	// Seen is the highest Reply.Epoch of this namespace that the caller knows; 0: none. A store with a lower epoch
	// has lost a part of its history: it is an old primary, a stale replica or a backup. It then holds grants back
	// as after a change of its identity, and continues with an epoch above Seen (rule L9).
	Seen Epoch
}

// An Epoch numbers the periods of a namespace's history: it grows with each change of the store's identity (rule
// L9). It is max(previous + 1, store time in µs), and at most MaxEpoch.
type Epoch int64

// MaxEpoch is the highest epoch: the largest integer that every store keeps exactly. A store treats a higher one as
// MaxEpoch.
const MaxEpoch Epoch = 1<<53 - 1

// Seen returns the highest epoch that the callers of a batch know; 0: none.
func Seen(reqs []AcquireRequest) (e Epoch) {
	for _, r := range reqs {
		e = max(e, min(r.Seen, MaxEpoch))
	}
	return e
}

// RenewRequest asks for more time for one hold.
type RenewRequest struct {
	Ref
	TTL      time.Duration
	NotAfter time.Time
	// BusyUntil, if not zero, is stored with the record (rule L8), unless the record has a later one. While the
	// hold lasts, also after it has lapsed, the latest one counts. A release clears it.
	BusyUntil time.Time
}

// Reply has the answers to a batch, in the order of its items, and the store's time at which it was carried out.
type Reply struct {
	Now     time.Time // zero where a Release read no clock
	Answers []Answer
	// Epoch, in the reply to an Acquire, is the namespace's. 0: the store has none, because no older state can
	// replace it.
	Epoch Epoch
}

// Answer is what a store says to one item.
type Answer struct {
	Status Status
	// Record is the record after the operation; for Held, the holder's.
	Record Record
	// Until is, for HeldBack, when grants resume. For TooLong, Until − Now is the longest TTL.
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

// A Notifier says when a key may have become free. A notification is a hint: it may be missing or wrong, so callers
// also poll.
type Notifier interface {
	// Watch returns a channel that receives a value after each release or break of key, until ctx ends.
	Watch(ctx context.Context, key Key) (<-chan struct{}, error)
}
