package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	mysqldriver "github.com/go-sql-driver/mysql"

	"github.com/dibs-run/dibs/lease"
)

// database sends packets for one namespace. Leases, ticks, history and queues share it. It is safe for concurrent
// use.
type database struct {
	db       *sql.DB
	addr     string // without its password
	ns       []byte
	identity string // the piece of a statement that says which server this is
	// shared says that other code uses these sessions too, and may leave one within a transaction or without
	// autocommit. A statement that is to be a transaction by itself is then followed by COMMIT.
	shared bool
	// maxTTL is the longest TTL that was seen, in µs. Each acquire and renewal compares it. If the namespace's record
	// is gone, or was made anew with a shorter one, leases of this length may still be held (rule L9).
	maxTTL atomic.Int64
	// migrations are those that this program knows: Migrations, except in tests.
	migrations fs.FS
}

// reader takes one row of a result set.
type reader func(*sql.Rows) error

// run sends p and gives the rows of its i-th result set to readers[i]. It returns once the server has answered every
// statement, COMMIT included. Do not use what the readers saw if it returns an error.
//
// After a deadlock it sends the packet again, once. That retries nothing unknown: the server has rolled the
// transaction back before it says so, and the second packet checks not_after for itself.
func (d *database) run(ctx context.Context, p *packet, readers ...reader) error {
	read, err := d.send(ctx, p, readers)
	if number(err) == 1213 && !read {
		_, err = d.send(ctx, p, readers)
	}
	return d.explain(err)
}

// send reports whether a reader has seen a row.
func (d *database) send(ctx context.Context, p *packet, readers []reader) (read bool, err error) {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	if read, err = consume(ctx, conn, p, readers); err != nil {
		// The connection may be inside an open transaction and hold its locks: it must not go back into the pool.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = conn.Close()
	return read, err
}

func consume(ctx context.Context, conn *sql.Conn, p *packet, readers []reader) (read bool, err error) {
	for text, args := range p.parts() {
		r, err := conn.QueryContext(ctx, text, args...)
		if err != nil {
			return read, err
		}
		some, sets, err := hand(r, readers)
		if read = read || some; err != nil {
			return read, err
		}
		readers = readers[sets:]
	}
	return read, nil
}

// hand gives each result set of r to its reader.
func hand(r *sql.Rows, readers []reader) (read bool, sets int, err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	columns, err := r.Columns()
	for is := len(columns) > 0; err == nil && is && sets < len(readers); sets++ {
		for r.Next() {
			read = true
			if err := readers[sets](r); err != nil {
				return read, sets, err
			}
		}
		is = r.NextResultSet()
	}
	return read, sets, errors.Join(err, r.Err())
}

// number is the server's error number; 0 if err is not the server's.
func number(err error) uint16 {
	var e *mysqldriver.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// explain says where an error happened, what it means and what to do about it.
func (d *database) explain(err error) error {
	if err == nil || errors.Is(err, lease.ErrUnavailable) {
		return err
	}
	if r := refusal(""); errors.As(err, &r) {
		return fmt.Errorf("mysql store %s: %w", d.addr, err)
	}
	if n := number(err); n != 0 && !outage[n] {
		return fmt.Errorf("mysql store %s: %w%s", d.addr, err, cures[n])
	}
	return fmt.Errorf("mysql store %s: %w: %w%s", d.addr, lease.ErrUnavailable, err, cures[number(err)])
}

// outage are the server's errors that mean "not now" rather than "not like this".
var outage = map[uint16]bool{
	1040: true,                                                                                     // too many connections
	1047: true,                                                                                     // the node is not part of a cluster
	1053: true,                                                                                     // shutting down
	1077: true, 1079: true, 1152: true, 1158: true, 1159: true, 1160: true, 1161: true, 1184: true, // connection trouble
	1203: true, 1226: true, // the user's share of connections
	1205: true, 1213: true, 1467: true, // lock wait timeout, deadlock, timeout of the lock of a table's next id
	1290: true, 1792: true, 1836: true, // read-only, as a replica is
	1317: true, 1927: true, // killed
	1969: true, 3024: true, // statement timeout
	3100: true, // group replication refused it
}

var cures = map[uint16]string{
	1040: "; raise max_connections",
	1044: "; grant the user the rights of docs/reference/stores.md on the database",
	1045: "; correct the user or the password in the address",
	1049: "; create it: CREATE DATABASE …",
	1142: "; grant the user the rights of docs/reference/stores.md on the database",
	1146: "; the tables are gone: run dibs init",
	1153: "; raise max_allowed_packet on the server",
	1205: "; a long transaction holds a row of a dibs_ table: see SHOW PROCESSLIST",
	1467: "; a long INSERT … SELECT into a dibs_ table holds its next id: see SHOW PROCESSLIST",
	1290: "; use the address of the server that accepts writes",
	1792: "; use the address of the server that accepts writes",
	1836: "; use the address of the server that accepts writes",
	1665: "; set binlog_format to ROW or MIXED on the server",
}
