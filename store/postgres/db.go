package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// db carries out operations. An operation is one batch: its statements travel together and are one implicit
// transaction. So the server needs nothing more from the client to commit, and one fsync commits all of it. A db is
// safe for concurrent use.
type db struct {
	// send returns once the whole batch is committed and its results are read, or with an error.
	send func(context.Context, *pgx.Batch) error
	// foreign connections have settings of their own, which each operation overrides for itself.
	foreign bool
	// behind a pooler a connection has no settings at all. Nil: of one session.
	behind *behind
	// address is the server's, without a password, for errors.
	address string
}

// A step is one statement of an operation.
type step struct {
	sql  string
	args []any
	row  func(pgx.Rows) error // called for each row; nil ignores them
}

func do(sql string, args ...any) step { return step{sql: sql, args: args} }

func (s step) each(row func(pgx.Rows) error) step { s.row = row; return s }

// run carries out an operation. Do not use what the steps read unless it returns nil: the commit comes after the last
// step, and can still fail.
func (d *db) run(ctx context.Context, what string, steps ...step) error {
	var b pgx.Batch
	if d.foreign || d.behind != nil && d.behind.pooler.Load() {
		b.Queue(sqlSettings()[1])
	}
	for _, s := range steps {
		s.queue(&b)
	}
	if err := d.send(ctx, &b); err != nil {
		return d.fail(what, err)
	}
	return nil
}

// queue adds the step to a batch.
func (s step) queue(b *pgx.Batch) {
	if q := b.Queue(s.sql, s.args...); s.row != nil {
		q.Query(func(rows pgx.Rows) error {
			for rows.Next() {
				if err := s.row(rows); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	}
}

// overPool sends batches over any connection of a pool.
func overPool(p *pgxpool.Pool) func(context.Context, *pgx.Batch) error {
	return func(ctx context.Context, b *pgx.Batch) error { return p.SendBatch(ctx, b).Close() }
}

// forLeases is how many connections of a pool the queue leaves free.
const forLeases = 2

// besideLeases sends batches that may wait for another program's transaction, for seconds. They never take the pool's
// last connections, so no renewal waits for a connection because of them: they wait here instead.
func besideLeases(p *pgxpool.Pool) func(context.Context, *pgx.Batch) error {
	places, send := make(chan struct{}, max(1, p.Config().MaxConns-forLeases)), overPool(p)
	return func(ctx context.Context, b *pgx.Batch) error {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			return send(ctx, b)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// column makes one array argument of a batch.
func column[T, V any](items []T, of func(T) V) []V {
	c := make([]V, len(items))
	for i, item := range items {
		c[i] = of(item)
	}
	return c
}

// micros and instant convert between an instant and its microseconds; zero is zero.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// instant is the reverse of micros.
func instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// past is the end of the range of names that begin with a prefix, told as [from, to) with an empty to for none.
// No text in UTF-8 has the byte 0xff.
func past(to string) []byte {
	if to == "" {
		return []byte{0xff}
	}
	return []byte(to)
}

// beyond is larger than all keys with the prefix, and no larger than any other that follows them.
func beyond(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return past("")
}
