//go:build linux

package file

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

const (
	// mostLog is how long the write-ahead log may get, in bytes, before a writer sees to it: twice of where SQLite
	// begins to copy it back after each commit.
	mostLog = 8 << 20
	// shortenEvery and shortenSeldom are how long a process waits after it could not: it doubles.
	shortenEvery, shortenSeldom = time.Second, time.Minute
)

// A log is the write-ahead log, as far as this process looks after it. SQLite begins it anew only when a writer finds
// that all of it was copied into the database and that nobody reads it. Where somebody always reads, nobody finds that,
// and the log grows until the disk is full, when it cannot be copied any more either.
type log struct {
	mu    sync.Mutex
	next  time.Time
	pause time.Duration
}

// shorten empties a log that has become long: it keeps other writers out, waits for those who read it, for as long as
// the connection waits where it is busy, and copies it. A process that is stopped while it reads prevents that.
func (s *db) shorten(ctx context.Context, p *sql.DB) {
	if !s.log.mu.TryLock() {
		return // somebody else is at it
	}
	defer s.log.mu.Unlock()
	if time.Now().Before(s.log.next) || s.logSize() < mostLog {
		return
	}
	var busy, frames, copied int
	err := p.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &copied)
	if err == nil && busy == 0 {
		s.log.pause = 0
		return
	}
	s.log.pause = min(max(2*s.log.pause, shortenEvery), shortenSeldom)
	s.log.next = time.Now().Add(s.log.pause)
}

// logSize is in bytes; 0 where there is no log.
func (s *db) logSize() int64 {
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	if at == nil {
		return 0
	}
	st, err := at.Stat(databaseName + "-wal")
	if err != nil {
		return 0
	}
	return st.Size
}
