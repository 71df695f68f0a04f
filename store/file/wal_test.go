//go:build linux

package file

import (
	"database/sql"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
)

// Whoever writes keeps the write-ahead log short, although somebody reads at every moment.
func TestTheLogStaysShortBesideReaders(t *testing.T) {
	for _, each := range []time.Duration{5 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(each.String(), func(t *testing.T) { logBesideReaders(t, each) })
	}
}

// logBesideReaders has the next one begin to read before the last one has ended, which each does for so long.
func logBesideReaders(t *testing.T, each time.Duration) {
	s := openAt(t, t.TempDir())
	write := func() {
		if err := s.History.Append(t.Context(), []history.Event{{Kind: "test", Key: "k", Reason: "r"}}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	db := inside(s)
	readers := db.pool(2, "_pragma=busy_timeout(5000)&_pragma=query_only(1)")
	defer readers.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	begin := func() *sql.Tx {
		tx, err := readers.Begin()
		if err == nil {
			err = tx.QueryRow("SELECT count(*) FROM dibs_schema").Scan(new(int))
		}
		if err != nil {
			t.Error(err)
		}
		return tx
	}
	go func() {
		defer close(stopped)
		for last := begin(); ; {
			time.Sleep(each)
			next := begin()
			_ = last.Rollback()
			last = next
			select {
			case <-stop:
				_ = last.Rollback()
				return
			default:
			}
		}
	}()
	longest, shortened := int64(0), false
	for end := time.Now().Add(2 * time.Minute); !shortened && time.Now().Before(end) && longest < 16*mostLog; {
		write()
		size := db.logSize()
		longest, shortened = max(longest, size), size < longest
	}
	close(stop)
	<-stopped
	if !shortened {
		t.Errorf("the log is %d bytes long, and was never shortened", longest)
	}
}
