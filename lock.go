package dibs

import (
	"context"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// LockOptions say how Do gets its lock. The zero value does not wait.
type LockOptions struct {
	// Wait is how long to wait for a lock that is held. 0: not at all; negative: for as long as ctx lasts.
	Wait time.Duration
}

// Do runs work while this process holds the lock of a key, 1 to 512 bytes of UTF-8, and nobody else in the fleet does:
// neither another Do nor `dibs run --key`. The lock is renewed for as long as work takes. If it is lost, because
// the store was away for too long, say, work's context ends before anybody else can have it, with a cause that
// wraps lease.ErrLost, and work must return. l.Token() is larger than that of all earlier holders: hand it to whatever
// work writes to.
//
// The error is work's own; or it wraps lease.ErrHeld (a *lease.HeldError says who has it) or
// lease.ErrUnavailable, and then nothing ran; or lease.ErrLost, or lease.ErrNotReleased. A panic of work
// releases the lock and goes on. There may be one LockOptions at most. Do needs no Run.
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
	return lease.Guard{Keeper: c.keeper, OnOverrun: c.overrun}.Run(ctx, w, work)
}
