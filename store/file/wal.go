//go:build linux

package file

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
)

const (
	// mostLog is how long the write-ahead log may get, in bytes, before a writer empties it: twice the length at
	// which SQLite begins to copy it back after each commit.
	mostLog = 8 << 20
	// logPatience is how long it waits for readers for each mostLog that the log is long, at most logPatiences
	// times that.
	logPatience, logPatiences = busyTimeout, 10
)

// A log is the write-ahead log, as far as this process looks after it. SQLite begins it anew only when a writer finds
// that all of it was copied into the database and nobody reads it. If there always is a reader, that never happens,
// and the log grows until the disk is full, when it cannot be copied any more either.
type log struct {
	mu    sync.Mutex
	grown int64 // how long it was when it could not be emptied
}

// shorten empties a long log: it keeps other writers out, waits for readers, the longer the log is, and copies it. If
// that fails, it tries again only once the log has doubled: a stopped reader or a long report may keep the log for
// long, and writers must not wait for that again and again.
func (s *db) shorten(ctx context.Context, p *sql.DB) {
	if !s.log.mu.TryLock() {
		return // somebody else is at it
	}
	defer s.log.mu.Unlock()
	size := s.logSize()
	if size < mostLog {
		s.log.grown = 0
	}
	if size < max(mostLog, 2*s.log.grown) {
		return
	}
	if s.log.grown = size; empty(ctx, p, min(size/mostLog, logPatiences)*logPatience.Milliseconds()) {
		s.log.grown = 0
	}
}

// empty says whether it has emptied the log. It waits for others for some milliseconds.
func empty(ctx context.Context, p *sql.DB, patience int64) bool {
	c, err := p.Conn(ctx)
	if err != nil {
		return false
	}
	defer c.Close()
	wait := func(ms int64) error {
		_, err := c.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA busy_timeout(%d)", ms))
		return err
	}
	defer func() { _ = wait(busyTimeout.Milliseconds()) }() // a connection that fails is replaced
	if wait(patience) != nil {
		return false
	}
	var busy, frames, copied int
	err = c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &copied)
	return err == nil && busy == 0
}

// logSize is in bytes; 0 where there is no log.
func (s *db) logSize() int64 {
	at := s.at.Load()
	if at == nil {
		return 0
	}
	st, err := at.Stat(databaseName + "-wal")
	if err != nil {
		return 0
	}
	return st.Size
}
