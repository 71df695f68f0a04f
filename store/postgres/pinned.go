package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	errSessionLost = errors.New("the connection that held the session locks is lost")
	errPooler      = errors.New("a pooler is in the way: session locks need a direct connection to the server, so remove lock=session or use the server's own address")
)

// pinned is the one connection of a process whose session holds the named locks. Its operations run one after the
// other. The end of a caller's context does not cut an operation short, since that would close the connection and
// lose every lock. The caller gets its context's error, and the operation goes on without it, for at most patience.
type pinned struct {
	pool     *pgxpool.Pool
	patience time.Duration
	// turn holds the connection while nobody uses it. A nil in it means that there is no connection.
	turn chan *pgx.Conn
	// lost is called, before anything else can be sent, when the connection is gone.
	lost func()
}

func newPinned(pool *pgxpool.Pool, patience time.Duration, lost func()) *pinned {
	p := &pinned{pool: pool, patience: patience, turn: make(chan *pgx.Conn, 1), lost: lost}
	p.turn <- nil
	return p
}

// use waits for its turn and lets f use the connection.
func (p *pinned) use(ctx context.Context, f func(context.Context, *pgx.Conn) (*pgx.Conn, error)) error {
	var c *pgx.Conn
	select {
	case c = <-p.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.patience)
		defer cancel()
		after, err := f(ctx, c)
		if after != nil && after.IsClosed() {
			p.lost()
			after = nil
		}
		p.turn <- after
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connect makes the connection where there is none.
func (p *pinned) connect(ctx context.Context) error {
	return p.use(ctx, func(ctx context.Context, c *pgx.Conn) (*pgx.Conn, error) {
		if c != nil {
			return c, nil
		}
		c, err := dial(ctx, p.pool)
		if err == nil {
			return c, nil
		}
		if errors.Is(err, errPooled) {
			err = errPooler
		}
		if c != nil { // whose settings are not known
			_ = c.Close(ctx)
		}
		return nil, err
	})
}

// send is db.send over the connection. It never makes a new one: an operation that relies on a lock must not run in a
// session that does not have it.
func (p *pinned) send(ctx context.Context, b *pgx.Batch) error {
	return p.use(ctx, func(ctx context.Context, c *pgx.Conn) (*pgx.Conn, error) {
		if c == nil {
			return nil, errSessionLost
		}
		return c, c.SendBatch(ctx, b).Close()
	})
}

// drop gives the connection up.
func (p *pinned) drop(ctx context.Context) error {
	return p.use(ctx, func(ctx context.Context, c *pgx.Conn) (*pgx.Conn, error) {
		if c == nil {
			return nil, nil
		}
		if err := c.Close(ctx); err != nil {
			return c, fmt.Errorf("closing the session: %w", err)
		}
		return c, nil
	})
}
