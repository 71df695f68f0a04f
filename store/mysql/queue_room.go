package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/lease"
)

// A room has a place for each connection that the queue uses at a time. Others of the pool are left for the
// leases: a step may wait for a limit for some seconds, and no renewal is to wait for it. The queue waits here,
// first come, first served. A nil room has no end.
type room chan struct{}

// roomIn is less than half of a pool, as it is bounded now. Where that is none, the queue takes one all the same, and
// gives it back each time.
func roomIn(pool *sql.DB) room {
	n := pool.Stats().MaxOpenConnections
	if n == 0 {
		return nil
	}
	return make(room, max(1, (n-1)/2))
}

// errTwice is a fault of this package: steps that wait for another connection while they have one can use all of them
// up, and wait for each other then.
var errTwice = errors.New("a step that has a connection asks for another one")

// inStep is the step as part of which something is done.
type inStep struct{}

func alone(ctx context.Context) error {
	if b, _ := ctx.Value(inStep{}).(*board); b != nil && b.conn != nil {
		return errTwice
	}
	return nil
}

func (r room) enter(ctx context.Context) error {
	if err := alone(ctx); err != nil || r == nil {
		return err
	}
	select {
	case r <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", lease.ErrUnavailable, ctx.Err())
	}
}

func (r room) leave() {
	if r != nil {
		<-r
	}
}

// run sends a packet, when there is room for it.
func (q queues) run(ctx context.Context, p *packet, readers ...reader) error {
	if err := q.room.enter(ctx); err != nil {
		return err
	}
	defer q.room.leave()
	return q.database.run(ctx, p, readers...)
}
