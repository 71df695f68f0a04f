package dibs

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// LockOptions configure how Do gets its lock. The zero value does not wait.
type LockOptions struct {
	// Wait is how long to wait for a lock that is held. 0: not at all; negative: until ctx ends.
	Wait time.Duration
}

// Do runs work while this process holds the lock of key, 1 to 512 bytes of UTF-8. While it does, nobody else in the
// fleet can hold it, neither another Do nor `dibs run --key`. The lock is renewed until work returns. If the lock is
// lost, for example because the store was unavailable for too long, work's context ends before another process can
// get the lock, with a cause that wraps lease.ErrLost, and work must return. l.Token() is larger than the token of
// every earlier holder: pass it to the systems that work writes to.
//
// Do returns the error of work. If it wraps lease.ErrHeld (a *lease.HeldError names the holder) or
// lease.ErrUnavailable, nothing ran. It can also wrap lease.ErrLost or lease.ErrNotReleased. A panic in work
// releases the lock and continues. Pass at most one LockOptions. Do works without Run.
func (c *Client) Do(ctx context.Context, key string, work func(ctx context.Context, l *lease.Lease) error, o ...LockOptions) error {
	k, err := lease.ParseKey(key)
	switch {
	case err != nil:
		return fmt.Errorf("dibs: Do: %w", err)
	case work == nil:
		return fmt.Errorf("dibs: Do %q: the function is nil", key)
	case len(o) > 1:
		return fmt.Errorf("dibs: Do %q: there are %d LockOptions; give one at most", key, len(o))
	}
	w := lease.Want{Key: k, Holder: c.self, Gone: c.backend.Gone, OnHeldBack: c.backend.OnHeldBack}
	if len(o) == 1 {
		w.Wait = o[0].Wait
	}
	guard := lease.Guard{Keeper: c.keeper, OnOverrun: c.overrun}
	if c.observe == nil {
		return guard.Run(ctx, w, work)
	}
	return c.observed(key, work, func(work lease.Work) error { return guard.Run(ctx, w, work) })
}
