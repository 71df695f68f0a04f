//go:build linux

package file

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"
)

// A turn orders this process's writing transactions on a database: they wait in line. SQLite's own waiting looks
// again after a pause of up to 100 ms, while the last writer begins anew at once: beside busy writers it can take
// seconds.
type turn chan struct{}

var errTurn = errors.New("another transaction of this process has been writing for seconds; look for an application's transaction that stays open")

func (t turn) take(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errTurn
	}
}

func (t turn) end() { <-t }

// orderly is what a pool of OpenDB's connects with: its writing transactions take turns with those of the store.
type orderly struct {
	driver.Connector
	db *db
}

func (o orderly) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := o.Connector.Connect(ctx)
	if err != nil {
		return nil, o.db.fail("open", err)
	}
	return &orderlyConn{c.(connection), o.db, o.db.leases.opened.times()}, nil
}

// connection is what database/sql may ask of one.
type connection interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type orderlyConn struct {
	connection
	db    *db
	since int // how many times the shared memory had been torn when it was opened
}

// ResetSession and IsValid have database/sql close a connection that goes on with memory which was torn.
func (c *orderlyConn) ResetSession(ctx context.Context) error {
	if !c.IsValid() {
		return driver.ErrBadConn
	}
	return c.connection.ResetSession(ctx)
}

func (c *orderlyConn) IsValid() bool {
	return c.since == c.db.leases.opened.times() && c.connection.IsValid()
}

// BeginTx begins a transaction. One that only reads waits for nobody.
func (c *orderlyConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o.ReadOnly {
		return c.connection.BeginTx(ctx, o)
	}
	turn := c.db.leases.turn
	if err := turn.take(ctx, time.Now().Add(busyFor)); err != nil {
		return nil, fail("write to", c.db.path, err)
	}
	tx, err := c.connection.BeginTx(ctx, o)
	if err != nil {
		turn.end()
		return nil, c.db.fail("write to", err)
	}
	return &orderlyTx{tx, turn}, nil
}

type orderlyTx struct {
	driver.Tx
	turn turn
}

func (t *orderlyTx) Commit() error {
	defer t.turn.end()
	return t.Tx.Commit()
}

func (t *orderlyTx) Rollback() error {
	defer t.turn.end()
	return t.Tx.Rollback()
}
