package postgres

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/store"
)

// A pooler, such as pgbouncer, may give each transaction another session of the server. What belongs to a session
// does not work through it: prepared statements (another client may have made one of that name), SET (other clients
// get the setting), LISTEN (another client is notified), and session locks. So behind a pooler every statement is
// sent whole, settings are made for each transaction, and waiters poll. In session mode this would not be needed, but
// the client cannot tell the modes apart.

// errPooled ends a connection that turned out to go through a pooler: the next one is made in the right mode.
var errPooled = errors.New("a pooler is in the way")

// behind says whether the connections of our own pool go through a pooler.
type behind struct{ pooler atomic.Bool }

// poolerBetween says whether a connection goes through a pooler: the server tells the client the number of its
// process at connecting, and a pooler tells another number.
func poolerBetween(ctx context.Context, c *pgconn.PgConn) (bool, error) {
	r := c.ExecParams(ctx, "SELECT pg_backend_pid()", nil, nil, nil, nil).Read()
	if r.Err != nil || len(r.Rows) != 1 {
		return false, r.Err
	}
	pid, err := strconv.ParseUint(string(r.Rows[0][0]), 10, 32)
	return uint32(pid) != c.PID(), err
}

// before sets a new connection's mode, once we know of a pooler. A mode that the address names stays.
func (b *behind) before(_ context.Context, c *pgx.ConnConfig) error {
	if b.pooler.Load() && c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return nil
}

// after checks a new connection, and makes our settings if it is the server's own session.
func (b *behind) after(ctx context.Context, c *pgx.Conn) error {
	pooled, err := poolerBetween(ctx, c.PgConn())
	if err != nil {
		return err
	}
	if !pooled {
		return settings(ctx, c)
	}
	b.pooler.Store(true)
	if c.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		return errPooled
	}
	return nil
}

// foreignBehind looks whether a caller's pool goes through a pooler.
func foreignBehind(ctx context.Context, pool *pgxpool.Pool) (b *behind, err error) {
	b = new(behind)
	c, err := pool.Acquire(ctx)
	if err != nil {
		return b, err
	}
	defer c.Release()
	pooled, err := poolerBetween(ctx, c.Conn().PgConn())
	b.pooler.Store(pooled)
	return b, err
}

// behindPooler notes in the properties what a pooler takes away.
func behindPooler(p *store.Properties, foreign bool, pool *pgxpool.Pool) {
	p.Weaker = append(p.Weaker, "A pooler is in the way: nobody is notified of a release or a task, so waiters poll, which takes a little longer.")
	if foreign && pool.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		p.Flaw(store.Flaw{Breaks: true, What: "A pooler is in the way, and this pool keeps prepared statements: in transaction mode operations fail, because another client made a statement of that name.",
			Cure: "Open the pool with default_query_exec_mode=exec."})
	}
}
