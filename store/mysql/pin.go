package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
	"time"
)

// pin is the one connection on which a process holds its named locks. Requests go one by one, each in a goroutine
// that outlives an impatient caller: the driver closes the connection of a request that is given up, and that would
// free every lock at a hiccup of the server.
type pin struct {
	d        *database
	patience time.Duration // after which no answer means that the connection is lost
	lost     func()

	turn   chan struct{} // holds the connection's turn
	mu     sync.Mutex    // guards closed
	closed bool
	conn   *sql.Conn // nil until it is needed
}

func newPin(d *database, patience time.Duration, lost func()) *pin {
	return &pin{d: d, patience: patience, lost: lost, turn: make(chan struct{}, 1)}
}

// asker sends a SELECT of integers, and returns its one row.
type asker func(query string) ([]int64, error)

// do carries out request when it is its turn. If ctx ends before the answer, do returns, and undo (if not nil) is
// carried out after it. A new connection is as good as the old one here: a lost one has been reported by lost before.
func (p *pin) do(ctx context.Context, request, undo func(asker) error) error {
	done := make(chan error)
	go func() {
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return // nothing was sent
		}
		defer func() { <-p.turn }()
		work, cancel := context.WithTimeout(context.Background(), p.patience)
		defer cancel()
		err := p.attempt(work, request)
		select {
		case done <- err:
		case <-ctx.Done():
			if err == nil && undo != nil {
				_ = p.attempt(work, undo)
			}
		}
	}()
	select {
	case err := <-done:
		return p.d.explain(err)
	case <-ctx.Done():
		return p.d.explain(ctx.Err())
	}
}

// attempt carries out a request on the connection as it is, and if that turns out to be dead, once
// more on a new one.
func (p *pin) attempt(ctx context.Context, request func(asker) error) error {
	fresh, err := p.connect(ctx)
	if err != nil {
		return err
	}
	ask := func(query string) ([]int64, error) { return askInts(ctx, p.conn, query) }
	if err = request(ask); err == nil {
		return nil
	}
	p.drop()
	if fresh || ctx.Err() != nil {
		return err
	}
	if _, err := p.connect(ctx); err != nil {
		return err
	}
	if err = request(ask); err != nil {
		p.drop()
	}
	return err
}

func (p *pin) connect(ctx context.Context) (fresh bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false, errClosed
	}
	if p.conn == nil {
		p.conn, err = p.d.db.Conn(ctx)
		fresh = true
	}
	return fresh, err
}

// drop closes the connection for good, so that the server frees its locks.
func (p *pin) drop() {
	_ = p.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = p.conn.Close()
	p.conn = nil
	p.lost()
}

// close waits for the request that is under way.
func (p *pin) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	if p.conn != nil {
		p.drop()
	}
	return nil
}

func askInts(ctx context.Context, conn *sql.Conn, query string) ([]int64, error) {
	r, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	columns, err := r.Columns()
	if err != nil {
		return nil, err
	}
	values, into := make([]int64, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for r.Next() {
		if err := r.Scan(into...); err != nil {
			return nil, err
		}
	}
	return values, r.Err()
}
