package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/lease"
)

// A room has a place for each connection that the queue uses at a time. The other connections of the pool are left to
// the leases: a step may wait for a limit for some seconds, and no renewal must wait for it. The queue waits here,
// first come, first served. A nil room is unbounded.
type room chan struct{}

// roomIn is less than half of a pool, as it is bounded now. If that is none, the queue takes one connection all the
// same, and gives it back each time.
func roomIn(pool *sql.DB) room {
	n := pool.Stats().MaxOpenConnections
	if n == 0 {
		return nil
	}
	return make(room, max(1, (n-1)/2))
}

// errTwice is a fault of this package. Steps that wait for a second connection while they have one could use all of
// them up, and would then wait for each other.
var errTwice = errors.New("a step that has a connection asks for another one")

// inStep is the step as part of which something is done.
type inStep struct{}

func alone(ctx context.Context) error {
	if b, _ := ctx.Value(inStep{}).(*txn); b != nil && b.conn != nil {
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
