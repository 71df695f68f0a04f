package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dibs-run/dibs/lease"
)

var (
	// errStandby is why a connection to a standby is given up.
	errStandby = errors.New("the server is a read-only standby; use the primary's address, or list every host in it: dibs finds the primary among them")
	// errReadOnly is why a server that is no standby takes no writes.
	errReadOnly = errors.New("the server is no standby, but transactions on this connection are read-only: default_transaction_read_only is on, for its role, its database, " +
		"the server or the connection itself; where it was set, set it to off (ALTER ROLE … or ALTER DATABASE … SET default_transaction_read_only = off), and reconnect the pooler or the pool")
	// errNoWrites is said later: which of the two it is, only this very connection could tell, and it may be gone.
	errNoWrites = errors.New("the transaction is read-only: begin one that may write; or default_transaction_read_only is on (ALTER ROLE … or ALTER DATABASE … SET " +
		"default_transaction_read_only = off), or the server is a standby (use the primary's address)")
	// errRecord is wrapped when a record cannot be read.
	errRecord = errors.New("the record is damaged")
)

// fail says what an error of the client means: an answer that refuses, or no usable answer, which
// wraps lease.ErrUnavailable. Either way nothing is known to be done.
func (d *db) fail(what string, err error) error {
	var refused *pgconn.PgError
	switch {
	case errors.Is(err, errRecord):
		return fmt.Errorf("postgres store %s: %s: %w", d.address, what, err)
	case errors.As(err, &refused):
		return d.refusal(what, refused)
	}
	return fmt.Errorf("postgres store %s: %s: %w: %w", d.address, what, lease.ErrUnavailable, err)
}

func (d *db) refusal(what string, e *pgconn.PgError) error {
	switch e.Code {
	case "25006":
		return fmt.Errorf("postgres store %s: %s: %w: %w", d.address, what, lease.ErrUnavailable, errNoWrites)
	case "40001", "40P01":
		return fmt.Errorf("postgres store %s: %s: %w: the server rolled it back in favour of another transaction; nothing was done, try again: %w", d.address, what, lease.ErrUnavailable, e)
	case "55P03":
		return fmt.Errorf("postgres store %s: %s: %w: another transaction held the rows for too long; look for a long one in pg_stat_activity: %w", d.address, what, lease.ErrUnavailable, e)
	case "42P05", "26000":
		return fmt.Errorf("postgres store %s: %s: a pooler in transaction mode is in the way, and this connection keeps prepared statements; nothing was done: open the pool with default_query_exec_mode=exec, or leave that parameter out of the address: %w", d.address, what, e)
	case "42501":
		return fmt.Errorf("postgres store %s: %s: the role lacks a right; run `dibs init` as the owner of the schema dibs, or grant the role the rights of docs/reference/stores.md: %w", d.address, what, e)
	case "3F000", "42P01", "42883":
		return fmt.Errorf("postgres store %s: %s: the schema dibs is incomplete; run `dibs init`: %w", d.address, what, e)
	}
	switch e.Code[:min(2, len(e.Code))] {
	case "08", "53", "57", "58": // connection, resources, shutdown or cancel, the system below
		return fmt.Errorf("postgres store %s: %s: %w: %w", d.address, what, lease.ErrUnavailable, e)
	}
	return fmt.Errorf("postgres store %s: %s: %w", d.address, what, e)
}
